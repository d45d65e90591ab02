//! A recorded capture of open-iscsi and tgt, damaged as in `damage.rs`. No command may get a time
//! that differs from the complete capture.
use std::fs::File;

use hakaru_dissect::{CaptureFile, Dissector, Link, Report, SlowCommand};
use hakaru_units::Time;

const CAPTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/capture/data/open-iscsi-tgt.pcapng"
);

#[derive(Clone)]
struct Packet {
    at: Time,
    link: Option<Link>,
    bytes: Vec<u8>,
    original_length: u32,
}

fn recorded() -> Vec<Packet> {
    let mut file = CaptureFile::new(File::open(CAPTURE).unwrap()).unwrap();
    let mut packets = Vec::new();
    let keep = |packets: &mut Vec<Packet>, packet: hakaru_dissect::Packet<'_>| {
        packets.push(Packet {
            at: packet.at,
            link: packet.link,
            bytes: packet.bytes.to_vec(),
            original_length: packet.original_length,
        });
    };
    while file.read(|packet| keep(&mut packets, packet)).unwrap() {}
    packets
}

fn analyse(packets: &[Packet]) -> Report {
    let mut dissector = Dissector::new(&[3260]).with_slowest(usize::MAX / 2);
    for packet in packets {
        dissector.handle_packet(
            packet.at,
            packet.link,
            &packet.bytes,
            packet.original_length,
        );
    }
    dissector.finish()
}

/// Returns the commands of all sessions without packet numbers, which depend on the damage.
fn commands(report: &Report) -> Vec<SlowCommand> {
    let all = report.sessions.iter().flat_map(|session| &session.slowest);
    all.map(|command| SlowCommand {
        first_packet: 0,
        last_packet: 0,
        ..command.clone()
    })
    .collect()
}

/// Damages the capture at every place. Returns the mean share of commands that are still timed.
fn at_every_place(damage: impl Fn(&mut Vec<Packet>, usize) -> bool) -> f64 {
    let complete_capture = recorded();
    let right = commands(&analyse(&complete_capture));
    assert!(right.len() > 20);
    let (mut timed, mut places) = (0, 0);
    for place in 0..complete_capture.len() {
        let mut packets = complete_capture.clone();
        if !damage(&mut packets, place) {
            continue;
        }
        let printed = commands(&analyse(&packets));
        for command in &printed {
            assert!(right.contains(command), "packet {place}: {command:#?}");
        }
        timed += printed.len();
        places += 1;
    }
    timed as f64 / (places * right.len()) as f64
}

#[test]
fn a_packet_missing_from_the_recording_makes_no_latency_wrong() {
    let timed = at_every_place(|packets, place| {
        packets.remove(place);
        true
    });
    assert!(timed > 0.97, "{timed}");
}

#[test]
fn a_packet_repeated_in_the_recording_makes_no_latency_wrong() {
    let timed = at_every_place(|packets, place| {
        packets.insert(place + 1, packets[place].clone());
        true
    });
    assert!(timed > 0.999, "{timed}");
}

#[test]
fn a_packet_cut_in_the_recording_makes_no_latency_wrong() {
    let timed = at_every_place(|packets, place| {
        let kept = 60 + place % 80;
        let is_cut = packets[place].bytes.len() > kept;
        packets[place].bytes.truncate(kept);
        is_cut
    });
    assert!(timed > 0.97, "{timed}");
}

#[test]
fn a_packet_out_of_its_place_in_the_recording_makes_no_latency_wrong() {
    let timed = at_every_place(|packets, place| {
        let can_move = place + 2 < packets.len();
        if can_move {
            let packet = packets.remove(place);
            packets.insert(place + 2, packet);
        }
        can_move
    });
    assert!(timed > 0.9, "{timed}");
}

#[test]
fn a_recording_that_begins_or_ends_anywhere_makes_no_latency_wrong() {
    let begin = at_every_place(|packets, place| {
        packets.drain(..place);
        true
    });
    let end = at_every_place(|packets, place| {
        packets.truncate(place);
        true
    });
    assert!(begin > 0.15 && end > 0.5, "{begin} {end}");
}

#[test]
fn a_snap_length_of_the_recording_makes_no_latency_wrong() {
    let complete_capture = recorded();
    let right = commands(&analyse(&complete_capture));
    for kept in (60..700).step_by(9) {
        let mut packets = complete_capture.clone();
        for packet in &mut packets {
            packet.bytes.truncate(kept);
        }
        for command in commands(&analyse(&packets)) {
            let fits = |known: &SlowCommand| {
                // Sense data and statuses may be cut off, but times must not change.
                (known.begin_ns, known.latency_ns, &known.phases)
                    == (command.begin_ns, command.latency_ns, &command.phases)
            };
            assert!(right.iter().any(fits), "{kept}: {command:#?}");
        }
    }
}
