//! Conversations with known times, in complete and in damaged captures.
mod support;

use hakaru_dissect::{CommandReport, Report, SessionReport, StatusReport};
use proptest::prelude::*;
use support::{From, MILLISECOND, Packet, Talk, dissect};

const KEYS: &str = "MaxBurstLength=16384\0FirstBurstLength=8192\0InitialR2T=Yes\0";

/// Returns a conversation of two writes, one of them with immediate data, and two reads.
fn conversation(port: u16, digests: (bool, bool), segment_bytes: usize) -> Talk {
    let mut talk = Talk::new(port);
    talk.segment_bytes = segment_bytes;
    talk.log_in(KEYS, digests);
    talk.write(10, 32_768, 0, 16_384);
    talk.write(11, 20_480, 4096, 16_384);
    talk.read(12, 30_001, true);
    talk.read(13, 8192, false);
    talk
}

fn only_session(report: &Report) -> &SessionReport {
    assert_eq!(report.sessions.len(), 1, "{report:#?}");
    &report.sessions[0]
}

fn phase(commands: &CommandReport, name: &str) -> u64 {
    commands.phases.get(name).unwrap().sum_ns / MILLISECOND
}

/// Asserts the times that `Talk` prescribes.
fn assert_times(session: &SessionReport) {
    let (writes, reads) = (&session.writes, &session.reads);
    assert_eq!((writes.commands, writes.bytes, writes.r2ts), (2, 53_248, 3));
    assert_eq!(phase(writes, "wait_r2t"), 3 * 5);
    assert_eq!(phase(writes, "r2t_to_data"), 3);
    assert_eq!(phase(writes, "data_transfer"), 3 * 2);
    assert_eq!(phase(writes, "data_to_response"), 2 * 3);
    assert_eq!((reads.commands, reads.bytes), (2, 38_193));
    assert_eq!(phase(reads, "command_to_data"), 2 * 4);
    assert_eq!(phase(reads, "data_transfer"), 2 * 2);
    assert_eq!(phase(reads, "data_to_response"), 1);
    assert_eq!(writes.r2t_wait.count, 3);
    assert!(writes.r2t_wait.p50_ns.abs_diff(5 * MILLISECOND) < 10_000);
    assert_sums(session);
}

fn assert_sums(session: &SessionReport) {
    for commands in [&session.reads, &session.writes] {
        let sum: u64 = commands.phases.values().map(|phase| phase.sum_ns).sum();
        assert_eq!(sum, commands.latency_sum_ns);
    }
}

#[test]
fn phases_are_those_of_the_conversation_and_sum_to_the_latency() {
    for digests in [(false, false), (true, false), (false, true), (true, true)] {
        for segment_bytes in [1448, 100, 7, 60_000] {
            let report = dissect(&conversation(3260, digests, segment_bytes).packets);
            let session = only_session(&report);
            assert_times(session);
            assert_eq!(session.digests, Some(digests));
            assert_eq!(session.handshake_rtt_ns, Some(2 * MILLISECOND));
            assert_eq!(
                session.initiator_name.as_deref(),
                Some("iqn.2026-01.test:i")
            );
            assert_eq!(session.target_name.as_deref(), Some("iqn.2026-01.test:t"));
            assert_eq!(session.from_initiator.pdus["DataOut"], 4 + 2);
            assert_eq!(session.from_target.pdus["DataIn"], 4 + 1);
            assert_eq!(session.from_target.pdus["ScsiResponse"], 3);
            assert_eq!(
                (
                    session.commands,
                    session.commands_not_whole,
                    session.assumed_pdus
                ),
                (4, 0, 0)
            );
            for direction in [&session.from_initiator, &session.from_target] {
                assert_eq!((direction.skipped_bytes, direction.lost_step), (0, 0));
                assert_eq!(
                    (direction.data_digest_errors, direction.stream.missing_bytes),
                    (0, 0)
                );
            }
            let negotiated = session.negotiated.as_ref().unwrap();
            assert_eq!(negotiated["MaxBurstLength"], "16384");
            assert_eq!(negotiated["MaxRecvDataSegmentLength (target)"], "8192");
            assert_eq!(
                negotiated["HeaderDigest"],
                if digests.0 { "CRC32C" } else { "None" }
            );
        }
    }
}

/// Fixed-format sense data: NOT READY, becoming ready.
const NOT_READY: [u8; 18] = [0x70, 0, 2, 0, 0, 0, 0, 10, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0];

fn failed(sense: Option<[u8; 3]>) -> StatusReport {
    StatusReport {
        status: 2,
        sense,
        commands: 1,
    }
}

