//! Frames for receivers that accept no super-frames and no missing checksums.
use hakaru_contract::fabric::{Direction, End, FabricConfig, LinkConfig};
use hakaru_fabric::{Fabric, Packet};
use hakaru_units::Time;

use crate::net::{HEADER_BYTES, SEGMENT_BYTES, mac, run, switch, wire};

/// Sums 16-bit words, as the internet checksum does (RFC 1071). The sum over a correct checksum is
/// 0xffff.
fn sum(parts: &[&[u8]]) -> u32 {
    let mut sum = 0;
    for part in parts {
        for word in part.chunks(2) {
            sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// Builds IPv4 with a transport protocol whose checksum is missing: its field has the sum of the
/// pseudo-header.
fn unfinished(protocol: u8, header: usize, payload: &[u8], field: usize) -> Vec<u8> {
    let mut bytes = vec![0; header];
    bytes[..6].copy_from_slice(&mac(2));
    bytes[6..12].copy_from_slice(&mac(1));
    bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    bytes.extend_from_slice(payload);
    let transport = (bytes.len() - 34) as u16;
    bytes[16..18].copy_from_slice(&(transport + 20).to_be_bytes());
    bytes[22..24].copy_from_slice(&[64, protocol]);
    bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let check = !sum(&[&bytes[14..34]]) as u16;
    bytes[24..26].copy_from_slice(&check.to_be_bytes());
    if protocol == 6 {
        bytes[46] = ((header - 34) as u8 / 4) << 4;
    } else {
        bytes[38..40].copy_from_slice(&transport.to_be_bytes());
    }
    let pseudo = sum(&[&bytes[26..34], &[0, protocol], &transport.to_be_bytes()]) as u16;
    bytes[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
    bytes
}

/// Passes a packet through a fabric to its port 1, and returns the finished frames.
fn finished(config: &FabricConfig, packet: Packet) -> Vec<Vec<u8>> {
    let mut fabric = Fabric::new(config).unwrap();
    fabric.handle_frame(Time(1), 0, packet);
    let mut frames = Vec::new();
    for (_, _, out) in run(&mut fabric, 2) {
        for single in out.singles() {
            let mut bytes = vec![1; 9];
            single.emit_finished(&mut bytes);
            frames.push(bytes);
        }
    }
    frames
}

/// Asserts that the checksums of an untagged frame are correct.
fn assert_correct(frame: &[u8]) {
    assert_eq!(sum(&[&frame[14..34]]), 0xffff, "IPv4");
    let transport = &frame[34..];
    let length = transport.len() as u16;
    let pseudo = [&frame[26..34], &[0, frame[23]], &length.to_be_bytes()];
    assert_eq!(
        sum(&[pseudo[0], pseudo[1], pseudo[2], transport]),
        0xffff,
        "transport"
    );
}

#[test]
fn a_super_frame_without_a_checksum_becomes_correct_segments() {
    let payload: Vec<u8> = (0..5 * SEGMENT_BYTES + 101)
        .map(|n| (n % 251) as u8)
        .collect();
    let bytes = unfinished(6, HEADER_BYTES, &payload, 50);
    let packet = Packet::super_frame(bytes, SEGMENT_BYTES as u16, Some((34, 16))).unwrap();
    let frames = finished(&wire(Direction::default()), packet);
    assert_eq!(frames.len(), 6);
    let mut arrived = Vec::new();
    for frame in &frames {
        assert_correct(frame);
        let sequence = u32::from_be_bytes(frame[38..42].try_into().unwrap());
        assert_eq!(sequence as usize, arrived.len());
        arrived.extend_from_slice(&frame[HEADER_BYTES..]);
    }
    assert_eq!(arrived, payload);
}

#[test]
fn a_single_frame_without_a_checksum_becomes_correct_behind_a_tag_too() {
    let bytes = unfinished(17, 42, &[7; 301], 40);
    let packet = || Packet::new(bytes.clone(), None, Some((34, 6))).unwrap();
    let frames = finished(&wire(Direction::default()), packet());
    assert_eq!(frames.len(), 1);
    assert_correct(&frames[0]);
    // An access port of VLAN 5, and a trunk, which inserts the tag.
    let link = |name: &str, vlan| LinkConfig {
        name: name.into(),
        a: End::VhostUser {
            name: name.into(),
            socket: format!("@{name}"),
        },
        b: End::Switch {
            name: "s".into(),
            vlan,
            allowed: None,
        },
        mtu_bytes: 1500,
        a_to_b: Direction::default(),
        b_to_a: Direction::default(),
    };
    let config = FabricConfig {
        switches: vec![switch("s")],
        links: vec![link("access", Some(5)), link("trunk", None)],
        seed: 1,
    };
    let tagged = finished(&config, packet());
    assert_eq!(tagged[0][12..16], [0x81, 0, 0, 5]);
    let untagged = [&tagged[0][..12], &tagged[0][16..]].concat();
    assert_eq!(untagged, frames[0]);
}

#[test]
fn ports_in_memory_are_ports_like_others_and_need_a_socket() {
    let mut config = wire(Direction::default());
    for (socket, is_valid) in [
        ("/run/a", true),
        ("@a", true),
        ("", false),
        ("@", false),
        ("a\0b", false),
        (&"x".repeat(108), false),
    ] {
        config.links[0].b = End::VhostUser {
            name: "b".into(),
            socket: socket.into(),
        };
        assert_eq!(Fabric::new(&config).is_ok(), is_valid, "{socket:?}");
    }
    config.links[0].b = End::VhostUser {
        name: "a".into(),
        socket: "@b".into(),
    };
    let error = Fabric::new(&config).unwrap_err().to_string();
    assert!(
        error.contains("\"a\""),
        "names differ from those of interfaces: {error}"
    );
}
