//! M-10 and M-11: login requests out of order, and with the identity of another session.

use hakaru_wire::iscsi::{LoginRequest, LoginStatus, Opcode, Stage};

use super::scene::{Scene, header};
use crate::pair::{INITIATOR, Initiator, names};

const SECURITY: Stage = Stage::SecurityNegotiation;
const OPERATIONAL: Stage = Stage::OperationalNegotiation;
const FULL: Stage = Stage::FullFeaturePhase;

/// Returns the flags byte of a Login Request with the transit bit and the numbers of the stages.
fn flags(transit: bool, current: u8, next: u8) -> u8 {
    u8::from(transit) << 7 | current << 2 | next
}

pub fn stages() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    for transit in [false, true] {
        for (current, next) in (0..4).flat_map(|current| (0..4).map(move |next| (current, next))) {
            let connection = scene.connect();
            let mut initiator = Initiator::new(connection, 1);
            let text = names(INITIATOR);
            let mut request = [0; 48];
            LoginRequest {
                data_segment_length: text.len() as u32,
                ..initiator.login_request(SECURITY, None)
            }
            .emit(&mut request);
            request[1] = flags(transit, current, next);
            initiator.send(&mut scene.pair, &request, &text);
            let answers = initiator.receive(&mut scene.pair);
            assert_eq!(answers.len(), 1, "{transit} {current} {next}");
            let status =
                u16::from_be_bytes([answers[0].bhs.as_bytes()[36], answers[0].bhs.as_bytes()[37]]);
            // Stages are 0, 1 and 3. A login begins in stage 0 or 1 and only moves forward. NSG has
            // no meaning without the T bit.
            let forward = [1, 3].contains(&next) && next > current;
            let possible = [0, 1].contains(&current) && (!transit || forward);
            assert_eq!(
                status == 0,
                possible,
                "T={transit} CSG={current} NSG={next}: {status:04x}h"
            );
            assert_eq!(scene.pair.is_closed(connection), !possible);
            if !possible {
                assert_eq!(status >> 8, 2, "the class is Initiator Error");
            }
            scene.hang_up(connection);
            tried += 1;
        }
    }
    // PDUs of full feature phase in the middle of a login.
    for opcode in (0..64).filter(|opcode| *opcode != Opcode::LoginRequest.code()) {
        let connection = scene.connect();
        let mut initiator = Initiator::new(connection, 1);
        let (response, _) = initiator.login(&mut scene.pair, SECURITY, None, &names(INITIATOR));
        assert_eq!(response.status, LoginStatus::SUCCESS);
        scene.pair.send(connection, &header(opcode));
        assert!(scene.pair.is_closed(connection), "opcode {opcode:02x}h");
        assert!(
            scene.pair.received(connection).len() <= 48,
            "more than one refusal"
        );
        tried += 1;
    }
    // A Login Request in full feature phase.
    let mut initiator = scene.log_in(&[]);
    let mut request = [0; 48];
    initiator
        .login_request(OPERATIONAL, Some(FULL))
        .emit(&mut request);
    initiator.send(&mut scene.pair, &request, &[]);
    assert!(scene.pair.is_closed(initiator.connection));
    scene.assert_bystander_served();
    scene.assert_nothing_held();
    tried + 1
}

pub fn handles() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    let mut victim = scene.log_in(&[]);
    for tsih in [victim.tsih, victim.tsih.wrapping_add(1), 0xffff, 0x8000] {
        for (isid, cid) in [(1, 1), (1, 2), (9, 1)] {
            let connection = scene.connect();
            let mut initiator = Initiator::new(connection, isid);
            initiator.tsih = tsih;
            let text = names(INITIATOR);
            let request = LoginRequest {
                cid,
                data_segment_length: text.len() as u32,
                ..initiator.login_request(OPERATIONAL, Some(FULL))
            };
            let (response, _) = initiator.login_with(&mut scene.pair, request, &text);
            let expected = if tsih == victim.tsih {
                LoginStatus::TOO_MANY_CONNECTIONS
            } else {
                LoginStatus::SESSION_DOES_NOT_EXIST
            };
            assert_eq!(response.status, expected, "TSIH {tsih}");
            assert!(scene.pair.is_closed(connection));
            tried += 1;
        }
    }
    let answer = victim.run(&mut scene.pair, 0, &[0; 6], 0);
    assert_eq!(
        answer.status, 0,
        "the session whose handle was used is affected"
    );
    // A login with the same name and ISID and with TSIH 0 replaces that session, and only that
    // session.
    let successor = scene.log_in(&[]);
    assert!(scene.pair.is_closed(victim.connection));
    assert!(!scene.pair.is_closed(successor.connection));
    scene.assert_bystander_served();
    tried + 1
}
