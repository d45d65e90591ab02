//! T-05, T-06 and T-08: a login of an initiator port that has a session.

use hakaru_wire::iscsi::{LoginResponse, LoginStatus, Opcode, Stage};
use hakaru_wire::scsi::Cdb;

use super::scene::{BLOCK_BYTES, Random, block, serve_one, write};
use crate::pair::{INITIATOR, Initiator, Pair, Pdu, names};

const DEPTH: u64 = 128;

/// Requests a session of `INITIATOR` with an ISID on a new connection.
fn request_session(pair: &mut Pair, isid: u32, peer: &str) -> Initiator {
    let local = "10.0.0.1:3260".parse().unwrap();
    let connection = pair
        .target
        .handle_connected(pair.time, 0, local, peer.parse().unwrap());
    let mut initiator = Initiator::new(connection.expect("a connection is accepted"), isid);
    let text = names(INITIATOR);
    let stage = Stage::OperationalNegotiation;
    let request = hakaru_wire::iscsi::LoginRequest {
        data_segment_length: text.len() as u32,
        ..initiator.login_request(stage, Some(Stage::FullFeaturePhase))
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(pair, &header, &text);
    initiator
}

fn login_status(pdus: &[Pdu]) -> Option<LoginStatus> {
    pdus.first().map(|pdu| {
        assert_eq!(pdu.opcode(), Opcode::LoginResponse);
        LoginResponse::parse(&pdu.bhs)
            .expect("a login response")
            .status
    })
}

const FIRST_PEER: &str = "10.0.0.9:40000";
const SECOND_PEER: &str = "10.0.0.77:40000";

pub fn under_load() -> u64 {
    const ROUNDS: u64 = 1000;
    let mut random = Random(4);
    let mut pair = Pair::new();
    let mut old = pair.log_in(&[]);
    for round in 0..ROUNDS {
        pair.stalled = true;
        for lba in 0..DEPTH {
            write(&mut old, &mut pair, lba, 0xaa);
        }
        assert_eq!(pair.held.len(), DEPTH as usize);
        let mut new = request_session(&mut pair, 1, FIRST_PEER);
        assert!(
            pair.is_closed(old.connection),
            "the old session has not ended"
        );
        while serve_one(&mut pair, &mut random) {
            let status = login_status(&new.receive(&mut pair));
            match pair.held.len() {
                0 => assert_eq!(status, Some(LoginStatus::SUCCESS)),
                _ => assert_eq!(status, None, "the old writes must end first"),
            }
        }
        pair.stalled = false;
        assert_eq!(pair.target.sessions_now(), 1);
        let fill = round as u8 | 1;
        write(&mut new, &mut pair, round % DEPTH, fill);
        assert_eq!(new.receive_one(&mut pair).opcode(), Opcode::ScsiResponse);
        // No old write may follow it.
        pair.advance(1.0);
        assert!(pair.held.is_empty());
        assert_eq!(block(&pair, round % DEPTH), [fill; BLOCK_BYTES]);
        old = new;
    }
    ROUNDS
}

pub fn while_storage_is_stalled() -> u64 {
    const ROUNDS: u64 = 20;
    for _ in 0..ROUNDS {
        let mut pair = Pair::new();
        let mut old = pair.log_in(&[]);
        pair.stalled = true;
        for lba in 0..DEPTH {
            write(&mut old, &mut pair, lba, 0xaa);
        }
        let mut new = request_session(&mut pair, 1, FIRST_PEER);
        // The waiting login does not delay other initiators.
        let mut other = pair.log_in_as("iqn.2026-01.net.example:other", 9, &[]);
        other.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
        pair.advance(15.0);
        let status = login_status(&new.receive(&mut pair));
        assert_eq!(
            status,
            Some(LoginStatus::SERVICE_UNAVAILABLE),
            "the login must be refused in time"
        );
        let mut again = request_session(&mut pair, 1, FIRST_PEER);
        pair.advance(10.0);
        // The storage continues, and so does the waiting login.
        pair.release();
        let status = login_status(&again.receive(&mut pair));
        assert_eq!(status, Some(LoginStatus::SUCCESS));
        write(&mut again, &mut pair, 0, 0xbb);
        assert_eq!(block(&pair, 0), [0xbb; BLOCK_BYTES]);
    }
    ROUNDS
}

/// Lets two addresses log in as the same initiator port in turn. The last login wins, and the
/// counters report it.
pub fn by_turns() -> u64 {
    const ROUNDS: u64 = 100;
    let mut pair = Pair::new();
    let mut winner = pair.log_in(&[]);
    for round in 0..ROUNDS {
        let from = if round % 2 == 0 {
            SECOND_PEER
        } else {
            FIRST_PEER
        };
        let mut new = request_session(&mut pair, 1, from);
        assert_eq!(
            login_status(&new.receive(&mut pair)),
            Some(LoginStatus::SUCCESS)
        );
        assert!(pair.is_closed(winner.connection));
        assert_eq!(pair.target.sessions_now(), 1);
        new.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
        winner = new;
        let counted = |name: &str| pair.counter("sessions", name);
        assert_eq!(counted("reinstatements"), (round + 1) as f64);
        assert_eq!(counted("reinstatements_elsewhere"), (round + 1) as f64);
    }
    // A login from the same address as before is only a reconnection.
    let before = pair.counter("sessions", "reinstatements_elsewhere");
    let mut again = request_session(&mut pair, 1, FIRST_PEER);
    assert_eq!(
        login_status(&again.receive(&mut pair)),
        Some(LoginStatus::SUCCESS)
    );
    assert_eq!(pair.counter("sessions", "reinstatements_elsewhere"), before);
    ROUNDS
}
