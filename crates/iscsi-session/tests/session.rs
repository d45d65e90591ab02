//! Tests of scripted exchanges between a session and a target that the test emulates, with the time
//! as a variable.
mod peer;

use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_iscsi_session::{Event, Session, SessionError, TaskError};
use hakaru_wire::iscsi::{
    DataOut, Itt, Lun, NopIn, NopOut, Opcode, R2t, Reject, RejectReason, Residual, ScsiResponse,
    ScsiResponseCode, Stage, TextResponse, Ttt,
};
use hakaru_wire::scsi::{Sense, Status};
use peer::{Peer, TIMEOUT, config, logged_in, lost};

#[test]
fn read_ends_with_the_status_of_its_last_data_in() {
    let mut peer = logged_in();
    peer.submit_read(5, 16, true);
    let command = peer.take_command();
    assert!(command.read && command.is_final && command.expected_data_transfer_length == 8192);
    let data: Vec<u8> = (0..8192u32).map(|i| i as u8).collect();
    peer.send_data_in(command.itt, 0, 0, &data[..5000], None);
    assert!(peer.session.poll_done().is_none());
    peer.send_data_in(command.itt, 1, 5000, &data[5000..], Some(Status::GOOD));
    let done = peer.session.poll_done().unwrap();
    assert_eq!((done.tag, done.result, done.data), (5, Ok(8192), data));
}

#[test]
fn data_that_is_not_kept_is_counted_and_dropped() {
    let mut peer = logged_in();
    peer.submit_read(5, 16, false);
    let itt = peer.take_command().itt;
    peer.send_data_in(itt, 0, 0, &[7; 8192], None);
    peer.send_response(itt, Status::GOOD, None);
    let done = peer.session.poll_done().unwrap();
    assert_eq!((done.result, done.data.len()), (Ok(8192), 0));
}

#[test]
fn short_read_reports_the_number_of_bytes() {
    let mut peer = logged_in();
    peer.submit_read(5, 16, false);
    let itt = peer.take_command().itt;
    peer.send_data_in(itt, 0, 0, &[7; 512], Some(Status::GOOD));
    assert_eq!(peer.session.poll_done().unwrap().result, Ok(512));
}

#[test]
fn write_sends_immediate_then_unsolicited_data_up_to_the_first_burst() {
    let answers = &[
        ("MaxRecvDataSegmentLength", "1024"),
        ("InitialR2T", "No"),
        ("FirstBurstLength", "3072"),
    ];
    let mut peer = Peer::logged_in(LoginKeys::default(), answers);
    let data: Vec<u8> = (0..8192u32).map(|i| (i / 3) as u8).collect();
    peer.submit_write(1, data.clone());
    let pdu = peer.take();
    let command = pdu.command();
    assert!(command.write && !command.is_final);
    assert_eq!(pdu.data, data[..1024]);
    for (data_sn, offset) in [(0, 1024), (1, 2048)] {
        let pdu = peer.take();
        let out = DataOut::parse(&pdu.bhs).unwrap();
        assert_eq!(
            (out.data_sn, out.buffer_offset, out.ttt),
            (data_sn, offset, Ttt::RESERVED)
        );
        assert_eq!(out.is_final, data_sn == 1);
        assert_eq!(pdu.data, data[offset as usize..offset as usize + 1024]);
    }
    assert!(peer.poll().is_none(), "the rest waits for an R2T");
    peer.exp_cmd_sn += 1;
    send_r2t(&mut peer, command.itt, 0, 3072, 5120);
    let mut got = Vec::new();
    while let Some(pdu) = peer.poll() {
        let out = DataOut::parse(&pdu.bhs).unwrap();
        assert_eq!(
            (out.ttt, out.buffer_offset),
            (Ttt(77), 3072 + got.len() as u32)
        );
        got.extend(pdu.data);
        assert_eq!(out.is_final, got.len() == 5120);
    }
    assert_eq!(got, data[3072..]);
    peer.send_response(command.itt, Status::GOOD, None);
    assert_eq!(peer.session.poll_done().unwrap().result, Ok(8192));
}

