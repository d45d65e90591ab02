//! Captures in which any single packet is removed, repeated, moved, truncated or given a wrong
//! time. Every reported latency must be right; otherwise the command must not be timed.
mod support;

use hakaru_dissect::{Dissector, Report};
use proptest::prelude::*;
use support::truth::{Known, Right, right_times};
use support::{From, Packet, Talk, dissect_with};

const KEYS: &str =
    "MaxBurstLength=16384\0FirstBurstLength=12288\0InitialR2T=No\0ImmediateData=Yes\0";
const DIGESTS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];
const GAP_NS: u64 = 7_001;

/// Returns `long` if `HAKARU_LONG` is set (`make test-long`), otherwise `short`.
fn scale<T>(short: T, long: T) -> T {
    if std::env::var_os("HAKARU_LONG").is_some() {
        long
    } else {
        short
    }
}

/// Returns a session with every kind of transfer, several PDUs per segment, PDUs that cross segment
/// boundaries, and a loss that TCP repairs.
fn session(ports: [u16; 2], digests: (bool, bool), segment_bytes: usize) -> Talk {
    let mut talk = Talk::between(ports, GAP_NS);
    talk.segment_bytes = segment_bytes;
    talk.log_in(KEYS, digests);
    talk.pass(40);
    talk.read(10, 4096, true);
    talk.write(11, 20_480, 0, 16_384);
    talk.read(12, 8192, false);
    talk.write_unsolicited(13, 30_001, 4096, 8192, 16_384);
    talk.reads_at_once(&[14, 15, 16], 2048, true);
    talk.pass(600);
    talk.reads_at_once(&[17, 18], 3000, false);
    // A segment of the read is lost before the place of capture, and arrives 200 ms later.
    talk.read(19, 20_000, true);
    talk.packets.pop();
    talk.pass(200);
    talk.retransmit(From::Target, 1);
    talk.lose(From::Target, 2);
    talk.acknowledge(From::Initiator);
    talk.pass(300);
    // The tags of earlier commands are reused.
    talk.read(10, 512, false);
    talk.write(11, 4096, 4096, 16_384);
    talk.read(14, 30_000, true);
    talk.acknowledge(From::Initiator);
    talk.acknowledge(From::Target);
    talk
}

/// A capture of two concurrent sessions.
struct Capture {
    packets: Vec<Packet>,
    /// Commands by the port of the session's initiator.
    known: Vec<(u16, Vec<Known>)>,
}

const PORTS: [u16; 2] = [40_001, 40_002];

fn capture(digests: (bool, bool), segment_bytes: usize) -> Capture {
    let talks = PORTS.map(|port| session([port, 3260], digests, segment_bytes));
    let mut packets: Vec<Packet> = Vec::new();
    for (number, talk) in talks.iter().enumerate() {
        packets.extend(talk.packets.iter().cloned().map(|mut packet| {
            // The second session begins 3 ms later.
            packet.at.0 += 3_000_500 * number as u64;
            packet
        }));
    }
    packets.sort_by_key(|packet| packet.at);
    let known = PORTS.iter().zip(talks);
    Capture {
        packets,
        known: known.map(|(&port, talk)| (port, talk.known)).collect(),
    }
}

fn port_of(packet: &Packet) -> u16 {
    let at = if packet.from == From::Initiator {
        20
    } else {
        22
    };
    u16::from_be_bytes([packet.bytes[at], packet.bytes[at + 1]])
}

type RightTimes = Vec<(u16, Vec<(u32, Right)>)>;

impl Capture {
    fn right(&self, packets: &[Packet]) -> RightTimes {
        let of_port = |port: u16| -> Vec<Packet> {
            let mine = packets.iter().filter(|packet| port_of(packet) == port);
            mine.cloned().collect()
        };
        self.known
            .iter()
            .map(|(port, known)| (*port, right_times(known, &of_port(*port))))
            .collect()
    }
}

fn analyse(packets: &[Packet]) -> Report {
    dissect_with(
        Dissector::new(&[3260]).with_slowest(usize::MAX / 2),
        packets,
    )
}

