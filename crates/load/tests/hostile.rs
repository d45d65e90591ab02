//! Tests the initiator against a hostile target (faults.md, I-01 to I-07): no panic, no endless
//! loop, bounded memory, and every violation is a typed error.
#[path = "../../iscsi-session/tests/peer/mod.rs"]
mod peer;

use std::sync::Arc;
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_contract::initiator::Vm;
use hakaru_iscsi_session::{SessionError, SurveyError};
use hakaru_load::{CommandLimits, HostEvent, IscsiHost, Payload, Settings, VmError};
use hakaru_stats::Latencies;
use hakaru_units::Time;
use hakaru_wire::iscsi::{Itt, Stage};
use hakaru_wire::scsi::{Capacity16, Cdb, Inquiry, Status, emit_luns};
use peer::Peer;
use proptest::prelude::*;

/// Strategy of nearly valid headers: a target's opcode, small numbers, tags that may exist.
fn header() -> impl Strategy<Value = [u8; 48]> {
    let opcodes = prop::sample::select(vec![
        0x20u8, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x31, 0x32, 0x3f, 0x01, 0x3e,
    ]);
    let tag = prop::sample::select(vec![
        0x0001_0000u32,
        0x0001_0001,
        0xffff_ffff,
        0xff00,
        0xff01,
        0xff02,
        0xff03,
    ]);
    let small = prop::sample::select(vec![0u32, 1, 511, 512, 4096, 8192, u32::MAX]);
    let stat_sn = prop::sample::select(vec![4002u32, 4003, 0]);
    (
        opcodes,
        any::<[u8; 3]>(),
        tag,
        (small.clone(), small.clone(), small.clone()),
        stat_sn,
        0u32..600,
        any::<[u8; 4]>(),
    )
        .prop_map(|(opcode, flags, tag, (a, b, c), stat_sn, length, rest)| {
            let mut h = [0u8; 48];
            h[0] = opcode;
            h[1..4].copy_from_slice(&flags);
            h[4] = rest[0] & 1;
            h[5..8].copy_from_slice(&length.to_be_bytes()[1..]);
            h[16..20].copy_from_slice(&tag.to_be_bytes());
            h[20..24].copy_from_slice(&a.to_be_bytes());
            h[24..28].copy_from_slice(&stat_sn.to_be_bytes());
            h[28..32].copy_from_slice(&2u32.to_be_bytes());
            h[32..36].copy_from_slice(&b.to_be_bytes());
            h[36..40].copy_from_slice(&[0, 0, rest[1], rest[2]]);
            h[40..44].copy_from_slice(&c.to_be_bytes());
            h[44..48].copy_from_slice(&a.to_be_bytes());
            h
        })
}