fn send_r2t(peer: &mut Peer, itt: Itt, r2t_sn: u32, buffer_offset: u32, length: u32) {
    let numbers = peer.numbers();
    let r2t = R2t {
        itt,
        ttt: Ttt(77),
        numbers,
        r2t_sn,
        buffer_offset,
        desired_data_transfer_length: length,
        lun: Lun(0),
    };
    peer.send(|out| r2t.emit(out), &[]);
}

#[test]
fn write_waits_for_an_r2t_where_neither_immediate_nor_unsolicited_data_is_allowed() {
    let answers = &[
        ("InitialR2T", "Yes"),
        ("ImmediateData", "No"),
        ("MaxRecvDataSegmentLength", "8192"),
    ];
    let mut peer = Peer::logged_in(LoginKeys::default(), answers);
    peer.submit_write(1, vec![3; 4096]);
    let pdu = peer.take();
    assert!(pdu.command().is_final && pdu.data.is_empty());
    send_r2t(&mut peer, pdu.command().itt, 0, 0, 4096);
    assert_eq!(peer.take().data, vec![3; 4096]);
}

#[test]
fn digests_protect_every_pdu_in_both_directions() {
    let keys = LoginKeys {
        header_digest: true,
        data_digest: true,
        ..LoginKeys::default()
    };
    let answers = &[
        ("HeaderDigest", "CRC32C"),
        ("DataDigest", "CRC32C"),
        ("InitialR2T", "No"),
        ("ImmediateData", "Yes"),
    ];
    let mut peer = Peer::logged_in(keys, answers);
    assert_eq!(peer.session.poll_event(), Some(Event::LoggedIn));
    peer.submit_write(1, vec![9; 8192]);
    let pdu = peer.take(); // The peer's framer has checked both digests.
    assert_eq!(pdu.data, vec![9; 8192]);
    peer.exp_cmd_sn += 1;
    peer.send_response(pdu.command().itt, Status::GOOD, None);
    assert_eq!(peer.session.poll_done().unwrap().result, Ok(8192));
    peer.submit_read(2, 1, true);
    let itt = peer.take_command().itt;
    let good = peer.stat_sn;
    peer.send_data_in(itt, 0, 0, &[5; 512], Some(Status::GOOD));
    assert_eq!(peer.session.poll_done().unwrap().data, vec![5; 512]);
    // The same read with a wrong data digest.
    peer.submit_read(3, 1, true);
    let itt = peer.take_command().itt;
    assert_eq!(peer.stat_sn, good + 1);
    peer.data_digest = false;
    let numbers = peer.next_numbers();
    let pdu = hakaru_wire::iscsi::DataIn {
        is_final: true,
        status: Some(hakaru_wire::iscsi::DataInStatus::default()),
        itt,
        numbers,
        data_segment_length: 512,
        ..Default::default()
    };
    let mut bytes = peer.bytes_of(|out| pdu.emit(out), &[5; 512]);
    bytes.extend_from_slice(&[1, 2, 3, 4]);
    peer.send_raw(&mut bytes);
    assert_eq!(lost(&mut peer), SessionError::DataDigest);
}

#[test]
fn commands_wait_for_the_window_and_are_sent_in_order() {
    let mut peer = Peer::connected(config(LoginKeys::default()));
    peer.window = 2;
    peer.take();
    peer.answer_login(
        Stage::SecurityNegotiation,
        Some(Stage::OperationalNegotiation),
        &[("AuthMethod", "None")],
    );
    peer.take();
    peer.answer_login(
        Stage::OperationalNegotiation,
        Some(Stage::FullFeaturePhase),
        &[],
    );
    (0..5).for_each(|tag| peer.submit_read(tag, 1, false));
    let itts = [peer.take_command().itt, peer.take_command().itt];
    assert!(peer.poll().is_none(), "the window holds two");
    peer.window = 1;
    peer.send_data_in(itts[0], 0, 0, &[0; 512], Some(Status::GOOD));
    let third = peer.take_command();
    assert_eq!(u64::from(third.cdb[5]), 2, "tasks are sent in order");
    assert!(peer.poll().is_none());
    assert_eq!(peer.session.tasks(), 4);
}

