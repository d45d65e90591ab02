//! Requests of a file that are sent ahead of each other, and their ends after failures.
use hakaru_smb::wire::{
    Command, CreateResponse, FLAG_RELATED, FileFacts, FileId, Path, ReadRequest, Status,
    WriteRequest, emit_close_response, emit_error, emit_read_response, emit_write_response,
    parse_file,
};
use hakaru_smb::{ConnectionError, Event, FileRun, OpError, OpId, Step, StepDone, StepError};
use hakaru_units::Time;

use crate::server::{Request, Server, config};

const FILE: FileId = FileId([9; 16]);

fn open() -> Step {
    Step::OpenWrite {
        path: Path::new("a").unwrap(),
    }
}

fn write(offset: u64) -> Step {
    Step::Write {
        offset,
        data: vec![7; 10].into(),
    }
}

fn begin(server: &mut Server, run: &mut FileRun, steps: Vec<Step>) -> Vec<Request> {
    run.begin(server.now, &mut server.connection, steps)
        .unwrap();
    std::iter::from_fn(|| server.try_take()).collect()
}

/// Passes all events on. Returns the steps that have ended.
fn settle(server: &mut Server, run: &mut FileRun) -> Vec<StepDone> {
    let mut ended = Vec::new();
    while let Some(event) = server.connection.poll_event() {
        if let Event::Done(done) = event {
            assert!(run.owns(done.id));
            ended.extend(run.handle_done(server.now, &mut server.connection, done));
        }
    }
    ended
}

fn succeed(server: &mut Server, request: &Request) {
    let facts = FileFacts {
        length_bytes: 700,
        ..FileFacts::default()
    };
    let response = CreateResponse {
        action: 1,
        facts,
        file: FILE,
    };
    server.respond(request, Status::SUCCESS, 1, |out| {
        match request.header.command {
            Command::Create => response.emit(out),
            Command::Write => emit_write_response(10, out),
            Command::Read => emit_read_response(b"abc", out),
            _ => emit_close_response(out),
        }
    });
}

fn commands(requests: &[Request]) -> Vec<(Command, bool)> {
    let related = |request: &Request| request.header.has(FLAG_RELATED);
    let commands = requests.iter();
    commands.map(|r| (r.header.command, related(r))).collect()
}

fn results(ended: Vec<StepDone>) -> Vec<Result<u64, StepError>> {
    ended.into_iter().map(|step| step.result).collect()
}

fn refused(status: Status) -> Result<u64, StepError> {
    Err(StepError::Op(OpError::Status(status)))
}

#[test]
fn a_small_file_is_one_frame_and_each_step_ends_with_its_own_response() {
    let mut server = Server::logged_in(config(), 10);
    let mut run = FileRun::new();
    let before = server.frames;
    server.now = Time(5);
    let requests = begin(&mut server, &mut run, vec![open(), write(0), Step::Close]);
    assert_eq!(server.frames, before + 1);
    let expected = [
        (Command::Create, false),
        (Command::Write, true),
        (Command::Close, true),
    ];
    assert_eq!(commands(&requests), expected);
    let (request, data) = WriteRequest::parse(&requests[1].message).unwrap();
    assert_eq!((request.file, data), (FileId::RELATED, &[7; 10][..]));
    assert_eq!(parse_file(&requests[2].message), Ok(FileId::RELATED));
    for (n, request) in requests.iter().enumerate() {
        server.now = Time(10 + n as u64);
        succeed(&mut server, request);
    }
    let ended = settle(&mut server, &mut run);
    let times: Vec<_> = ended.iter().map(|step| (step.begun, step.ended)).collect();
    assert_eq!(
        times,
        [10, 11, 12].map(|end| (Time(5), Time(end))),
        "all are begun with the compound"
    );
    assert_eq!(results(ended), [Ok(700), Ok(10), Ok(0)]);
    assert!(server.try_take().is_none());
}

