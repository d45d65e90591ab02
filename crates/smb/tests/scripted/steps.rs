//! Requests that steps by path send, and their ends after failures.
use hakaru_smb::wire::{
    ATTRIBUTE_DIRECTORY, Command, CreateResponse, DirectoryEntry, FileFacts, FileId, Path, Status,
    emit_buffer_response, emit_close_response, emit_entries, emit_error, emit_set_info_response,
    parse_file,
};
use hakaru_smb::{ConnectionError, Event, FileSteps, OpError, Step, StepDone, StepError};
use hakaru_units::Time;

use crate::server::{Request, Server, config};

const FILE: FileId = FileId([9; 16]);

/// Passes all events on. Returns the end of the step, if it has ended.
fn settle(server: &mut Server, steps: &mut FileSteps) -> Option<StepDone> {
    let mut ended = None;
    while let Some(event) = server.connection.poll_event() {
        if let Event::Done(done) = event {
            assert!(ended.is_none(), "an operation after the end of the step");
            ended = steps.handle_done(server.now, &mut server.connection, done);
        }
    }
    ended
}

fn created(server: &mut Server, request: &Request) {
    let length_bytes = 700;
    open(
        server,
        request,
        FileFacts {
            length_bytes,
            ..FileFacts::default()
        },
    );
}

fn opened_folder(server: &mut Server, request: &Request) {
    let attributes = ATTRIBUTE_DIRECTORY;
    open(
        server,
        request,
        FileFacts {
            attributes,
            ..FileFacts::default()
        },
    );
}

fn open(server: &mut Server, request: &Request, facts: FileFacts) {
    let response = CreateResponse {
        action: 1,
        facts,
        file: FILE,
    };
    server.respond(request, Status::SUCCESS, 1, |out| response.emit(out));
}

fn rename() -> Step {
    Step::Rename {
        path: Path::new("a").unwrap(),
        to: Path::new("b").unwrap(),
    }
}

fn begin(server: &mut Server, steps: &mut FileSteps, step: Step) {
    steps
        .begin(server.now, &mut server.connection, step)
        .unwrap();
}

#[test]
fn requests_apart_are_sent_one_after_another() {
    let mut server = Server::logged_in(config(), 10);
    let mut steps = FileSteps::new(false);
    begin(&mut server, &mut steps, rename());
    let create = server.take();
    assert!(server.try_take().is_none());
    created(&mut server, &create);
    assert!(settle(&mut server, &mut steps).is_none());
    let set = server.take();
    assert_eq!(set.header.command, Command::SetInfo);
    server.respond(&set, Status::SUCCESS, 1, emit_set_info_response);
    assert!(settle(&mut server, &mut steps).is_none());
    let close = server.take();
    assert_eq!(parse_file(&close.message), Ok(FILE));
    server.now = Time(77);
    server.respond(&close, Status::SUCCESS, 1, emit_close_response);
    let end = settle(&mut server, &mut steps).unwrap();
    assert_eq!((end.begun, end.ended), (Time(0), Time(77)));
    assert_eq!(end.result, Ok(700));
}

#[test]
fn a_step_that_fails_closes_the_file_that_it_opened() {
    let mut server = Server::logged_in(config(), 10);
    let mut steps = FileSteps::new(false);
    begin(&mut server, &mut steps, rename());
    let create = server.take();
    created(&mut server, &create);
    settle(&mut server, &mut steps);
    let set = server.take();
    server.refuse(&set, Status::ACCESS_DENIED);
    assert!(settle(&mut server, &mut steps).is_none());
    let close = server.take();
    assert_eq!(parse_file(&close.message), Ok(FILE));
    server.respond(&close, Status::SUCCESS, 1, emit_close_response);
    let denied = StepError::Op(OpError::Status(Status::ACCESS_DENIED));
    assert_eq!(settle(&mut server, &mut steps).unwrap().result, Err(denied));
}