#[test]
fn unit_attention_is_retried_at_once_with_a_new_tag() {
    let mut peer = logged_in();
    peer.submit_read(5, 1, false);
    let first = peer.take_command();
    peer.send_response(first.itt, Status::CHECK_CONDITION, Some(Sense::POWER_ON));
    let second = peer.take_command();
    assert_ne!(first.itt, second.itt);
    assert_eq!(first.cdb, second.cdb);
    peer.send_data_in(second.itt, 0, 0, &[0; 512], Some(Status::GOOD));
    assert_eq!(peer.session.poll_done().unwrap().result, Ok(512));
}

#[test]
fn endless_unit_attention_is_reported() {
    let mut peer = logged_in();
    peer.submit_read(5, 1, false);
    for _ in 0..17 {
        let itt = peer.take_command().itt;
        peer.send_response(itt, Status::CHECK_CONDITION, Some(Sense::POWER_ON));
    }
    assert!(peer.poll().is_none());
    assert_eq!(
        peer.session.poll_done().unwrap().result,
        Err(TaskError::Check(Sense::POWER_ON))
    );
}

#[test]
fn busy_is_retried_after_pauses_that_double() {
    let mut peer = logged_in();
    peer.submit_read(5, 1, false);
    for (busies, pause_ms) in [(1, 10), (2, 20), (3, 40)] {
        let itt = peer.take_command().itt;
        let status = if busies == 2 {
            Status::TASK_SET_FULL
        } else {
            Status::BUSY
        };
        peer.send_response(itt, status, None);
        assert_eq!(peer.session.busies(), busies);
        let pause = Duration::from_millis(pause_ms);
        assert_eq!(peer.session.poll_timeout(), Some(peer.time + pause));
        peer.pass(pause - Duration::from_nanos(1));
        assert!(peer.poll().is_none());
        peer.pass(Duration::from_nanos(1));
    }
    let itt = peer.take_command().itt;
    peer.send_data_in(itt, 0, 0, &[0; 512], Some(Status::GOOD));
    assert_eq!(peer.session.poll_done().unwrap().result, Ok(512));
}

#[test]
fn check_condition_target_failure_and_other_statuses_are_reported() {
    let mut peer = logged_in();
    (0..4).for_each(|tag| peer.submit_read(tag, 1, false));
    let itts: Vec<Itt> = (0..4).map(|_| peer.take_command().itt).collect();
    peer.send_response(
        itts[0],
        Status::CHECK_CONDITION,
        Some(Sense::UNRECOVERED_READ_ERROR),
    );
    peer.send_response(itts[1], Status::CHECK_CONDITION, None);
    peer.send_response(itts[2], Status::RESERVATION_CONFLICT, None);
    let numbers = peer.next_numbers();
    let response = ScsiResponseCode::TargetFailure;
    let failure = ScsiResponse {
        response,
        itt: itts[3],
        numbers,
        ..ScsiResponse::default()
    };
    peer.send(|out| failure.emit(out), &[]);
    let results: Vec<_> = std::iter::from_fn(|| peer.session.poll_done())
        .map(|done| done.result)
        .collect();
    let expected = [
        Err(TaskError::Check(Sense::UNRECOVERED_READ_ERROR)),
        Err(TaskError::CheckWithoutSense),
        Err(TaskError::Status(Status::RESERVATION_CONFLICT)),
        Err(TaskError::TargetFailure(1)),
    ];
    assert_eq!(results, expected);
}