#[test]
fn sense_data_in_two_segments_is_complete_although_a_command_lies_between_them() {
    let mut talk = Talk::new(3260);
    talk.log_in(KEYS, (false, false));
    talk.failed_read(10, &NOT_READY, 48 + 6);
    let report = dissect(&talk.packets);
    let statuses = &only_session(&report).statuses;
    assert!(statuses.contains(&failed(Some([2, 4, 1]))), "{statuses:?}");
}

#[test]
fn sense_data_of_which_a_part_is_missing_is_not_known() {
    let mut talk = Talk::new(3260);
    talk.log_in(KEYS, (false, false));
    talk.failed_read(10, &NOT_READY, 48 + 6);
    talk.read(12, 8192, true);
    // The first segment of the response, without the end of its 54 bytes.
    let mut packets = talk.packets.clone();
    let response = packets
        .iter_mut()
        .find(|packet| packet.from == From::Target && packet.payload == 54);
    let cut = response.expect("the first segment");
    cut.bytes.truncate(cut.bytes.len() - 2);
    let report = dissect(&packets);
    let statuses = &only_session(&report).statuses;
    assert!(statuses.contains(&failed(None)), "{statuses:?}");
}

#[test]
fn another_connection_of_the_same_ports_is_recognised_if_the_first_began_before_the_capture() {
    for ahead in [1 << 28, 0u32.wrapping_sub(1 << 28)] {
        let first = conversation(3260, (false, false), 1448);
        let mut second = first.reconnected(ahead);
        second.log_in(KEYS, (false, false));
        second.read(20, 8192, true);
        // Without the handshake of the first.
        let packets = [&first.packets[3..], &second.packets[..]].concat();
        let report = dissect(&packets);
        assert_eq!(report.sessions.len(), 2, "{report:#?}");
        let session = &report.sessions[1];
        assert_eq!((session.reads.commands, session.reads.bytes), (1, 8192));
        for direction in [&session.from_initiator, &session.from_target] {
            let stream = &direction.stream;
            assert_eq!((stream.retransmitted_bytes, stream.missing_bytes), (0, 0));
        }
    }
}

#[test]
fn a_session_on_another_port_is_recognised_by_its_content() {
    let talk = conversation(50_123, (true, true), 1448);
    let session = dissect(&talk.packets);
    assert_times(only_session(&session));
    assert_eq!(only_session(&session).target, "10.0.0.2:50123");
}

#[test]
fn a_capture_that_begins_in_the_middle_finds_the_sides_and_the_digests() {
    for port in [3260, 50_123] {
        for digests in [(false, false), (true, false), (false, true), (true, true)] {
            let mut talk = conversation(port, digests, 1448);
            let middle = talk.packets.len();
            talk.write(20, 32_768, 4096, 16_384);
            talk.write(21, 32_768, 0, 16_384);
            talk.read(22, 16_384, true);
            let report = dissect(&talk.packets[middle..]);
            let session = only_session(&report);
            assert_eq!(session.target, format!("10.0.0.2:{port}"));
            assert_eq!(
                (
                    session.writes.commands + session.commands_not_whole,
                    session.reads.commands
                ),
                (2, 1),
                "{port} {digests:?} {session:#?}"
            );
            assert!(
                session.digests.is_none_or(|detected| detected == digests),
                "{:?}",
                session.digests
            );
            assert_eq!(session.negotiated, None);
            assert_sums(session);
        }
    }
}

/// Swaps neighbouring packets of one direction and repeats one of them. Data is in order once the
/// later of the two has arrived.
#[test]
fn reordered_and_repeated_segments_change_no_count() {
    let talk = conversation(3260, (false, true), 1448);
    let mut packets: Vec<Packet> = Vec::new();
    for pair in talk.packets.chunks(2) {
        if let [a, b] = pair
            && a.at == b.at
            && a.bytes[12..16] == b.bytes[12..16]
        {
            packets.extend([b.clone(), a.clone(), b.clone()]);
        } else {
            packets.extend_from_slice(pair);
        }
    }
    let report = dissect(&packets);
    let session = only_session(&report);
    assert_times(session);
    assert!(session.from_initiator.stream.out_of_order_segments > 5);
    assert!(session.from_initiator.stream.duplicated_packets > 5);
    assert_eq!(session.from_initiator.stream.retransmitted_segments, 0);
    assert_eq!(session.from_initiator.stream.missing_bytes, 0);
}