/// Polls PDUs, completed tasks and events of the session until nothing is pending.
fn exhaust(peer: &mut Peer) {
    while peer.poll().is_some() {}
    while peer.session.poll_done().is_some() {}
    while peer.session.poll_event().is_some() {}
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16 * ProptestConfig::default().cases))]

    #[test]
    fn no_answer_in_full_feature_phase_panics(
        pdus in prop::collection::vec((header(), prop::collection::vec(any::<u8>(), 0..600)), 1..12),
        cut in 1usize..700,
    ) {
        let mut peer = Peer::logged_in(LoginKeys::default(), &[("InitialR2T", "Yes")]);
        peer.submit_read(1, 8, true);
        peer.submit_write(2, vec![0; 4096]);
        for (header, data) in pdus {
            let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
            let mut bytes = header.to_vec();
            bytes.extend((0..usize::from(header[4]) * 4).map(|_| 0u8));
            bytes.extend(data.iter().cycle().take(if data.is_empty() { 0 } else { length.next_multiple_of(4) }));
            bytes.chunks_mut(cut).for_each(|piece| peer.send_raw(piece));
            exhaust(&mut peer);
        }
        // After two timeouts the session is lost, or it continues with the answers that it
        // received.
        peer.pass(Duration::from_secs(61));
        peer.pass(Duration::from_secs(61));
        exhaust(&mut peer);
        prop_assert!(peer.session.transmit().len() < 1 << 20);
    }

    #[test]
    fn no_bytes_during_login_panic(
        stage in prop::sample::select(vec![0u8, 1]),
        flags in any::<u8>(),
        text in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(b'='), Just(b'A')], 0..400),
        status in prop::sample::select(vec![0u16, 0x0101, 0x0102, 0x0203, 0x0300, 0x0900]),
        keys in prop::sample::select(vec!["", "AuthMethod=None\0", "MaxBurstLength=0\0", "FirstBurstLength=99999999999\0", "HeaderDigest=SHA\0"]),
    ) {
        let mut peer = Peer::connected(peer::config(LoginKeys::default()));
        peer.take();
        if stage == 1 {
            peer.answer_login(Stage::SecurityNegotiation, Some(Stage::OperationalNegotiation), &[("AuthMethod", "None")]);
            peer.take();
        }
        let mut text: Vec<u8> = [keys.as_bytes(), &text].concat();
        let stat_sn = peer.stat_sn;
        let mut header = [0u8; 48];
        header[0] = 0x23;
        header[1] = flags;
        header[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
        header[16..20].copy_from_slice(&0xff00u32.to_be_bytes());
        header[24..28].copy_from_slice(&stat_sn.to_be_bytes());
        header[36..38].copy_from_slice(&status.to_be_bytes());
        text.resize(text.len().next_multiple_of(4), 0);
        peer.send_raw(&mut [&header[..], &text].concat());
        exhaust(&mut peer);
        peer.pass(Duration::from_secs(31));
        // In full feature phase an idle session continues; in any other phase it has ended.
        prop_assert!(peer.session.is_ended() || peer.session.poll_timeout().is_some());
    }

    #[test]
    fn no_answer_to_the_survey_panics(
        answers in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..64), any::<bool>()), 5..6),
    ) {
        let mut target = FakeTarget::new();
        for (data, good) in answers {
            if let Some(itt) = target.next_command() {
                target.answer(itt.0, &data, if good { Status::GOOD } else { Status(0x40) });
            }
        }
        while let Some(event) = target.host.poll_event() {
            let ends_survey = matches!(event, HostEvent::Failed { .. } | HostEvent::Ready(_));
            prop_assert!(ends_survey);
        }
    }
}

/// A VM whose target is the test. `peer` only encodes PDUs; its session is unused.
struct FakeTarget {
    host: IscsiHost,
    peer: Peer,
    latencies: Latencies,
}

impl FakeTarget {
    /// Creates a VM that is logged in and has sent its first survey command.
    fn new() -> FakeTarget {
        let vm: Vm = serde_json::from_value(serde_json::json!({
            "name": "vm1",
            "destination": {"kind": "iscsi", "portal": "127.0.0.1:3260", "target_name": "iqn.2026-01.lab:t", "lun": 0,
                "initiator_name": "iqn.2026-01.lab:vm1"},
            "region": {"offset_bytes": 0, "length_bytes": 0},
            "pattern": {"sizes": [{"bytes": 4096}], "read_percent": 50, "random_percent": 100},
            "load": {"kind": "closed", "queue_depth": 2},
            "seed": 1,
        }))
        .unwrap();
        let settings = Settings {
            chap: None,
            keys: LoginKeys::default(),
            timeout: peer::TIMEOUT,
            payload: Payload::new(4096, 1),
            verify_run: None,
            commands: CommandLimits::default(),
        };
        let mut target = FakeTarget {
            host: IscsiHost::new(vec![(0, Arc::new(vm))], Arc::new(settings)),
            peer: Peer::connected(peer::config(LoginKeys::default())),
            latencies: Latencies::default(),
        };
        target.host.handle_connected(Time(0), 0);
        target.log_in();
        target
    }

