//! initiators that occupy resources and send nothing. Time is virtual, so
//! that the tests do not wait.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hakaru_iscsi_target::{Access, Limits, Segment, TargetConfig};
use hakaru_wire::iscsi::chap::Credentials;
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{LoginStatus, Opcode, Stage};

use super::scene::Scene;
use crate::pair::{INITIATOR, Initiator, Pair, config, names, r2t_of};

fn login_bytes(initiator: &Initiator, text: &[u8]) -> Vec<u8> {
    let mut header = [0; 48];
    let mut request = initiator.login_request(Stage::SecurityNegotiation, None);
    request.data_segment_length = text.len() as u32;
    request.emit(&mut header);
    initiator.pdu(&header, text)
}

pub fn slow_logins() -> u64 {
    const MANY: usize = 2000;
    let mut scene = Scene::new();
    let slow: Vec<_> = (0..MANY).map(|_| scene.connect()).collect();
    for round in 0..3 {
        for connection in &slow {
            scene.pair.send(*connection, &[0x43]);
            assert!(
                !scene.pair.is_closed(*connection),
                "closed after only {} s",
                round * 5
            );
        }
        // A real login does not wait for the slow ones.
        let real = scene.log_in(&[]);
        scene.hang_up(real.connection);
        scene.pair.advance(4.99);
        scene.assert_bystander_served();
    }
    scene.pair.advance(0.2);
    assert!(
        slow.iter()
            .all(|connection| scene.pair.is_closed(*connection)),
        "not all connections were cut after 15 s"
    );
    assert!(
        slow.iter()
            .all(|connection| scene.pair.received_nothing(*connection))
    );
    scene.assert_bystander_served();
    scene.assert_nothing_held();
    MANY as u64
}

pub fn half_logins() -> u64 {
    const PER_ADDRESS: u32 = 64;
    let limited = TargetConfig {
        access: Access {
            users: vec![Credentials::new("vm", "the secret of vm").expect("credentials")],
            rules: None,
            ..Access::default()
        },
        limits: Limits {
            logins_max: 256,
            logins_per_address_max: PER_ADDRESS,
            ..Limits::default()
        },
        ..config()
    };
    let mut pair = Pair::with(limited);
    let begin = |pair: &mut Pair, address: &str| {
        let connection = pair.try_connect_from(address)?;
        let mut initiator = Initiator::new(connection, 1);
        let mut text = names(INITIATOR);
        emit_pair(&mut text, "AuthMethod", "CHAP");
        let bytes = login_bytes(&initiator, &text);
        pair.send(connection, &bytes);
        let answer = initiator.receive_one(pair);
        assert_eq!(answer.opcode(), Opcode::LoginResponse);
        Some(connection)
    };
    let held: Vec<_> = (0..PER_ADDRESS)
        .map(|port| {
            begin(&mut pair, &format!("10.0.0.9:{}", 1000 + port)).expect("within the limit")
        })
        .collect();
    let mut refused = 0;
    for port in 0..100 {
        refused += u32::from(begin(&mut pair, &format!("10.0.0.9:{}", 5000 + port)).is_none());
    }
    assert_eq!(
        refused, 100,
        "an address cannot exceed its share with unfinished logins"
    );
    assert!(
        begin(&mut pair, "10.0.0.10:1000").is_some(),
        "another address has its own share"
    );
    pair.advance(15.1);
    assert!(held.iter().all(|connection| pair.is_closed(*connection)));
    assert!(
        begin(&mut pair, "10.0.0.9:9000").is_some(),
        "the share is free again after the timeout"
    );
    u64::from(PER_ADDRESS) + 102
}