/// Checks that every timed command has the right times, and returns their number. `with_handshake`:
/// also checks the round trip of the handshake.
fn check(report: &Report, right: &RightTimes, with_handshake: bool) -> Result<u64, String> {
    let mut timed = 0;
    for session in &report.sessions {
        let port = session.initiator.rsplit(':').next().unwrap().parse::<u16>();
        let known = right.iter().find(|(known_port, _)| Ok(*known_port) == port);
        let Some((_, known)) = known else {
            return Err(format!("unknown session: {}", session.initiator));
        };
        for command in &session.slowest {
            let printed = Right {
                begin: command.begin_ns,
                latency: command.latency_ns,
                phases: command
                    .phases
                    .0
                    .iter()
                    .filter(|(_, ns)| *ns > 0)
                    .copied()
                    .collect(),
            };
            let matches = |(itt, right): &(u32, Right)| {
                let mut right = right.clone();
                right.phases.retain(|_, ns| *ns > 0);
                *itt == command.itt && right == printed
            };
            if !known.iter().any(matches) {
                let same_tag = known.iter().filter(|(itt, _)| *itt == command.itt);
                return Err(format!(
                    "{command:#?}\nright: {:#?}",
                    same_tag.collect::<Vec<_>>()
                ));
            }
            timed += 1;
        }
        let counted = session.reads.commands + session.writes.commands + session.others.commands;
        assert_eq!(counted, session.slowest.len() as u64);
        let rtt = session.handshake_rtt_ns;
        if with_handshake && rtt.is_some_and(|rtt| rtt != 2_000_000 + 2 * GAP_NS) {
            return Err(format!("round trip {rtt:?}"));
        }
    }
    Ok(timed)
}

/// Damages the capture at each place, with and without digests and with two lengths of segments
/// (long: all digests and four lengths), and checks the result against `right`: the right times of
/// the packets before or after the damage. Returns the number of timed commands (of 26), averaged
/// over the places.
fn at_every_place(damage: impl Fn(&mut Vec<Packet>, usize) -> bool, right_after: bool) -> f64 {
    let (mut timed, mut places) = (0, 0);
    let digests_tried = scale(vec![DIGESTS[0], DIGESTS[3]], DIGESTS.to_vec());
    let segments_tried = scale(vec![1448, 60_000], vec![600, 1448, 9000, 60_000]);
    for digests in digests_tried {
        for &segment_bytes in &segments_tried {
            let capture = capture(digests, segment_bytes);
            let before = capture.right(&capture.packets);
            for place in 0..capture.packets.len() {
                let mut packets = capture.packets.clone();
                if !damage(&mut packets, place) {
                    continue;
                }
                let right = if right_after {
                    capture.right(&packets)
                } else {
                    before.clone()
                };
                let result = check(&analyse(&packets), &right, !right_after);
                timed += result.unwrap_or_else(|error| {
                    panic!("packet {place} of {digests:?}, {segment_bytes}: {error}")
                });
                places += 1;
            }
        }
    }
    timed as f64 / f64::from(places)
}

#[test]
fn a_capture_without_damage_times_every_command() {
    for digests in DIGESTS {
        for segment_bytes in [1448, 100, 60_000] {
            let capture = capture(digests, segment_bytes);
            let report = analyse(&capture.packets);
            assert_eq!(
                check(&report, &capture.right(&capture.packets), true),
                Ok(26)
            );
        }
    }
}

#[test]
fn a_missing_packet_makes_no_latency_wrong() {
    let timed = at_every_place(
        |packets, place| {
            packets.remove(place);
            true
        },
        false,
    );
    assert!(timed > 24.5, "{timed}");
}

#[test]
fn a_repeated_packet_makes_no_latency_wrong() {
    for distance in scale(vec![0, 7], (0..=12).collect()) {
        let timed = at_every_place(
            |packets, place| {
                let behind = (place + distance).min(packets.len() - 1);
                let copy = Packet {
                    at: packets[behind].at,
                    ..packets[place].clone()
                };
                packets.insert(behind + 1, copy);
                true
            },
            false,
        );
        assert!(timed > 25.9, "{timed}");
    }
}

#[test]
fn an_overtaken_packet_makes_no_latency_wrong() {
    for distance in scale(vec![1, 9], (1..=12).collect()) {
        let timed = at_every_place(
            |packets, place| {
                if place + distance >= packets.len() {
                    return false;
                }
                let times: Vec<_> = packets.iter().map(|packet| packet.at).collect();
                // An answer to the packet cannot overtake it on the network.
                let (port, from) = (port_of(&packets[place]), packets[place].from);
                let mut overtaking_packets = packets[place + 1..=place + distance].iter();
                let is_possible =
                    overtaking_packets.all(|packet| port_of(packet) != port || packet.from == from);
                let packet = packets.remove(place);
                packets.insert(place + distance, packet);
                for (packet, at) in packets.iter_mut().zip(times) {
                    packet.at = at;
                }
                is_possible
            },
            true,
        );
        assert!(timed > 23.0, "{timed}");
    }
}