#[test]
fn residual_reduces_the_result_of_a_write() {
    let mut peer = logged_in();
    peer.submit_write(1, vec![0; 4096]);
    let itt = peer.take_command().itt;
    let numbers = peer.next_numbers();
    let response = ScsiResponse {
        residual: Residual::Underflow(1024),
        itt,
        numbers,
        ..ScsiResponse::default()
    };
    peer.send(|out| response.emit(out), &[]);
    assert_eq!(peer.session.poll_done().unwrap().result, Ok(3072));
}

#[test]
fn write_whose_data_the_target_did_not_ask_for_is_short() {
    let answers = &[("InitialR2T", "Yes"), ("ImmediateData", "No")];
    let mut peer = Peer::logged_in(LoginKeys::default(), answers);
    peer.submit_write(1, vec![0; 4096]);
    let itt = peer.take_command().itt;
    peer.send_response(itt, Status::GOOD, None);
    assert_eq!(peer.session.poll_done().unwrap().result, Ok(0));
}

#[test]
fn silent_target_is_pinged_and_lost_if_it_stays_silent() {
    let mut peer = logged_in();
    peer.pass(Duration::from_secs(5));
    let ping = NopOut::parse(&peer.take().bhs).unwrap();
    assert!(ping.immediate && ping.ttt == Ttt::RESERVED && ping.itt != Itt::RESERVED);
    let numbers = peer.next_numbers();
    let echo = NopIn {
        itt: ping.itt,
        ttt: Ttt::RESERVED,
        numbers,
        ..NopIn::default()
    };
    peer.send(|out| echo.emit(out), &[]);
    peer.pass(Duration::from_secs(5));
    assert!(Peer::is_opcode(&peer.take(), Opcode::NopOut));
    peer.pass(TIMEOUT);
    assert_eq!(
        lost(&mut peer),
        SessionError::Timeout {
            exchange: "a ping",
            after: TIMEOUT
        }
    );
}

#[test]
fn data_before_the_answer_to_a_ping_postpone_it() {
    let mut peer = logged_in();
    peer.pass(Duration::from_secs(5));
    assert!(Peer::is_opcode(&peer.take(), Opcode::NopOut));
    // The answer is queued behind other PDUs, of which one arrives every so often.
    for _ in 0..4 {
        peer.pass(TIMEOUT * 3 / 4);
        assert!(peer.session.poll_event().is_none());
        let numbers = peer.numbers();
        let other = NopIn {
            itt: Itt::RESERVED,
            ttt: Ttt::RESERVED,
            numbers,
            ..NopIn::default()
        };
        peer.send(|out| other.emit(out), &[]);
    }
    // As long as without a ping in flight.
    peer.pass(TIMEOUT + Duration::from_secs(4));
    assert!(peer.session.poll_event().is_none());
    peer.pass(Duration::from_secs(1));
    assert_eq!(
        lost(&mut peer),
        SessionError::Timeout {
            exchange: "a ping",
            after: TIMEOUT
        }
    );
}

#[test]
fn ping_of_the_target_is_answered_with_its_tag() {
    let mut peer = logged_in();
    let numbers = peer.numbers();
    let ping = NopIn {
        itt: Itt::RESERVED,
        ttt: Ttt(0x55),
        lun: Lun::new(3),
        numbers,
        ..NopIn::default()
    };
    peer.send(|out| ping.emit(out), &[]);
    let pong = NopOut::parse(&peer.take().bhs).unwrap();
    assert_eq!(
        (pong.ttt, pong.itt, pong.lun, pong.immediate),
        (Ttt(0x55), Itt::RESERVED, Lun::new(3), true)
    );
}