    fn log_in(&mut self) {
        let stages = [
            Stage::SecurityNegotiation,
            Stage::OperationalNegotiation,
            Stage::FullFeaturePhase,
        ];
        for pair in stages.windows(2) {
            let numbers = self.peer.next_numbers();
            let text: &[u8] = if pair[0] == Stage::SecurityNegotiation {
                b"AuthMethod=None\0"
            } else {
                b""
            };
            let response = hakaru_wire::iscsi::LoginResponse {
                current_stage: pair[0],
                next_stage: Some(pair[1]),
                tsih: 1,
                itt: Itt(0xff00),
                numbers,
                data_segment_length: text.len() as u32,
                ..Default::default()
            };
            let bytes = self.peer.bytes_of(|out| response.emit(out), text);
            self.take_sent();
            self.receive(&bytes);
        }
    }

    fn take_sent(&mut self) -> Vec<u8> {
        let transmit = self.host.transmit(0);
        let bytes: Vec<u8> = transmit.slices().flatten().copied().collect();
        transmit.advance(Time(1_000), bytes.len());
        bytes
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.host
            .handle_received(Time(1_000), 0, bytes, &mut self.latencies);
        self.host.issue(Time(1_000));
    }

    /// Returns tag and CDB of the last command that the VM sent, if any.
    fn next_command(&mut self) -> Option<(Itt, [u8; 16])> {
        let bytes = self.take_sent();
        let header = bytes.get(bytes.len().checked_sub(48)?..)?;
        self.peer.exp_cmd_sn += 1;
        let itt = Itt(u32::from_be_bytes(header[16..20].try_into().unwrap()));
        Some((itt, header[32..48].try_into().unwrap()))
    }

    fn answer(&mut self, itt: Itt, data: &[u8], status: Status) {
        let numbers = self.peer.next_numbers();
        let pdu = hakaru_wire::iscsi::DataIn {
            is_final: true,
            status: Some(hakaru_wire::iscsi::DataInStatus {
                status: status.0,
                ..Default::default()
            }),
            itt,
            numbers,
            data_segment_length: data.len() as u32,
            ..Default::default()
        };
        let pdu_bytes = self.peer.bytes_of(|out| pdu.emit(out), data);
        let response = hakaru_wire::iscsi::ScsiResponse {
            status: status.0,
            itt,
            numbers,
            ..Default::default()
        };
        let response_bytes = self.peer.bytes_of(|out| response.emit(out), &[]);
        // A command without data is answered with a SCSI Response.
        let bytes = if data.is_empty() {
            response_bytes
        } else {
            pdu_bytes
        };
        self.receive(&bytes);
    }

    /// Answers the survey with valid data except for the given capacity.
    fn answer_survey(&mut self, last_lba: u64, block_length: u32) {
        while let Some((itt, cdb)) = self.next_command() {
            let data = match Cdb::parse(&cdb) {
                Ok(Cdb::ReportLuns { .. }) => emit_luns([hakaru_wire::iscsi::Lun::new(0)]),
                Ok(Cdb::Inquiry { .. }) => Inquiry {
                    vendor: "LIAR".into(),
                    ..Inquiry::default()
                }
                .emit()
                .to_vec(),
                Ok(Cdb::ReadCapacity16 { .. }) => Capacity16 {
                    last_lba,
                    block_length,
                    ..Capacity16::default()
                }
                .emit()
                .to_vec(),
                _ => Vec::new(),
            };
            self.answer(itt, &data, Status::GOOD);
        }
    }
}

#[test]
fn valid_capacity_makes_the_vm_ready() {
    let mut target = FakeTarget::new();
    target.answer_survey(2047, 512);
    let Some(HostEvent::Ready(facts)) = target.host.poll_event() else {
        panic!("the VM is ready")
    };
    assert_eq!(
        (
            facts.volume.block_bytes,
            facts.volume.capacity_bytes,
            facts.vendor.as_str()
        ),
        (512, 1 << 20, "LIAR")
    );
    assert_eq!(facts.luns, [0]);
}

