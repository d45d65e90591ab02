//! T-05, T-06 and T-08: a login of an initiator port that has a session.

use hakaru_wire::iscsi::{LoginResponse, LoginStatus, Opcode, Stage};
use hakaru_wire::scsi::Cdb;

use crate::pair::{INITIATOR, Initiator, Pair, Pdu, names};
use crate::scene::{BLOCK_BYTES, Random, block, serve_one, write};

const DEPTH: u64 = 128;

/// Asks for a session of `INITIATOR` under an ISID, by a new connection.
fn ask(pair: &mut Pair, isid: u32, peer: &str) -> Initiator {
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

const HERE: &str = "10.0.0.9:40000";
const THERE: &str = "10.0.0.77:40000";

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
        let mut new = ask(&mut pair, 1, HERE);
        assert!(pair.is_closed(old.connection), "the old session has ended");
        while serve_one(&mut pair, &mut random) {
            let status = login_status(&new.receive(&mut pair));
            match pair.held.len() {
                0 => assert_eq!(status, Some(LoginStatus::SUCCESS)),
                _ => assert_eq!(status, None, "the old writes come first"),
            }
        }
        pair.stalled = false;
        assert_eq!(pair.target.sessions_now(), 1);
        let fill = round as u8 | 1;
        write(&mut new, &mut pair, round % DEPTH, fill);
        assert_eq!(new.receive_one(&mut pair).opcode(), Opcode::ScsiResponse);
        // Nothing is left that could come after it.
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
        let mut new = ask(&mut pair, 1, HERE);
        // Others are not held up by it.
        let mut other = pair.log_in_as("iqn.2026-01.net.example:other", 9, &[]);
        other.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
        pair.advance(15.0);
        let status = login_status(&new.receive(&mut pair));
        assert_eq!(
            status,
            Some(LoginStatus::SERVICE_UNAVAILABLE),
            "refused in time"
        );
        let mut again = ask(&mut pair, 1, HERE);
        pair.advance(10.0);
        // The storage goes on, and so does the login that waits.
        pair.release();
        let status = login_status(&again.receive(&mut pair));
        assert_eq!(status, Some(LoginStatus::SUCCESS));
        write(&mut again, &mut pair, 0, 0xbb);
        assert_eq!(block(&pair, 0), [0xbb; BLOCK_BYTES]);
    }
    ROUNDS
}

/// The last one wins, and it is counted: neither can work while the other comes back.
pub fn by_turns() -> u64 {
    const ROUNDS: u64 = 100;
    let mut pair = Pair::new();
    let mut winner = pair.log_in(&[]);
    for round in 0..ROUNDS {
        let from = if round % 2 == 0 { THERE } else { HERE };
        let mut new = ask(&mut pair, 1, from);
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
    // From where it was before it is no more than a reconnection.
    let before = pair.counter("sessions", "reinstatements_elsewhere");
    let mut again = ask(&mut pair, 1, HERE);
    assert_eq!(
        login_status(&again.receive(&mut pair)),
        Some(LoginStatus::SUCCESS)
    );
    assert_eq!(pair.counter("sessions", "reinstatements_elsewhere"), before);
    ROUNDS
}
