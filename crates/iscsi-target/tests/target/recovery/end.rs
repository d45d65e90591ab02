//! T-04, T-07 and T-10: the end of sessions, the end of the target, and recovery, which is not
//! supported.

use hakaru_wire::iscsi::{
    CmdSn, Itt, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, Opcode, Stage,
};
use hakaru_wire::scsi::Cdb;

use super::scene::{read, write, write_unsent};
use crate::pair::{INITIATOR, Initiator, Pair, names, value};

pub fn logout_under_load() -> u64 {
    const ROUNDS: u64 = 100;
    let reasons = [
        LogoutReason::CloseSession,
        LogoutReason::CloseConnection,
        LogoutReason::RemoveForRecovery,
    ];
    for _ in 0..ROUNDS {
        reasons.into_iter().for_each(log_out);
    }
    ROUNDS * reasons.len() as u64
}

/// Logs out while the storage executes writes and reads and a write waits for its data.
fn log_out(reason: LogoutReason) {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[("InitialR2T", "Yes")]);
    pair.stalled = true;
    for lba in 0..8 {
        write(&mut initiator, &mut pair, lba, 1);
        read(&mut initiator, &mut pair, 5, lba);
    }
    write_unsent(&mut initiator, &mut pair, 20);
    initiator.receive(&mut pair);
    let request = LogoutRequest {
        immediate: true,
        reason,
        itt: Itt(0x7000_0000),
        cid: 1,
        cmd_sn: CmdSn(initiator.cmd_sn),
        exp_stat_sn: initiator.exp_stat_sn,
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(&mut pair, &header, &[]);
    let response = initiator.receive_one(&mut pair);
    let response = LogoutResponse::parse(&response.bhs).expect("a logout response");
    if reason == LogoutReason::RemoveForRecovery {
        // Recovery is not supported, so the connection continues and its commands are answered.
        assert_eq!(response.result, LogoutResult::RecoveryNotSupported);
        pair.release();
        assert_eq!(answers(&mut initiator, &mut pair), 16);
        pair.target.handle_closed(pair.time, initiator.connection);
    } else {
        assert_eq!(response.result, LogoutResult::Success);
        assert!(pair.is_closed(initiator.connection));
        assert_eq!(pair.target.sessions_now(), 0);
        pair.release();
    }
    assert_eq!(pair.target.sessions_now(), 0);
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
    let mut again = pair.log_in(&[]);
    again.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
}

fn answers(initiator: &mut Initiator, pair: &mut Pair) -> usize {
    let pdus = initiator.receive(pair);
    let has_status = |pdu: &&crate::pair::Pdu| match pdu.opcode() {
        Opcode::ScsiResponse => true,
        Opcode::DataIn => pdu.bhs.as_bytes()[1] & 1 != 0,
        _ => false,
    };
    pdus.iter().filter(has_status).count()
}

/// Checks that every connection is closed within the linger time of 5 s, whether its commands were
/// answered or not.
pub fn shut_down_while_stalled() -> u64 {
    const ROUNDS: u64 = 20;
    for _ in 0..ROUNDS {
        let mut pair = Pair::new();
        let mut sessions: Vec<Initiator> = (1..=4)
            .map(|isid| pair.log_in_as(INITIATOR, isid, &[]))
            .collect();
        pair.stalled = true;
        for initiator in &mut sessions {
            for lba in 0..32 {
                write(initiator, &mut pair, lba, 1);
            }
        }
        // One initiator logs in again and waits for the end of its writes.
        let connection = pair.connect();
        let mut waiting = Initiator::new(connection, 1);
        let text = names(INITIATOR);
        let request = hakaru_wire::iscsi::LoginRequest {
            data_segment_length: text.len() as u32,
            ..waiting.login_request(Stage::OperationalNegotiation, Some(Stage::FullFeaturePhase))
        };
        let mut header = [0; 48];
        request.emit(&mut header);
        waiting.send(&mut pair, &header, &text);
        pair.target.shut_down(pair.time);
        pair.run();
        pair.advance(5.0);
        assert_eq!(pair.target.sessions_now(), 0);
        for initiator in sessions.iter().chain([&waiting]) {
            assert!(pair.is_closed(initiator.connection));
        }
        let local = "10.0.0.1:3260".parse().unwrap();
        let late = pair
            .target
            .handle_connected(pair.time, 0, local, "10.0.0.9:1".parse().unwrap());
        assert!(late.is_none(), "no connection is accepted any more");
    }
    ROUNDS
}

pub fn error_recovery_levels() -> u64 {
    for wanted in ["0", "1", "2"] {
        let mut pair = Pair::new();
        let connection = pair.connect();
        let mut initiator = Initiator::new(connection, 1);
        let mut text = names(INITIATOR);
        text.extend_from_slice(format!("ErrorRecoveryLevel={wanted}\0").as_bytes());
        let next = Some(Stage::FullFeaturePhase);
        let (_, keys) = initiator.login(&mut pair, Stage::OperationalNegotiation, next, &text);
        assert_eq!(value(&keys, "ErrorRecoveryLevel"), Some("0"), "{wanted}");
        initiator
            .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
            .good();
    }
    3
}
