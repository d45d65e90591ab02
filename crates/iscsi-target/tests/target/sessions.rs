//! Sessions: their limit, their reinstatement, and their end.

use crate::pair::{self, INITIATOR, Initiator, LU_BYTES, Pair, config, names, pattern};
use hakaru_iscsi_target::Limits;
use hakaru_wire::iscsi::{
    CmdSn, Itt, LoginRequest, LoginStatus, LogoutReason, LogoutRequest, LogoutResponse,
    LogoutResult, NopIn, Opcode, Stage, Ttt,
};
use hakaru_wire::scsi::Cdb;

const OPERATIONAL: Stage = Stage::OperationalNegotiation;
const FULL: Stage = Stage::FullFeaturePhase;

fn begin(pair: &mut Pair) -> Initiator {
    let connection = pair.connect();
    Initiator::new(connection, 1)
}

#[test]
fn sessions_are_limited() {
    let mut pair = Pair::with(hakaru_iscsi_target::TargetConfig {
        limits: Limits {
            sessions_max: 1,
            ..Limits::default()
        },
        ..config()
    });
    let first = pair.log_in(&[]);
    let mut second = begin(&mut pair);
    let (response, _) = second.login(
        &mut pair,
        OPERATIONAL,
        Some(FULL),
        &names("iqn.2026-01.net.example:two"),
    );
    assert_eq!(response.status, LoginStatus::OUT_OF_RESOURCES);
    assert!(!pair.is_closed(first.connection));
}

#[test]
fn a_new_session_of_an_initiator_port_replaces_its_older_one() {
    let mut pair = Pair::new();
    let old = pair.log_in(&[]);
    let mut other = pair.log_in_as("iqn.2026-01.net.example:other", 1, &[]);
    let mut new = pair.log_in(&[]);
    assert!(pair.is_closed(old.connection));
    assert_ne!(new.tsih, old.tsih);
    assert_eq!(pair.counter("sessions", "sessions_now"), 2.0);
    assert_eq!(pair.counter("sessions", "reinstatements"), 1.0);
    new.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
    other.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
}