#[test]
fn data_cut_by_the_snap_length_changes_no_time() {
    for digests in [(false, false), (true, true)] {
        // Keep 40 bytes of headers and the first 256 bytes of each segment.
        let talk = conversation(3260, digests, 1448);
        let mut packets = talk.snapped(40 + 256);
        // The login stays complete, because its keys are needed.
        packets[..8].clone_from_slice(&talk.packets[..8]);
        let report = dissect(&packets);
        let session = only_session(&report);
        assert_times(session);
        assert!(session.from_initiator.stream.cut_bytes > 30_000);
        assert_eq!(session.from_initiator.data_digest_errors, 0);
    }
}

#[test]
fn headers_that_the_snap_length_cut_are_assumed_within_a_burst_and_counted() {
    // Super-frames contain most headers beyond the snap length.
    let talk = conversation(3260, (false, false), 60_000);
    let mut packets = talk.snapped(40 + 128);
    packets[..8].clone_from_slice(&talk.packets[..8]);
    let report = dissect(&packets);
    let session = only_session(&report);
    assert_times(session);
    let seen = session.from_initiator.pdus["DataOut"] + session.from_target.pdus["DataIn"];
    assert!(
        seen < 11 && session.assumed_pdus == 11 - seen,
        "{session:#?}"
    );
}

#[test]
fn commands_of_a_long_cut_capture_are_counted_once() {
    // More commands than wait for a confirmation at a time, with tags that are never used again.
    const READS: u32 = 6000;
    for responses in [true, false] {
        let mut talk = Talk::new(3260);
        talk.segment_bytes = 60_000;
        talk.log_in(KEYS, (false, false));
        for itt in 0..READS {
            // Most statuses are in the last Data-In, behind the cut.
            talk.read(100 + itt, 20_000, !responses || itt % 8 < 7);
        }
        let mut packets = talk.snapped(40 + 128);
        packets[..8].clone_from_slice(&talk.packets[..8]);
        let report = dissect(&packets);
        let session = only_session(&report);
        assert!(session.assumed_pdus >= u64::from(READS), "{session:#?}");
        assert_eq!(session.commands, u64::from(READS));
        let untimed = session.commands_not_whole
            + session.commands_unfinished
            + session.commands_without_response;
        assert_eq!(session.reads.commands + untimed, session.commands);
        assert!(session.reads.commands > 0, "{session:#?}");
    }
}

#[test]
fn a_hole_that_the_peer_acknowledged_costs_only_the_commands_around_it() {
    let talk = conversation(3260, (false, false), 1448);
    for lost in 12..talk.packets.len() {
        let mut packets = talk.packets.clone();
        let length = packets.remove(lost).bytes.len() as u64 - 40;
        let report = dissect(&packets);
        let session = only_session(&report);
        let missing =
            session.from_initiator.stream.missing_bytes + session.from_target.stream.missing_bytes;
        assert!(missing == length || missing == 0, "packet {lost}");
        assert_sums(session);
        let timed = session.reads.commands + session.writes.commands;
        let untimed = session.commands_not_whole
            + session.commands_unfinished
            + session.commands_without_response;
        assert_eq!(
            timed + untimed,
            session.commands,
            "packet {lost}: {session:#?}"
        );
        assert!(timed >= 2, "packet {lost}: {session:#?}");
    }
}

#[test]
fn a_connection_without_iscsi_is_counted_as_other() {
    let mut talk = Talk::new(8080);
    talk.send(
        support::From::Initiator,
        &b"GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n".repeat(9),
    );
    talk.send(support::From::Target, &[0; 9000]);
    let report = dissect(&talk.packets);
    assert_eq!((report.sessions.len(), report.other_connections), (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]
    #[test]
    fn no_packets_panic_and_all_are_counted(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..40),
        cut in proptest::option::of(30usize..400),
        digests: (bool, bool),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
        segment_bytes in 1usize..3000,
    ) {
        let talk = conversation(if digests.0 { 3260 } else { 999 }, digests, segment_bytes.max(40));
        let mut packets = cut.map_or(talk.packets.clone(), |bytes| talk.snapped(bytes));
        for (packet, byte, value) in changes {
            let packet = packet.index(packets.len());
            let bytes = &mut packets[packet].bytes;
            let at = byte.index(bytes.len());
            bytes[at] = value;
        }
        for index in order {
            let at = index.index(packets.len());
            let packet = packets.remove(at);
            packets.insert(at / 2, packet);
        }
        let report = dissect(&packets);
        prop_assert_eq!(report.packets as usize, packets.len());
        for session in &report.sessions {
            assert_sums(session);
        }
    }
}