#[test]
fn parts_of_an_open_file_are_requests_apart_that_may_end_in_any_order() {
    let mut server = Server::logged_in(config(), 10);
    let mut run = FileRun::new();
    let requests = begin(&mut server, &mut run, vec![open(), write(0)]);
    requests.iter().for_each(|r| succeed(&mut server, r));
    assert_eq!(results(settle(&mut server, &mut run)), [Ok(700), Ok(10)]);
    let before = server.frames;
    let read = Step::Read {
        offset: 20,
        length: 3,
        keep: true,
    };
    let requests = begin(&mut server, &mut run, vec![write(10), read]);
    assert_eq!(server.frames, before + 2);
    let expected = [(Command::Write, false), (Command::Read, false)];
    assert_eq!(commands(&requests), expected);
    assert_eq!(
        WriteRequest::parse(&requests[0].message).unwrap().0.file,
        FILE
    );
    assert_eq!(ReadRequest::parse(&requests[1].message).unwrap().file, FILE);
    requests.iter().rev().for_each(|r| succeed(&mut server, r));
    let ended = settle(&mut server, &mut run);
    assert_eq!(ended[0].data[..], *b"abc");
    assert_eq!(results(ended), [Ok(3), Ok(10)]);
    // The last part and the close are one compound, which names the file.
    let requests = begin(&mut server, &mut run, vec![write(30), Step::Close]);
    assert_eq!(
        commands(&requests),
        [(Command::Write, false), (Command::Close, true)]
    );
    assert_eq!(
        WriteRequest::parse(&requests[0].message).unwrap().0.file,
        FILE
    );
    requests.iter().for_each(|r| succeed(&mut server, r));
    assert_eq!(results(settle(&mut server, &mut run)), [Ok(10), Ok(0)]);
    let again = run.begin(Time(0), &mut server.connection, vec![Step::Close]);
    assert_eq!(again, Err(StepError::NotOpen));
}

#[test]
fn a_file_that_its_compound_left_open_is_closed_without_a_further_step() {
    let mut server = Server::logged_in(config(), 10);
    let mut run = FileRun::new();
    let requests = begin(&mut server, &mut run, vec![open(), write(0), Step::Close]);
    succeed(&mut server, &requests[0]);
    server.refuse(&requests[1], Status::DISK_FULL);
    server.refuse(&requests[2], Status::DISK_FULL);
    let full = refused(Status::DISK_FULL);
    let expected = [Ok(700), full, full];
    assert_eq!(results(settle(&mut server, &mut run)), expected);
    let close = server.take();
    assert_eq!(close.header.command, Command::Close);
    assert_eq!(parse_file(&close.message), Ok(FILE));
    // The next file need not wait for it.
    let requests = begin(&mut server, &mut run, vec![open(), Step::Close]);
    succeed(&mut server, &close);
    assert_eq!(results(settle(&mut server, &mut run)), []);
    requests.iter().for_each(|r| succeed(&mut server, r));
    assert_eq!(results(settle(&mut server, &mut run)), [Ok(700), Ok(0)]);
}

#[test]
fn files_that_several_compounds_left_open_may_be_closed_in_any_order() {
    let mut server = Server::logged_in(config(), 20);
    let mut run = FileRun::new();
    let mut closes = Vec::new();
    for _ in 0..2 {
        let requests = begin(&mut server, &mut run, vec![open(), write(0), Step::Close]);
        succeed(&mut server, &requests[0]);
        server.refuse(&requests[1], Status::DISK_FULL);
        server.refuse(&requests[2], Status::DISK_FULL);
        let full = refused(Status::DISK_FULL);
        assert_eq!(
            results(settle(&mut server, &mut run)),
            [Ok(700), full, full]
        );
        closes.push(server.take());
    }
    for close in closes.iter().rev() {
        succeed(&mut server, close);
        assert_eq!(results(settle(&mut server, &mut run)), []);
    }
}

#[test]
fn a_failed_open_leaves_nothing_to_close() {
    let mut server = Server::logged_in(config(), 10);
    let mut run = FileRun::new();
    let requests = begin(&mut server, &mut run, vec![open(), write(0), Step::Close]);
    for request in &requests {
        server.respond(request, Status::ACCESS_DENIED, 1, emit_error);
    }
    let denied = vec![refused(Status::ACCESS_DENIED); 3];
    assert_eq!(results(settle(&mut server, &mut run)), denied);
    assert!(server.try_take().is_none());
}

#[test]
fn a_lost_connection_ends_every_step() {
    let mut server = Server::logged_in(config(), 10);
    let mut run = FileRun::new();
    let requests = begin(&mut server, &mut run, vec![open(), write(0), Step::Close]);
    succeed(&mut server, &requests[0]);
    server.connection.handle_closed(Time(5), "(test)");
    let lost = Err(StepError::Op(OpError::Lost(ConnectionError::Closed(
        "(test)",
    ))));
    let expected = [Ok(700), lost, lost];
    assert_eq!(results(settle(&mut server, &mut run)), expected);
    assert!(!run.owns(OpId(0)));
}

#[test]
fn steps_need_an_open_file_or_none() {
    let mut server = Server::logged_in(config(), 10);
    let mut run = FileRun::new();
    let mut refuse = |run: &mut FileRun, steps, error| {
        let begun = run.begin(Time(0), &mut server.connection, steps);
        assert_eq!(begun, Err(error));
    };
    refuse(&mut run, vec![write(0)], StepError::NotOpen);
    refuse(&mut run, vec![open(), open()], StepError::Open);
    assert!(server.try_take().is_none());
}