#[test]
fn a_packet_stored_too_late_in_the_file_makes_no_latency_wrong() {
    for distance in scale(vec![1, 9], (1..=12).collect()) {
        let timed = at_every_place(
            |packets, place| {
                if place + distance >= packets.len() {
                    return false;
                }
                // The packet keeps its time, but moves in the file.
                let packet = packets.remove(place);
                packets.insert(place + distance, packet);
                true
            },
            false,
        );
        assert!(timed > 23.0, "{timed}");
    }
}

#[test]
fn a_truncated_packet_makes_no_latency_wrong() {
    for kept in scale(vec![0, 39, 44, 88, 90, 100, 500], (0..=500).collect()) {
        let timed = at_every_place(
            |packets, place| {
                let is_cut = packets[place].bytes.len() > kept;
                packets[place].bytes.truncate(kept);
                // The right times are those before the damage, because the port that identifies the
                // session may be cut off.
                is_cut
            },
            false,
        );
        assert!(timed > 24.5, "{kept}: {timed}");
    }
}

#[test]
fn a_packet_with_a_wrong_time_makes_no_latency_wrong() {
    const SECOND: i64 = 1_000_000_000;
    for shift in [3600 * SECOND, -10 * SECOND, 10_000_000, -10_000_000] {
        let timed = at_every_place(
            |packets, place| {
                let at = packets[place].at.0.saturating_add_signed(shift);
                let neighbour =
                    |place: Option<usize>| packets.get(place?).map(|packet| packet.at.0);
                let before = neighbour(place.checked_sub(1));
                let after = neighbour(Some(place + 1));
                // A time between those of the neighbouring packets cannot be recognised as wrong.
                let is_detectable = before.is_some_and(|before| at < before)
                    || after.is_some_and(|after| at > after);
                packets[place].at.0 = at;
                is_detectable
            },
            false,
        );
        assert!(timed > 23.5, "{shift}: {timed}");
    }
}

#[test]
fn a_capture_that_begins_or_ends_anywhere_makes_no_latency_wrong() {
    for digests in DIGESTS {
        for segment_bytes in [1448, 60_000] {
            let capture = capture(digests, segment_bytes);
            let right = capture.right(&capture.packets);
            for place in 1..capture.packets.len() {
                for part in [&capture.packets[place..], &capture.packets[..place]] {
                    let result = check(&analyse(part), &right, true);
                    result.unwrap_or_else(|error| {
                        panic!("from {place} of {digests:?}, {segment_bytes}: {error}")
                    });
                }
            }
        }
    }
}

#[test]
fn a_snap_length_makes_no_latency_wrong() {
    for digests in DIGESTS {
        for segment_bytes in [1448, 9000, 60_000] {
            let capture = capture(digests, segment_bytes);
            let right = capture.right(&capture.packets);
            for kept in (40..400).step_by(scale(7, 1)) {
                let mut packets = capture.packets.clone();
                for packet in &mut packets {
                    packet.bytes.truncate(kept);
                }
                let result = check(&analyse(&packets), &right, true);
                let timed = result.unwrap_or_else(|error| {
                    panic!("{kept} bytes of {digests:?}, {segment_bytes}: {error}")
                });
                // 144 bytes hold the IP and TCP headers and two PDU headers with digests.
                assert!(
                    segment_bytes > 1448 || kept < 144 || timed >= 10,
                    "{kept} of {digests:?}: {timed}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn missing_cut_and_repeated_packets_together_make_no_latency_wrong(
        digests in prop::sample::select(DIGESTS.to_vec()),
        segment_bytes in prop::sample::select(vec![600, 1448, 60_000]),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        repeated in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        cut in prop::collection::vec((any::<prop::sample::Index>(), 40usize..300), 0..6),
        begin in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let capture = capture(digests, segment_bytes);
        let right = capture.right(&capture.packets);
        let mut packets = capture.packets.clone();
        for (index, kept) in cut {
            let place = index.index(packets.len());
            packets[place].bytes.truncate(kept);
        }
        for index in repeated {
            let place = index.index(packets.len());
            packets.insert(place + 1, packets[place].clone());
        }
        for index in removed {
            packets.remove(index.index(packets.len()));
        }
        if let Some(begin) = begin {
            packets.drain(..begin.index(packets.len()) / 2);
        }
        check(&analyse(&packets), &right, true).map_err(TestCaseError::fail)?;
    }
}