pub fn unread() -> u64 {
    const CLIENTS: u32 = 100;
    let mut scene = Scene::new();
    // Reads are copied, as with data digests, so that the queue occupies memory.
    scene.pair.copy = true;
    let cap = Limits::default().transmit_bytes_max;
    let mut greedy = Vec::new();
    for isid in 0..CLIENTS {
        let mut initiator =
            scene
                .pair
                .log_in_as("iqn.2026-01.net.example:greedy", 1000 + isid, &[]);
        scene.pair.blocked.insert(initiator.connection);
        for _ in 0..64 {
            if !scene.pair.target.wants_received(initiator.connection) {
                break;
            }
            let command = initiator.command(
                0,
                &[0x28, 0, 0, 0, 0, 0, 0, 4, 0, 0],
                true,
                false,
                512 << 10,
            );
            initiator.send_command(&mut scene.pair, &command, &[]);
        }
        let queued: usize = scene
            .pair
            .target
            .transmit(initiator.connection)
            .segments()
            .map(|segment| match segment {
                Segment::Bytes(bytes) => bytes.len(),
                Segment::Lu { .. } => 0,
            })
            .sum();
        assert!(
            queued <= cap + (1 << 20),
            "{queued} bytes are held for an initiator that reads nothing"
        );
        greedy.push(initiator.connection);
        scene.assert_bystander_served();
    }
    for _ in 0..13 {
        scene.pair.advance(5.0);
        scene.assert_bystander_served();
    }
    for connection in &greedy {
        assert!(scene.pair.is_closed(*connection), "after a minute");
    }
    scene.assert_bystander_served();
    scene.assert_nothing_held();
    u64::from(CLIENTS)
}

pub fn write_flood() -> u64 {
    const CLIENTS: u32 = 500;
    const DEPTH: u32 = 32;
    const BYTES: u32 = 1 << 20;
    let limits = Limits::default();
    let mut scene = Scene::new();
    let mut requested = 0_u64;
    for isid in 0..CLIENTS {
        let keys = [
            ("InitialR2T", "Yes"),
            ("ImmediateData", "No"),
            ("MaxBurstLength", "1048576"),
        ];
        let mut initiator =
            scene
                .pair
                .log_in_as("iqn.2026-01.net.example:flood", 1000 + isid, &keys);
        for _ in 0..DEPTH {
            let command =
                initiator.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 8, 0, 0], false, true, BYTES);
            initiator.send_command(&mut scene.pair, &command, &[]);
        }
        for pdu in initiator.receive(&mut scene.pair) {
            requested += u64::from(r2t_of(&pdu).desired_data_transfer_length);
        }
        let reserved = scene.pair.counter("sessions", "write_buffer_bytes_now");
        assert!(
            reserved <= limits.write_buffer_bytes_max as f64,
            "{reserved} bytes are reserved"
        );
        assert!(
            requested as f64 <= reserved,
            "R2Ts request more than is reserved"
        );
    }
    assert!(requested > 0, "no R2T was sent");
    scene.assert_bystander_served();
    u64::from(CLIENTS * DEPTH)
}

pub fn vanished() -> u64 {
    let mut scene = Scene::new();
    scene.pair.stalled = true;
    let mut outstanding = 0;
    let mut vanished = Vec::new();
    for isid in 0..8 {
        let mut initiator = scene
            .pair
            .log_in_as("iqn.2026-01.net.example:gone", 1000 + isid, &[]);
        for _ in 0..125 {
            let command =
                initiator.command(0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], true, false, 512);
            initiator.send_command(&mut scene.pair, &command, &[]);
            outstanding += 1;
        }
        vanished.push(initiator.connection);
    }
    assert_eq!(scene.pair.held.len(), outstanding);
    scene.pair.advance(14.9);
    assert!(
        vanished
            .iter()
            .all(|connection| !scene.pair.is_closed(*connection))
    );
    scene.pair.advance(0.2);
    assert!(
        vanished
            .iter()
            .all(|connection| scene.pair.is_closed(*connection)),
        "not noticed within 15 s"
    );
    // The storage still executes their reads. The shutdown does not wait for it.
    let time = scene.pair.time;
    scene.pair.target.shut_down(time);
    scene.pair.run();
    scene.pair.advance(5.0);
    assert_eq!(
        scene.pair.counter("sessions", "connections_now"),
        0.0,
        "connections remain after 5 s"
    );
    scene.pair.release();
    outstanding as u64
}