#[test]
fn loss_before_the_place_of_capture_is_counted() {
    let mut talk = Talk::between([40_001, 3260], 1000);
    talk.log_in(KEYS, (false, false));
    talk.read(10, 20_000, true);
    talk.packets.pop();
    talk.pass(200);
    talk.retransmit(support::From::Target, 1);
    talk.lose(support::From::Target, 2);
    talk.acknowledge(support::From::Initiator);
    let report = dissect(&talk.packets);
    let stream = &only_session(&report).from_target.stream;
    assert_eq!((stream.late_segments, stream.missing_bytes), (1, 0));
    assert!(stream.late_max_ns > 200 * MILLISECOND, "{stream:?}");
    assert_eq!(only_session(&report).reads.commands, 1);
}

#[test]
fn a_segment_that_was_only_overtaken_is_not_counted_as_lost() {
    let mut talk = Talk::between([40_001, 3260], 1000);
    talk.log_in(KEYS, (false, false));
    talk.read(10, 20_000, true);
    let last = talk.packets.len() - 2;
    let time = talk.packets[last].at;
    talk.packets.swap(last, last - 1);
    (talk.packets[last - 1].at, talk.packets[last].at) = (talk.packets[last].at, time);
    let stream = &only_session(&dissect(&talk.packets))
        .from_target
        .stream
        .clone();
    assert_eq!((stream.late_segments, stream.out_of_order_segments), (0, 1));
}

#[test]
fn a_handshake_with_a_lost_syn_has_a_duration_and_no_round_trip() {
    let mut talk = conversation(3260, (false, false), 1448);
    let mut lost = talk.packets[0].clone();
    lost.at.0 -= 1_000 * MILLISECOND;
    lost.bytes[4..6].copy_from_slice(&[9, 9]);
    talk.packets.insert(0, lost);
    let report = dissect(&talk.packets);
    let session = only_session(&report);
    assert_eq!(session.handshake_rtt_ns, None);
    assert_eq!(session.handshake_retransmissions, 1);
    assert_eq!(session.handshake_ns, Some(1_002 * MILLISECOND));
}

#[test]
fn both_halves_of_the_round_trip_show_where_the_capture_was_made() {
    let report = dissect(&conversation(3260, (false, false), 1448).packets);
    let session = only_session(&report);
    // The capture was made at the initiator, so the target side takes the entire round trip.
    assert_eq!(session.target_side_rtt_ns, Some(2 * MILLISECOND));
    assert_eq!(session.initiator_side_rtt_ns, Some(0));
}

#[test]
fn the_slowest_commands_come_with_their_packets_and_phases() {
    let talk = conversation(3260, (false, false), 1448);
    let session = &dissect(&talk.packets).sessions[0];
    let latencies: Vec<u64> = session
        .slowest
        .iter()
        .map(|command| command.latency_ns / MILLISECOND)
        .collect();
    assert_eq!(latencies, [19, 11, 7, 6]);
    let slowest = &session.slowest[0];
    assert_eq!((slowest.kind, slowest.itt, slowest.r2ts), ("write", 10, 2));
    let header = &talk.packets[slowest.first_packet as usize - 1].bytes[40..];
    assert_eq!(header[..2], [0x01, 0xa1]);
    assert_eq!(slowest.phases.get("wait_r2t"), Some(&(10 * MILLISECOND)));
}

#[test]
fn a_phase_of_zero_length_is_reported_as_zero() {
    let mut talk = Talk::new(3260);
    talk.log_in(KEYS, (false, false));
    talk.read(10, 4096, true);
    let report = dissect(&talk.packets);
    let response = only_session(&report).reads.phases.get("data_to_response");
    let spread = &response.unwrap().spread;
    assert_eq!(
        (spread.count, spread.p50_ns, spread.p99_ns, spread.max_ns),
        (1, 0, 0, 0)
    );
}

#[test]
fn data_that_looks_like_a_login_response_is_not_taken_for_one_after_a_hole() {
    let mut talk = Talk::new(3260);
    talk.segment_bytes = 60_000;
    talk.log_in(KEYS, (false, false));
    talk.read(10, 4096, true);
    let before = talk.packets.len();
    talk.read(11, 8192, true);
    // The packet that completes the read begins with bytes of such a header.
    let mut packets = talk.packets.clone();
    let last = packets
        .iter()
        .rposition(|packet| packet.payload > 0)
        .unwrap();
    packets[last].bytes[40..42].copy_from_slice(&[0x23, 0x00]);
    packets[last].bytes[44..46].copy_from_slice(&[0, 0]);
    packets[last].bytes[76..78].copy_from_slice(&[0x6a, 0x2b]);
    packets.remove(before + 1);
    let report = dissect(&packets);
    let session = only_session(&report);
    assert_eq!(session.login_status.as_deref(), Some("0000"));
    assert_eq!(session.from_target.pdus["LoginResponse"], 1);
}