/// faults.md I-02: 0 or 2^64 blocks, blocks of 0, 3 or 2^31 bytes.
#[test]
fn an_impossible_capacity_is_an_error_that_quotes_it() {
    for (last_lba, block_length, answer) in [
        (2047, 0, "blocks of 0 bytes"),
        (2047, 3, "blocks of 3 bytes"),
        (2047, 1 << 31, "blocks of 2147483648 bytes"),
        (u64::MAX, 512, "a last block of 18446744073709551615"),
        (u64::MAX / 512, 512, "a last block of 36028797018963967"),
    ] {
        let mut target = FakeTarget::new();
        target.answer_survey(last_lba, block_length);
        let expected = SurveyError::Answer {
            command: "READ CAPACITY(16)",
            answer: answer.into(),
        };
        assert_eq!(
            target.host.poll_event(),
            Some(HostEvent::Failed {
                vm: 0,
                error: VmError::Survey(expected)
            })
        );
    }
}

#[test]
fn capacity_too_small_for_the_pattern_names_the_field() {
    let mut target = FakeTarget::new();
    target.answer_survey(3, 512);
    let Some(HostEvent::Failed {
        error: VmError::Config(error),
        ..
    }) = target.host.poll_event()
    else {
        panic!("the VM has failed")
    };
    assert_eq!(error.field, "vms[0].pattern.sizes[0].bytes");
}

/// faults.md I-01: the ninth redirect in a row exceeds the limit.
#[test]
fn an_endless_chain_of_redirects_fails_the_vm() {
    let mut target = FakeTarget::new();
    let text = b"TargetAddress=192.0.2.9:3260,1\0";
    let response = hakaru_wire::iscsi::LoginResponse {
        status: hakaru_wire::iscsi::LoginStatus::TARGET_MOVED_TEMPORARILY,
        itt: Itt(0xff00),
        data_segment_length: text.len() as u32,
        ..Default::default()
    };
    let bytes = target.peer.bytes_of(|out| response.emit(out), text);
    // Replace the VM by a new one that has not logged in.
    let config = Arc::new(target.host.config(0).clone());
    let settings = Settings {
        chap: None,
        keys: LoginKeys::default(),
        timeout: peer::TIMEOUT,
        payload: Payload::new(4096, 1),
        verify_run: None,
        commands: CommandLimits::default(),
    };
    target.host = IscsiHost::new(vec![(0, config)], Arc::new(settings));
    for _ in 0..8 {
        target.host.handle_connected(Time(0), 0);
        target.receive(&bytes);
        assert_eq!(
            target.host.poll_event(),
            Some(HostEvent::Redirected {
                leg: 0,
                address: "192.0.2.9:3260".into()
            })
        );
    }
    target.host.handle_connected(Time(0), 0);
    target.receive(&bytes);
    assert_eq!(
        target.host.poll_event(),
        Some(HostEvent::Failed {
            vm: 0,
            error: VmError::Session(SessionError::Redirects(9))
        })
    );
}

#[test]
fn a_vm_whose_target_vanishes_counts_its_requests_in_flight_as_errors() {
    let mut target = FakeTarget::new();
    target.answer_survey(2047, 512);
    target.host.begin(Time(5_000));
    assert_eq!(target.host.in_flight(), 2);
    target.host.handle_closed(
        Time(9_000),
        0,
        "(closed by the target)",
        &mut target.latencies,
    );
    let events: Vec<HostEvent> = std::iter::from_fn(|| target.host.poll_event()).collect();
    assert!(matches!(
        events.last(),
        Some(HostEvent::Failed {
            error: VmError::Session(SessionError::Closed(_)),
            ..
        })
    ));
    let counters = target.host.counters(Time(10_000), 0);
    assert_eq!(
        (
            counters.errors,
            counters.outstanding_ns,
            target.host.in_flight()
        ),
        (2, 8_000, 0)
    );
}