/// Plants a panic in the two functions of the shell that the target calls: the generator of
/// challenges, and the function that reads an LU.
pub fn panicking() -> u64 {
    let mut tried = 0;
    // In a login.
    let chap = TargetConfig {
        access: Access {
            users: vec![Credentials::new("vm", "the secret of vm").expect("credentials")],
            rules: Some(vec![
                hakaru_iscsi_target::Rule {
                    initiator_name: Some(INITIATOR.into()),
                    user: Some("vm".into()),
                    ..hakaru_iscsi_target::Rule::default()
                },
                hakaru_iscsi_target::Rule {
                    initiator_name: Some("iqn.2026-01.net.example:bystander".into()),
                    ..hakaru_iscsi_target::Rule::default()
                },
            ]),
            ..Access::default()
        },
        ..config()
    };
    let mut scene = Scene::with(chap.clone());
    let working = core::mem::replace(
        &mut scene.pair.target,
        hakaru_iscsi_target::Target::with_entropy(chap, Box::new(|_| panic!("planted"))),
    );
    drop(working);
    let mut bystander = scene
        .pair
        .log_in_as("iqn.2026-01.net.example:bystander", 78, &[]);
    for _ in 0..10 {
        let connection = scene.connect();
        let mut initiator = Initiator::new(connection, 1);
        let mut text = names(INITIATOR);
        emit_pair(&mut text, "AuthMethod", "CHAP");
        let (response, _) =
            initiator.login(&mut scene.pair, Stage::SecurityNegotiation, None, &text);
        assert_eq!(response.status, LoginStatus::SUCCESS);
        let mut text = Vec::new();
        emit_pair(&mut text, "CHAP_A", "7");
        let bytes = login_bytes(&initiator, &text);
        catch_panic(&mut scene.pair, connection, |pair| {
            pair.send(connection, &bytes)
        });
        assert_eq!(
            bystander.run(&mut scene.pair, 0, &[0; 6], 0).status,
            0,
            "other sessions continue"
        );
        tried += 1;
    }
    assert_eq!(scene.pair.counter("sessions", "panics"), 10.0);
    assert_eq!(scene.pair.counter("sessions", "connections_now"), 1.0);
    // In full feature phase, while something is sent.
    let mut scene = Scene::new();
    for _ in 0..10 {
        let mut initiator = scene.log_in(&[]);
        scene.pair.blocked.insert(initiator.connection);
        let command = initiator.command(
            0,
            &[0x28, 0, 0, 0, 0, 0, 0, 0, 64, 0],
            true,
            false,
            64 * 512,
        );
        initiator.send_command(&mut scene.pair, &command, &[]);
        let connection = initiator.connection;
        catch_panic(&mut scene.pair, connection, |pair| {
            let (time, mut read) = (pair.time, |_: u8, _: u64, _: &mut [u8]| panic!("planted"));
            pair.target
                .handle_transmitted(time, connection, 48 + 100, &mut read);
        });
        scene.assert_bystander_served();
        tried += 1;
    }
    assert_eq!(scene.pair.counter("sessions", "panics"), 10.0);
    scene.assert_nothing_held();
    // The same initiator port logs in again, as after the loss of its connection.
    let again = scene.log_in(&[]);
    scene.hang_up(again.connection);
    tried
}

/// Catches a panic and ends the connection, as a shell does.
fn catch_panic(
    pair: &mut Pair,
    connection: hakaru_iscsi_target::ConnectionId,
    act: impl FnOnce(&mut Pair),
) {
    let panicked = catch_unwind(AssertUnwindSafe(|| act(pair)));
    assert!(panicked.is_err(), "the planted panic did not occur");
    pair.target.handle_panicked(pair.time, connection);
    pair.run();
    assert!(pair.is_closed(connection));
}
