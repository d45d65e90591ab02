//! Scripted exchanges between a connection and a server that the test plays, with the time as a
//! variable.
mod file_run;
mod messages;
mod mutations;
mod server;
mod steps;

use std::time::Duration;

use hakaru_smb::wire::{
    Access, Change, Command, CreateRequest, CreateResponse, Disposition, FLAG_RELATED,
    FLAG_RESPONSE, FileFacts, FileId, Header, OPTION_FILE, Path, ReadRequest, Sharing, Status,
    UNSOLICITED, WireError, WriteRequest, emit_buffer_response, emit_close_response, emit_empty,
    emit_read_response, emit_set_info_response, emit_write_response,
};
use hakaru_smb::{ConnectionError, Done, Event, Op, OpError, OpId, Output, WriteData};
use hakaru_units::Time;
use server::{Request, SESSION, Server, TREE, config, negotiated, response};

const FILE: FileId = FileId([9; 16]);
const KIB_64: u32 = 64 << 10;

fn read(length: u32) -> Op {
    Op::Read {
        file: FILE,
        offset: 7,
        length,
        keep: true,
    }
}

fn open() -> Op {
    Op::Create(CreateRequest {
        path: Path::new("a").unwrap(),
        access: Access::READ,
        sharing: Sharing::ALL,
        disposition: Disposition::Open,
        options: OPTION_FILE,
    })
}

fn done(server: &mut Server) -> Done {
    match server.connection.poll_event() {
        Some(Event::Done(done)) => done,
        other => panic!("{other:?}"),
    }
}