#[test]
fn command_without_answer_loses_the_session_on_the_nanosecond() {
    let mut peer = logged_in();
    peer.pass(Duration::from_secs(1));
    peer.submit_read(1, 1, false);
    peer.pass(Duration::from_secs(1));
    peer.submit_read(2, 1, false);
    let itt = peer.take_command().itt;
    peer.send_data_in(itt, 0, 0, &[0; 512], Some(Status::GOOD));
    let submitted = peer.time;
    while peer.session.poll_event().is_none() {
        let next = peer
            .session
            .poll_timeout()
            .expect("a timer runs while a command is in flight");
        peer.time = next;
        peer.session.handle_timeout(next);
        // The target answers pings, but not the command.
        while let Some(pdu) = peer.poll() {
            if let Ok(ping) = NopOut::parse(&pdu.bhs) {
                let numbers = peer.next_numbers();
                let echo = NopIn {
                    itt: ping.itt,
                    ttt: Ttt::RESERVED,
                    numbers,
                    ..NopIn::default()
                };
                peer.send(|out| echo.emit(out), &[]);
            }
        }
    }
    assert_eq!(peer.time, submitted + TIMEOUT);
}

#[test]
fn reject_loses_the_session_with_the_reason() {
    let mut peer = logged_in();
    let numbers = peer.next_numbers();
    let reject = Reject {
        reason: RejectReason::InvalidPduField,
        numbers,
        data_sn: 0,
        data_segment_length: 48,
    };
    peer.send(|out| reject.emit(out), &[0; 48]);
    assert_eq!(
        lost(&mut peer).to_string(),
        "target rejected a PDU: invalid PDU field"
    );
}

/// faults.md I-03 and I-05: a violation of the protocol ends the session with a message and has no
/// other effect.
#[test]
fn pdus_that_violate_the_protocol_lose_the_session() {
    type Violation = fn(&mut Peer, Itt);
    let violations: [(Violation, &str); 11] = [
        (
            |p, _| p.send_data_in(Itt(0x1234), 0, 0, &[0; 512], None),
            "Data-In for an unknown task",
        ),
        (
            |p, itt| p.send_data_in(itt, 0, 0, &[0; 1024], None),
            "Data-In beyond the expected length",
        ),
        (
            |p, itt| p.send_data_in(itt, 0, 128, &[0; 128], None),
            "Data-In out of order",
        ),
        (
            |p, itt| p.send_data_in(itt, 1, 0, &[0; 128], None),
            "DataSN out of order",
        ),
        (
            |p, itt| {
                p.send_data_in(itt, 0, 0, &[0; 512], Some(Status::GOOD));
                p.send_response(itt, Status::GOOD, None);
            },
            "SCSI Response for an unknown task",
        ),
        (
            |p, itt| {
                p.stat_sn += 1;
                p.send_response(itt, Status::GOOD, None);
            },
            "StatSN out of order",
        ),
        (
            |p, itt| send_r2t(p, itt, 0, 0, 512),
            "R2T for a task that does not write",
        ),
        (
            |p, _| send_r2t(p, Itt(0x7777), 0, 0, 512),
            "R2T for an unknown task",
        ),
        (
            |p, _| {
                p.answer_login(
                    Stage::OperationalNegotiation,
                    Some(Stage::FullFeaturePhase),
                    &[],
                )
            },
            "unexpected PDU in this phase",
        ),
        (
            |p, _| {
                let response = TextResponse {
                    is_final: true,
                    itt: Itt(0xff02),
                    numbers: p.next_numbers(),
                    ..TextResponse::default()
                };
                p.send(|out| response.emit(out), &[]);
            },
            "Text Response that answers no request",
        ),
        (
            |p, _| p.send(|out| out[0] = 0x3e, &[]),
            "unexpected PDU in this phase",
        ),
    ];
    for (violation, message) in violations {
        let mut peer = logged_in();
        peer.submit_read(1, 1, false);
        let itt = peer.take_command().itt;
        violation(&mut peer, itt);
        while peer.session.poll_done().is_some() {}
        assert_eq!(
            lost(&mut peer).to_string(),
            format!("protocol error: {message}")
        );
        assert!(peer.session.poll_timeout().is_none(), "no timer is left");
    }
}