#[test]
fn a_new_session_begins_only_after_the_writes_of_the_old_one_have_ended() {
    let mut pair = Pair::new();
    let mut old = pair.log_in(&[]);
    pair.stalled = true;
    for _ in 0..128 {
        let command = old.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
        old.send_command(&mut pair, &command, &pattern(512, 1));
    }
    let mut new = begin(&mut pair);
    let names = names(INITIATOR);
    let request = LoginRequest {
        data_segment_length: names.len() as u32,
        ..new.login_request(OPERATIONAL, Some(FULL))
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    new.send(&mut pair, &header, &names);
    assert!(pair.is_closed(old.connection));
    assert!(
        new.receive(&mut pair).is_empty(),
        "no answer while 128 writes are with the storage"
    );
    for left in (0..128).rev() {
        pair.release_one();
        assert_eq!(
            pair.received_nothing(new.connection),
            left > 0,
            "{left} writes left"
        );
    }
    pair.stalled = false;
    let answer = new.receive_one(&mut pair);
    assert_eq!(
        (answer.opcode(), answer.bhs.as_bytes()[36]),
        (Opcode::LoginResponse, 0)
    );
    assert!(
        new.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
            .good()
            .is_empty()
    );
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

#[test]
fn a_login_behind_a_stalled_storage_is_refused_in_time() {
    let mut pair = Pair::new();
    let mut old = pair.log_in(&[]);
    pair.stalled = true;
    let command = old.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
    old.send_command(&mut pair, &command, &pattern(512, 1));
    let mut new = begin(&mut pair);
    let names = names(INITIATOR);
    let request = LoginRequest {
        data_segment_length: names.len() as u32,
        ..new.login_request(OPERATIONAL, Some(FULL))
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    new.send(&mut pair, &header, &names);
    pair.advance(15.2);
    let answer = new.receive_one(&mut pair);
    assert_eq!(answer.bhs.as_bytes()[36..38], [3, 1], "service unavailable");
    assert!(pair.is_closed(new.connection));
    pair.release();
    pair.log_in(&[]);
}

fn log_out(
    initiator: &mut Initiator,
    pair: &mut Pair,
    reason: LogoutReason,
    cid: u16,
) -> LogoutResult {
    let request = LogoutRequest {
        immediate: false,
        reason,
        itt: Itt(9),
        cid,
        cmd_sn: CmdSn(initiator.cmd_sn),
        exp_stat_sn: initiator.exp_stat_sn,
    };
    initiator.cmd_sn += 1;
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(pair, &header, &[]);
    let pdu = initiator.receive_one(pair);
    LogoutResponse::parse(&pdu.bhs).unwrap().result
}

#[test]
fn logout_ends_the_session_and_its_commands_in_flight() {
    for (reason, cid) in [
        (LogoutReason::CloseSession, 0),
        (LogoutReason::CloseConnection, 1),
    ] {
        let mut pair = Pair::new();
        let mut initiator = pair.log_in(&[]);
        pair.stalled = true;
        for lba in 0..8 {
            let command = initiator.command(0, &[0x28, 0, 0, 0, 0, lba, 0, 0, 1], true, false, 512);
            initiator.send_command(&mut pair, &command, &[]);
        }
        assert_eq!(
            log_out(&mut initiator, &mut pair, reason, cid),
            LogoutResult::Success
        );
        assert!(pair.is_closed(initiator.connection));
        pair.release();
        assert_eq!(pair.counter("sessions", "logouts"), 1.0);
        assert_eq!(pair.counter("sessions", "sessions_now"), 0.0);
    }
}

#[test]
fn logout_of_another_connection_or_for_recovery_leaves_the_session() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    assert_eq!(
        log_out(&mut initiator, &mut pair, LogoutReason::CloseConnection, 5),
        LogoutResult::CidNotFound
    );
    assert_eq!(
        log_out(
            &mut initiator,
            &mut pair,
            LogoutReason::RemoveForRecovery,
            1
        ),
        LogoutResult::RecoveryNotSupported
    );
    assert_eq!(
        initiator
            .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
            .good(),
        b""
    );
}

#[test]
fn a_silent_initiator_is_pinged_and_then_disconnected() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    pair.advance(10.2);
    let ping = initiator.receive_one(&mut pair);
    let ping = NopIn::parse(&ping.bhs).unwrap();
    assert_eq!(ping.itt, Itt::RESERVED);
    assert_ne!(ping.ttt, Ttt::RESERVED, "the ping requests an answer");
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
    pair.advance(9.0);
    assert!(
        !pair.is_closed(initiator.connection),
        "any received byte counts as the answer"
    );
    pair.advance(6.2);
    assert!(
        pair.is_closed(initiator.connection),
        "10 s and 5 s of silence"
    );
    assert_eq!(pair.counter("sessions", "timeouts"), 1.0);
}

#[test]
fn a_silent_initiator_that_still_receives_data_is_not_disconnected() {
    let mut pair = Pair::new();
    pair.copy = true;
    let mut initiator = pair.log_in(&[]);
    let connection = initiator.connection;
    pair.blocked.insert(connection);
    let command = initiator.command(0, &pair::read(0, 128).emit(), true, false, 65_536);
    initiator.send_command(&mut pair, &command, &[]);
    // The NOP-In is queued behind the data, which takes longer than the initiator may be silent.
    for _ in 0..40 {
        pair.advance(1.0);
        let no_lu = &mut |_, _, _: &mut [u8]| unreachable!("all data was copied");
        pair.target
            .handle_transmitted(pair.time, connection, 1000, no_lu);
    }
    pair.advance(4.8);
    assert!(!pair.is_closed(connection), "it took data until 4.8 s ago");
    pair.advance(0.5);
    assert!(pair.is_closed(connection), "5 s of silence");
}

#[test]
fn an_initiator_that_reads_nothing_is_throttled_and_disconnected_after_a_minute() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[("MaxRecvDataSegmentLength", "65536")]);
    pair.copy = true;
    pair.blocked.insert(initiator.connection);
    let mut nop = [0; 48];
    hakaru_wire::iscsi::NopOut {
        immediate: true,
        itt: Itt(5),
        ttt: Ttt::RESERVED,
        data_segment_length: 65_536,
        ..Default::default()
    }
    .emit(&mut nop);
    let mut sent = 0;
    while pair.target.wants_received(initiator.connection) {
        initiator.send(&mut pair, &nop, &[7; 65_536]);
        sent += 1;
        assert!(sent < 1000, "the initiator is never throttled");
    }
    for _ in 0..6 {
        pair.advance(9.5);
        initiator.send(&mut pair, &nop, &[7; 65_536]);
    }
    assert!(!pair.is_closed(initiator.connection));
    pair.advance(9.5);
    assert!(pair.is_closed(initiator.connection));
}