fn lost(server: &mut Server) -> ConnectionError {
    match server.connection.poll_event() {
        Some(Event::Lost(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn answer_read(server: &mut Server, request: &Request, credits: u16) {
    let length = ReadRequest::parse(&request.message).unwrap().length;
    let data = vec![5; length as usize];
    server.respond(request, Status::SUCCESS, credits, |out| {
        emit_read_response(&data, out)
    });
}

#[test]
fn a_login_reports_limits_and_addresses_session_and_tree() {
    let mut server = Server::logged_in(config(), 10);
    let facts = *server.connection.facts().unwrap();
    assert!(facts.guest && facts.signing.is_none());
    assert_eq!(
        (facts.read_bytes_max, facts.list_bytes_max),
        (1 << 20, KIB_64)
    );
    server.connection.submit(Time(5), Op::Echo);
    let header = server.take().header;
    assert_eq!(header.session_id, SESSION);
    assert_eq!(header.tree_or_async >> 32, u64::from(TREE));
    // NEGOTIATE, two SESSION_SETUPs and TREE_CONNECT came before.
    assert_eq!((header.message_id, header.credit_charge), (4, 1));
}

#[test]
fn instants_of_an_operation_are_reported() {
    let mut server = Server::logged_in(config(), 10);
    let id = server.connection.submit(Time(100), Op::Echo);
    server.now = Time(150);
    let request = server.take();
    server.now = Time(220);
    server.respond(&request, Status::SUCCESS, 1, emit_empty);
    let done = done(&mut server);
    assert_eq!((done.id, done.result), (id, Ok(Output::Nothing)));
    let instants = (done.submitted, done.sent, done.completed);
    assert_eq!(instants, (Time(100), Time(150), Time(220)));
}

#[test]
fn operations_submitted_before_the_login_are_sent_after_it() {
    let mut server = Server::accept(config());
    let id = server.connection.submit(Time(0), Op::Echo);
    server.log_in(&negotiated(), 1);
    let request = server.take();
    server.respond(&request, Status::SUCCESS, 1, emit_empty);
    assert_eq!(done(&mut server).id, id);
}

#[test]
fn operations_wait_for_credits_in_order_and_request_what_is_missing() {
    let mut server = Server::logged_in(config(), 17);
    // 16 credits for 1 MiB, then 1 for the echo; nothing is left for the second read.
    for op in [read(1 << 20), Op::Echo, read(KIB_64 + 1), Op::Echo] {
        server.connection.submit(Time(0), op);
    }
    let (first, echo) = (server.take(), server.take());
    assert_eq!(
        (first.header.credit_charge, echo.header.credit_charge),
        (16, 1)
    );
    assert_eq!(echo.header.message_id, first.header.message_id + 16);
    // 512 are wanted: the first request asks for all that is missing, the second for its own.
    assert_eq!(
        (first.header.credits, echo.header.credits),
        (16 + 495, 1 + 495)
    );
    assert!(server.try_take().is_none());
    // One credit is too few for the read of 2; the echo behind it must not overtake it.
    server.respond(&echo, Status::SUCCESS, 1, emit_empty);
    assert!(server.try_take().is_none());
    answer_read(&mut server, &first, 2);
    let second = server.take();
    assert_eq!(
        (second.header.command, second.header.credit_charge),
        (Command::Read, 2)
    );
    assert_eq!(server.take().header.command, Command::Echo);
    assert_eq!(server.connection.credits(), 0);
}

#[test]
fn a_request_for_credits_is_never_zero() {
    let mut config = config();
    config.credits = 1;
    let mut server = Server::logged_in(config, 100);
    server.connection.submit(Time(0), Op::Echo);
    let request = server.take();
    assert_eq!(
        (request.header.credit_charge, request.header.credits),
        (1, 1)
    );
}

#[test]
fn an_operation_that_never_gets_its_credits_fails_alone() {
    let mut server = Server::logged_in(config(), 4);
    let large = server.connection.submit(Time(0), read(1 << 20));
    server.connection.submit(Time(0), read(KIB_64));
    let probe = server.take();
    assert_eq!(probe.header.command, Command::Echo);
    server.respond(&probe, Status::SUCCESS, 1, emit_empty);
    let failed = done(&mut server);
    let error = OpError::Credits {
        needed: 16,
        granted: 4,
    };
    assert_eq!((failed.id, failed.result), (large, Err(error)));
    assert_eq!(server.take().header.command, Command::Read);
}

#[test]
fn a_probe_that_obtains_credits_sends_the_operation() {
    let mut server = Server::logged_in(config(), 4);
    server.connection.submit(Time(0), read(1 << 20));
    let probe = server.take();
    server.respond(&probe, Status::SUCCESS, 100, emit_empty);
    assert_eq!(server.take().header.command, Command::Read);
}

#[test]
fn a_client_without_any_credit_ends_the_connection() {
    let mut server = Server::logged_in(config(), 1);
    let ids = [(), ()].map(|()| server.connection.submit(Time(0), Op::Echo));
    let request = server.take();
    server.respond(&request, Status::SUCCESS, 0, emit_empty);
    assert_eq!(done(&mut server).id, ids[0]);
    let error = ConnectionError::Protocol("the server left the client without credits");
    let failed = done(&mut server);
    assert_eq!(
        (failed.id, failed.result),
        (ids[1], Err(OpError::Lost(error)))
    );
    assert_eq!(lost(&mut server), error);
    assert!(server.connection.is_ended() && !server.connection.has_transmit());
}

#[test]
fn a_pending_request_is_answered_later_and_its_time_limit_begins_again() {
    let mut server = Server::logged_in(config(), 1);
    server.connection.submit(Time(0), read(100));
    let request = server.take();
    server.now = Time(1_000);
    server.postpone(&request, 5);
    assert!(server.connection.poll_event().is_none());
    assert_eq!(server.connection.credits(), 5);
    // The first time limit passes without an effect.
    let limit = Time(0) + Duration::from_secs(60);
    assert_eq!(server.connection.poll_timeout(), Some(limit));
    server.connection.handle_timeout(limit);
    assert_eq!(
        server.connection.poll_timeout(),
        Some(limit + Duration::from_micros(1))
    );
    // The final response has the same message id.
    answer_read(&mut server, &request, 0);
    assert!(
        matches!(done(&mut server).result, Ok(Output::Read { length: 100, data }) if data[..] == [5; 100])
    );
    assert_eq!(server.connection.poll_timeout(), None);
}

#[test]
fn a_server_that_does_not_answer_ends_the_connection() {
    let mut server = Server::logged_in(config(), 10);
    let first = server.connection.submit(Time(1_000), read(100));
    let second = server.connection.submit(Time(2_000), Op::Echo);
    let limit = server.connection.poll_timeout().unwrap();
    assert_eq!(limit, Time(1_000) + Duration::from_secs(60));
    server.connection.handle_timeout(Time(limit.0 - 1));
    assert!(server.connection.poll_event().is_none());
    server.connection.handle_timeout(limit);
    let error = ConnectionError::Timeout {
        request: "READ",
        after: Duration::from_secs(60),
    };
    for id in [first, second] {
        let done = done(&mut server);
        assert_eq!((done.id, done.result), (id, Err(OpError::Lost(error))));
    }
    assert_eq!(lost(&mut server), error);
    assert_eq!(error.to_string(), "READ was not answered within 60 s");
}

#[test]
fn a_login_that_is_not_answered_ends_in_time() {
    let mut server = Server::accept(config());
    server
        .connection
        .handle_timeout(Time(0) + Duration::from_secs(60));
    assert_eq!(
        lost(&mut server).to_string(),
        "NEGOTIATE was not answered within 60 s"
    );
}

#[test]
fn a_compound_is_one_frame_of_related_requests() {
    let mut server = Server::logged_in(config(), 30);
    let frames = server.frames;
    let file = FileId::RELATED;
    let data = WriteData {
        buffer: vec![3; 30].into(),
        range: 10..23,
    };
    let write = Op::Write {
        file,
        offset: 4,
        data,
    };
    let OpId(first) = server
        .connection
        .submit_related(Time(0), [open(), write, Op::Close { file }]);
    let requests = [server.take(), server.take(), server.take()];
    assert_eq!(server.frames, frames + 1);
    let commands = requests.each_ref().map(|request| request.header.command);
    assert_eq!(commands, [Command::Create, Command::Write, Command::Close]);
    for request in &requests[1..] {
        assert!(request.header.has(FLAG_RELATED));
        assert_eq!(request.header.session_id, u64::MAX);
    }
    assert!(!requests[0].header.has(FLAG_RELATED));
    // Messages begin at multiples of 8, padded with zeros behind the data.
    assert!(
        requests[..2]
            .iter()
            .all(|request| request.message.len() % 8 == 0)
    );
    let (write, data) = WriteRequest::parse(&requests[1].message).unwrap();
    assert_eq!((write.file, write.offset, data), (file, 4, &[3; 13][..]));
    assert_eq!(requests[1].message[112 + 13..], [0; 3]);

    // The server answers the first alone, the others in one frame.
    let created = CreateResponse {
        action: 1,
        facts: FileFacts::default(),
        file: FILE,
    };
    server.respond(&requests[0], Status::SUCCESS, 1, |out| created.emit(out));
    assert_eq!(done(&mut server).result, Ok(Output::Created(created)));
    let mut written = response(&requests[1].header, Status::SUCCESS, 1, |out| {
        emit_write_response(13, out);
    });
    written.resize(written.len().next_multiple_of(8), 0);
    let next = written.len() as u32;
    written[20..24].copy_from_slice(&next.to_le_bytes());
    let closed = response(&requests[2].header, Status::SUCCESS, 1, emit_close_response);
    server.send(&[written, closed].concat());
    let (second, third) = (done(&mut server), done(&mut server));
    assert_eq!(
        (second.id, second.result),
        (OpId(first + 1), Ok(Output::Written(13)))
    );
    assert_eq!(
        (third.id, third.result),
        (OpId(first + 2), Ok(Output::Nothing))
    );
}

#[test]
fn a_compound_waits_until_it_has_all_of_its_credits() {
    let mut server = Server::logged_in(config(), 2);
    let file = FileId::RELATED;
    let echo = server.connection.submit(Time(0), Op::Echo);
    server
        .connection
        .submit_related(Time(0), [open(), read(KIB_64), Op::Close { file }]);
    let request = server.take();
    assert!(server.try_take().is_none());
    server.respond(&request, Status::SUCCESS, 2, emit_empty);
    assert_eq!(done(&mut server).id, echo);
    assert_eq!(
        [server.take(), server.take(), server.take()].map(|r| r.header.command as u16),
        [5, 8, 6]
    );
}

#[test]
fn too_large_operations_fail_with_their_compound_and_nothing_is_sent() {
    let mut server = Server::logged_in(config(), 100);
    let limit = 1 << 20;
    server
        .connection
        .submit_related(Time(0), [open(), read(limit + 1)]);
    let length = limit as usize + 1;
    for _ in 0..2 {
        let limit = limit as usize;
        let error = OpError::TooLarge { length, limit };
        assert_eq!(done(&mut server).result, Err(error));
    }
    assert!(server.try_take().is_none());
    // With its headers, the last of 16 operations is too much for the length of a frame.
    for operations in [16, 20] {
        server
            .connection
            .submit_related(Time(0), std::iter::repeat_n(read(limit), operations));
        for _ in 0..operations {
            let result = done(&mut server).result;
            assert!(matches!(result, Err(OpError::TooLarge { .. })));
        }
    }
    server.connection.submit(Time(0), read(limit));
    assert_eq!(server.take().header.credit_charge, 16);
}

#[test]
fn refusals_and_ends_of_files_and_listings_are_results() {
    let mut server = Server::logged_in(config(), 100);
    let list = || Op::List {
        file: FILE,
        pattern: "*".into(),
        restart: true,
    };
    let delete = Op::Set {
        file: FILE,
        change: Change::Delete,
    };
    let mut run = |op: Op, status: Status| {
        server.connection.submit(Time(0), op);
        let request = server.take();
        server.refuse(&request, status);
        done(&mut server).result
    };
    let end = Ok(Output::Entries {
        entries: Vec::new(),
        end: true,
    });
    assert_eq!(run(list(), Status::NO_MORE_FILES), end);
    assert_eq!(run(list(), Status::NO_SUCH_FILE), end);
    let empty = run(read(10), Status::END_OF_FILE);
    assert!(matches!(empty, Ok(Output::Read { length: 0, .. })));
    let full = OpError::Status(Status::DISK_FULL);
    assert_eq!(run(delete, Status::DISK_FULL), Err(full));
    assert_eq!(full.to_string(), "STATUS_DISK_FULL (c000007fh)");
}

#[test]
fn short_reads_and_writes_report_their_length() {
    let mut server = Server::logged_in(config(), 100);
    server.connection.submit(Time(0), read(100));
    let request = server.take();
    server.respond(&request, Status::SUCCESS, 1, |out| {
        emit_read_response(b"abc", out)
    });
    let result = done(&mut server).result;
    assert!(matches!(result, Ok(Output::Read { length: 3, data }) if data[..] == *b"abc"));
    let write = Op::Write {
        file: FILE,
        offset: 0,
        data: vec![1; 9].into(),
    };
    server.connection.submit(Time(0), write);
    let request = server.take();
    server.respond(&request, Status::SUCCESS, 1, |out| {
        emit_write_response(4, out)
    });
    assert_eq!(done(&mut server).result, Ok(Output::Written(4)));
}

#[test]
fn data_that_is_not_kept_is_discarded_while_it_arrives() {
    let mut server = Server::logged_in(config(), 100);
    let unwanted = Op::Read {
        file: FILE,
        offset: 0,
        length: 100_000,
        keep: false,
    };
    server.connection.submit(Time(0), unwanted);
    let request = server.take();
    let frame = response(&request.header, Status::SUCCESS, 1, |out| {
        emit_read_response(&[5; 100_000], out);
    });
    let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&frame);
    server.connection.handle_received(Time(1), &bytes[..100]);
    // 4 bytes of the prefix, and 96 of the frame.
    assert_eq!(server.connection.unwanted_bytes(), frame.len() - 96);
    // The kernel has discarded the bytes.
    server
        .connection
        .handle_received(Time(2), &vec![0; frame.len() - 97]);
    assert_eq!(server.connection.unwanted_bytes(), 1);
    assert!(server.connection.poll_event().is_none());
    // The last byte arrives with the next frame.
    server.connection.submit(Time(2), Op::Echo);
    let echo = server.take();
    let next = response(&echo.header, Status::SUCCESS, 1, emit_empty);
    let mut rest = vec![0];
    rest.extend((next.len() as u32).to_be_bytes());
    rest.extend(next);
    server.connection.handle_received(Time(3), &rest);
    let read = done(&mut server);
    assert!(matches!(read.result, Ok(Output::Read { length: 100_000, data }) if data.is_empty()));
    assert_eq!(read.completed, Time(3));
    assert_eq!(done(&mut server).result, Ok(Output::Nothing));
}

#[test]
fn a_log_off_waits_for_operations_and_refuses_new_ones() {
    let mut server = Server::logged_in(config(), 100);
    server.connection.submit(Time(0), Op::Echo);
    server.connection.log_off(Time(0));
    let late = server.connection.submit(Time(0), Op::Echo);
    let refused = done(&mut server);
    let closed = OpError::Lost(ConnectionError::Closed("(logged off)"));
    assert_eq!((refused.id, refused.result), (late, Err(closed)));
    let echo = server.take();
    assert!(server.try_take().is_none());
    server.respond(&echo, Status::SUCCESS, 1, emit_empty);
    assert_eq!(done(&mut server).result, Ok(Output::Nothing));
    let log_off = server.take();
    assert_eq!(log_off.header.command, Command::Logoff);
    server.respond(&log_off, Status::SUCCESS, 1, emit_empty);
    assert_eq!(server.connection.poll_event(), Some(Event::LoggedOff));
    assert!(server.connection.is_ended());
}

#[test]
fn a_lost_connection_ends_its_operations_first() {
    let mut server = Server::logged_in(config(), 1);
    for op in [Op::Echo, read(5)] {
        server.connection.submit(Time(0), op);
    }
    server
        .connection
        .handle_closed(Time(9), "(reset by the server)");
    let error = ConnectionError::Closed("(reset by the server)");
    for id in 0..2 {
        let done = done(&mut server);
        assert_eq!((done.id, done.completed), (OpId(id), Time(9)));
        assert_eq!(done.result, Err(OpError::Lost(error)));
    }
    assert_eq!(lost(&mut server), error);
    server.connection.submit(Time(10), Op::Echo);
    assert_eq!(done(&mut server).result, Err(OpError::Lost(error)));
}

#[test]
fn an_ended_session_ends_the_connection() {
    let mut server = Server::logged_in(config(), 10);
    server.connection.submit(Time(0), Op::Echo);
    let request = server.take();
    server.refuse(&request, Status::USER_SESSION_DELETED);
    let error = ConnectionError::SessionEnded(Status::USER_SESSION_DELETED);
    assert_eq!(done(&mut server).result, Err(OpError::Lost(error)));
    assert_eq!(lost(&mut server), error);
}

/// Sends what `answer` makes of a READ of 100 bytes, and returns the error.
fn violation(answer: impl FnOnce(&Header) -> Vec<u8>) -> ConnectionError {
    let mut server = Server::logged_in(config(), 10);
    server.connection.submit(Time(0), read(100));
    let request = server.take();
    let frame = answer(&request.header);
    server.send(&frame);
    let failed = done(&mut server).result;
    let error = lost(&mut server);
    assert_eq!(failed, Err(OpError::Lost(error)));
    error
}

#[test]
fn violations_of_the_protocol_are_named() {
    let success = |header: &Header, length: usize| {
        response(header, Status::SUCCESS, 1, |out| {
            emit_read_response(&vec![0; length], out)
        })
    };
    let with = |change: &dyn Fn(&mut Header)| {
        violation(|header| {
            let mut header = *header;
            change(&mut header);
            success(&header, 100)
        })
    };
    let protocol = ConnectionError::Protocol;
    assert_eq!(
        with(&|header| header.message_id += 1),
        protocol("a response to no request")
    );
    assert_eq!(
        with(&|header| header.command = Command::Write),
        protocol("a response to another command")
    );
    let more = violation(|header| success(header, 101));
    assert_eq!(more, protocol("more was read than requested"));
    let request = violation(|header| {
        let mut message = success(header, 100);
        message[16] &= !FLAG_RESPONSE as u8;
        message
    });
    assert_eq!(request, protocol("the server sent a request"));
    let wire = |text| ConnectionError::Wire(WireError::Invalid(text));
    let long = violation(|header| success(header, 70_000));
    assert_eq!(long, wire("a frame is empty or too long"));
    let sealed = violation(|header| {
        let mut message = success(header, 100);
        message[0] = 0xfd;
        message
    });
    assert_eq!(sealed, wire("the message is encrypted"));
    let cut = violation(|header| {
        let mut message = success(header, 100);
        message.truncate(150);
        message
    });
    let truncated = WireError::Truncated {
        end: 180,
        length: 150,
    };
    assert_eq!(cut, ConnectionError::Wire(truncated));
}

#[test]
fn oplock_breaks_are_ignored() {
    let mut server = Server::logged_in(config(), 10);
    server.connection.submit(Time(0), Op::Echo);
    let request = server.take();
    let unsolicited = Header {
        message_id: UNSOLICITED,
        command: Command::OplockBreak,
        ..request.header
    };
    let message = response(&unsolicited, Status::SUCCESS, 0, |out| out.extend([24; 24]));
    server.send(&message);
    assert!(server.connection.poll_event().is_none());
    server.respond(&request, Status::SUCCESS, 1, emit_empty);
    assert_eq!(done(&mut server).result, Ok(Output::Nothing));
}

#[test]
fn a_server_without_large_requests_limits_them_to_64_kib() {
    let mut small = negotiated();
    small.capabilities = 0;
    let mut server = Server::accept(config());
    server.log_in(&small, 10);
    let facts = server.connection.facts().unwrap();
    let limits = (facts.read_bytes_max, facts.write_bytes_max);
    assert_eq!(limits, (KIB_64, KIB_64));
    let mut tiny = negotiated();
    tiny.read_bytes_max = 4095;
    let mut server = Server::accept(config());
    let request = server.take();
    server.respond(&request, Status::SUCCESS, 1, |out| tiny.emit(out));
    let text = "the server allows requests of less than 4 KiB only";
    assert_eq!(lost(&mut server), ConnectionError::Protocol(text));
}

#[test]
fn choices_of_the_server_that_were_not_offered_are_refused() {
    let mut server = Server::accept(config());
    let request = server.take();
    let mut other = negotiated();
    other.dialect = hakaru_smb::wire::Dialect::Smb30;
    server.respond(&request, Status::SUCCESS, 1, |out| other.emit(out));
    assert_eq!(
        lost(&mut server),
        ConnectionError::NotOffered(other.dialect)
    );
    let mut server = Server::accept(config());
    let request = server.take();
    server.refuse(&request, Status::NOT_SUPPORTED);
    assert_eq!(
        lost(&mut server),
        ConnectionError::Dialects(Status::NOT_SUPPORTED)
    );
}

/// Responses of set and query, so that all bodies are parsed here, too.
#[test]
fn changes_and_queries_without_data_are_done() {
    let mut server = Server::logged_in(config(), 10);
    let change = Change::Length { bytes: 5 };
    server
        .connection
        .submit(Time(0), Op::Set { file: FILE, change });
    let request = server.take();
    server.respond(&request, Status::SUCCESS, 1, emit_set_info_response);
    assert_eq!(done(&mut server).result, Ok(Output::Nothing));
    let query = hakaru_smb::wire::Query::File;
    server
        .connection
        .submit(Time(0), Op::Query { file: FILE, query });
    let request = server.take();
    server.respond(&request, Status::SUCCESS, 1, |out| {
        emit_buffer_response(&[0; 51], out)
    });
    assert!(matches!(
        lost_after_done(&mut server),
        ConnectionError::Wire(_)
    ));
}

fn lost_after_done(server: &mut Server) -> ConnectionError {
    assert!(done(server).result.is_err());
    lost(server)
}