#[test]
fn a_folder_is_listed_to_its_end_before_it_is_closed() {
    for compound in [false, true] {
        let mut server = Server::logged_in(config(), 10);
        let mut steps = FileSteps::new(compound);
        let path = Path::new("folder").unwrap();
        begin(&mut server, &mut steps, Step::List { path });
        let create = server.take();
        let mut list = compound.then(|| server.take());
        opened_folder(&mut server, &create);
        assert!(settle(&mut server, &mut steps).is_none());
        for names in [3, 2] {
            let request = list.take().unwrap_or_else(|| server.take());
            assert_eq!(request.header.command, Command::QueryDirectory);
            let entry = |n| DirectoryEntry {
                name: format!("file {n}"),
                facts: FileFacts::default(),
            };
            let mut page = Vec::new();
            emit_entries(&(0..names).map(entry).collect::<Vec<_>>(), &mut page);
            server.respond(&request, Status::SUCCESS, 1, |out| {
                emit_buffer_response(&page, out);
            });
            assert!(settle(&mut server, &mut steps).is_none());
        }
        let last = server.take();
        server.refuse(&last, Status::NO_MORE_FILES);
        assert!(settle(&mut server, &mut steps).is_none());
        let close = server.take();
        assert_eq!(parse_file(&close.message), Ok(FILE));
        server.respond(&close, Status::SUCCESS, 1, emit_close_response);
        assert_eq!(settle(&mut server, &mut steps).unwrap().result, Ok(5));
    }
}

#[test]
fn a_folder_that_cannot_be_listed_is_closed() {
    for compound in [false, true] {
        let mut server = Server::logged_in(config(), 10);
        let mut steps = FileSteps::new(compound);
        let path = Path::new("folder").unwrap();
        begin(&mut server, &mut steps, Step::List { path });
        let create = server.take();
        let list = compound.then(|| server.take());
        opened_folder(&mut server, &create);
        assert!(settle(&mut server, &mut steps).is_none());
        let list = list.unwrap_or_else(|| server.take());
        server.refuse(&list, Status::ACCESS_DENIED);
        assert!(settle(&mut server, &mut steps).is_none());
        let close = server.take();
        assert_eq!(parse_file(&close.message), Ok(FILE));
        server.respond(&close, Status::SUCCESS, 1, emit_close_response);
        let denied = StepError::Op(OpError::Status(Status::ACCESS_DENIED));
        assert_eq!(settle(&mut server, &mut steps).unwrap().result, Err(denied));
    }
}

#[test]
fn a_step_whose_open_fails_ends_at_once() {
    for compound in [false, true] {
        let mut server = Server::logged_in(config(), 10);
        let mut steps = FileSteps::new(compound);
        begin(&mut server, &mut steps, rename());
        while let Some(request) = server.try_take() {
            server.respond(&request, Status::OBJECT_NAME_NOT_FOUND, 1, emit_error);
        }
        let missing = StepError::Op(OpError::Status(Status::OBJECT_NAME_NOT_FOUND));
        assert_eq!(
            settle(&mut server, &mut steps).unwrap().result,
            Err(missing)
        );
        assert!(server.try_take().is_none());
    }
}

#[test]
fn a_lost_connection_ends_the_step() {
    for (compound, answered) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut server = Server::logged_in(config(), 10);
        let mut steps = FileSteps::new(compound);
        begin(&mut server, &mut steps, rename());
        let create = server.take();
        if answered {
            created(&mut server, &create);
            assert!(settle(&mut server, &mut steps).is_none());
        }
        server.connection.handle_closed(Time(5), "(test)");
        let lost = StepError::Op(OpError::Lost(ConnectionError::Closed("(test)")));
        assert_eq!(settle(&mut server, &mut steps).unwrap().result, Err(lost));
    }
}

#[test]
fn steps_need_an_open_file_or_none() {
    let mut server = Server::logged_in(config(), 10);
    let mut steps = FileSteps::new(true);
    let read = || Step::Read {
        offset: 0,
        length: 5,
        keep: true,
    };
    let now = server.now;
    let refused = steps.begin(now, &mut server.connection, read());
    assert_eq!(refused, Err(StepError::NotOpen));
    let open = || Step::OpenRead {
        path: Path::new("a").unwrap(),
    };
    begin(&mut server, &mut steps, open());
    let create = server.take();
    created(&mut server, &create);
    assert_eq!(settle(&mut server, &mut steps).unwrap().result, Ok(700));
    assert!(steps.has_open_file());
    let refused = steps.begin(now, &mut server.connection, open());
    assert_eq!(refused, Err(StepError::Open));
    // A CLOSE ends the use of the file even if the server refuses it.
    begin(&mut server, &mut steps, Step::Close);
    let close = server.take();
    server.refuse(&close, Status::DISK_FULL);
    assert!(settle(&mut server, &mut steps).unwrap().result.is_err());
    assert!(!steps.has_open_file());
}