#[test]
fn r2ts_may_request_each_byte_once_and_at_most_a_burst() {
    type R2ts<'a> = &'a [(u32, u32, u32)];
    let violations: [(R2ts<'_>, &str); 5] = [
        (&[(1, 0, 512)], "R2TSN out of order"),
        (
            &[(0, 512, 512)],
            "R2T for data outside the rest of the write",
        ),
        (
            &[(0, 0, 4096), (1, 0, 4096)],
            "R2T for data outside the rest of the write",
        ),
        (
            &[(0, 0, 8192)],
            "R2T for data outside the rest of the write",
        ),
        (&[(0, 0, 65_536)], "R2T for more than MaxBurstLength"),
    ];
    for (r2ts, message) in violations {
        let answers = &[
            ("InitialR2T", "Yes"),
            ("ImmediateData", "No"),
            ("MaxBurstLength", "32768"),
        ];
        let mut peer = Peer::logged_in(LoginKeys::default(), answers);
        assert_eq!(peer.session.poll_event(), Some(Event::LoggedIn));
        peer.submit_write(1, vec![0; 4096]);
        let itt = peer.take_command().itt;
        for &(r2t_sn, offset, length) in r2ts {
            send_r2t(&mut peer, itt, r2t_sn, offset, length);
        }
        assert_eq!(
            lost(&mut peer).to_string(),
            format!("protocol error: {message}")
        );
    }
}

#[test]
fn target_that_pings_without_reading_loses_the_session() {
    let mut peer = logged_in();
    let numbers = peer.numbers();
    let ping = NopIn {
        itt: Itt::RESERVED,
        ttt: Ttt(1),
        numbers,
        ..NopIn::default()
    };
    let mut bytes = peer.bytes_of(|out| ping.emit(out), &[]);
    for _ in 0..1024 {
        peer.send_raw(&mut bytes);
    }
    assert!(!peer.session.is_ended());
    peer.send_raw(&mut bytes);
    assert_eq!(
        lost(&mut peer).to_string(),
        "protocol error: the target sends NOP-Ins without reading the answers"
    );
}

#[test]
fn pings_whose_answers_are_sent_lose_no_session_that_always_has_data_to_send() {
    let mut peer = logged_in();
    let numbers = peer.numbers();
    let ping = NopIn {
        itt: Itt::RESERVED,
        ttt: Ttt(1),
        numbers,
        ..NopIn::default()
    };
    let mut bytes = peer.bytes_of(|out| ping.emit(out), &[]);
    for _ in 0..2000 {
        peer.send_raw(&mut bytes);
        let time = peer.time;
        let transmit = peer.session.transmit();
        // The last byte stays, so the queue is never empty.
        let sent = transmit.len() - 1;
        transmit.advance(time, sent);
    }
    assert!(!peer.session.is_ended());
}

#[test]
fn data_segment_beyond_our_limit_is_refused_before_it_is_received() {
    let mut peer = Peer::logged_in(
        LoginKeys {
            max_recv_data_segment_length: 4096,
            ..LoginKeys::default()
        },
        &[],
    );
    assert_eq!(peer.session.poll_event(), Some(Event::LoggedIn));
    peer.submit_read(1, 16, false);
    let itt = peer.take_command().itt;
    peer.send_data_in(itt, 0, 0, &[0; 8192], Some(Status::GOOD));
    assert!(matches!(lost(&mut peer), SessionError::Frame(_)));
}

#[test]
fn session_without_a_connection_ignores_an_old_connection() {
    let mut session = Session::new(config(LoginKeys::default()));
    session.handle_received(hakaru_units::Time(5), &[0xff; 100]);
    session.handle_closed("(closed by the target)");
    assert_eq!(session.poll_event(), None);
    assert!(!session.is_ended());
}