#[test]
fn shutting_down_requests_logout_waits_for_commands_and_ends() {
    let mut pair = Pair::new();
    let mut idle = pair.log_in_as("iqn.2026-01.net.example:idle", 2, &[]);
    let mut busy = pair.log_in(&[]);
    pair.stalled = true;
    let command = busy.command(0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1], true, false, 512);
    busy.send_command(&mut pair, &command, &[]);
    let waiting = pair.connect();
    pair.target.shut_down(pair.time);
    pair.run();
    assert!(pair.try_connect().is_none() && pair.is_closed(waiting));
    assert_eq!(idle.receive_one(&mut pair).opcode(), Opcode::AsyncMessage);
    pair.advance(0.3);
    assert!(pair.is_closed(idle.connection) && !pair.is_closed(busy.connection));
    pair.release();
    let opcodes: Vec<_> = busy
        .receive(&mut pair)
        .iter()
        .map(pair::Pdu::opcode)
        .collect();
    assert_eq!(opcodes, [Opcode::AsyncMessage, Opcode::DataIn]);
    pair.advance(0.3);
    assert!(pair.is_closed(busy.connection));
    assert_eq!(
        (pair.target.sessions_now(), pair.target.poll_timeout()),
        (0, None)
    );
}

#[test]
fn an_lu_of_another_session_is_not_disturbed_by_a_lost_connection() {
    let mut pair = Pair::new();
    let mut lost = pair.log_in(&[]);
    let mut kept = pair.log_in_as("iqn.2026-01.net.example:kept", 2, &[]);
    pair.stalled = true;
    let command = lost.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
    lost.send_command(&mut pair, &command, &pattern(512, 3));
    pair.target.handle_closed(pair.time, lost.connection);
    pair.release();
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
    let read = Cdb::Read(hakaru_wire::scsi::Transfer {
        lba: 0,
        blocks: 1,
        ..Default::default()
    });
    assert_eq!(kept.run_cdb(&mut pair, 0, read, 512).good().len(), 512);
    assert_eq!(pair.lus[&0].len(), LU_BYTES);
}

/// Sends a Login Request without waiting for its answer.
fn send_login(pair: &mut Pair) -> Initiator {
    let mut initiator = begin(pair);
    let names = names(INITIATOR);
    let request = LoginRequest {
        data_segment_length: names.len() as u32,
        ..initiator.login_request(OPERATIONAL, Some(FULL))
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(pair, &header, &names);
    initiator
}

#[test]
fn an_initiator_that_lost_its_connection_logs_in_only_after_its_old_writes_have_ended() {
    let mut pair = Pair::new();
    let mut old = pair.log_in(&[]);
    pair.stalled = true;
    let command = old.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
    old.send_command(&mut pair, &command, &pattern(512, 1));
    pair.target.handle_closed(pair.time, old.connection);
    let mut new = send_login(&mut pair);
    assert!(new.receive(&mut pair).is_empty());
    let mut other = pair.log_in_as("iqn.2026-01.net.example:other", 2, &[]);
    other.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
    pair.release();
    assert_eq!(new.receive_one(&mut pair).opcode(), Opcode::LoginResponse);
    let command = new.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
    new.send_command(&mut pair, &command, &pattern(512, 2));
    assert_eq!(
        pair.lus[&0][..512],
        pattern(512, 2),
        "the old write must end first"
    );
}

#[test]
fn the_last_of_several_logins_that_wait_for_the_same_session_wins() {
    let mut pair = Pair::new();
    let mut old = pair.log_in(&[]);
    pair.stalled = true;
    let command = old.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
    old.send_command(&mut pair, &command, &pattern(512, 1));
    let first = send_login(&mut pair);
    let mut last = send_login(&mut pair);
    pair.release();
    assert!(pair.is_closed(first.connection) && !pair.is_closed(last.connection));
    assert_eq!(last.receive_one(&mut pair).opcode(), Opcode::LoginResponse);
    last.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
    assert_eq!(pair.counter("sessions", "sessions_now"), 1.0);
}
