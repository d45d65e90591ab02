//! Captures: arbitrary bytes as a capture file, or as the payload of both directions of a TCP
//! connection. The segments are in order, repeated, overlapping, lost, or cut by a snap length.
//!
//! Checks, in addition to the absence of panics: the phases of commands add up to their latency,
//! and each command is counted once.
//!
//! Input: if the first byte is even, the rest is a capture file. If it is odd, the rest is a
//! sequence of segments `[control, gap, length, length, payload…]`. The lowest bit of `control` is
//! the side, the next three bits select the position of the payload in the stream, the next two the
//! flags, and the next bit cuts the packet.
#![no_main]
use std::io::Cursor;
use std::time::Duration;

use hakaru_dissect::{CaptureFile, Dissector, Link, Report};
use hakaru_units::Time;
use libfuzzer_sys::fuzz_target;

const PORTS: [u16; 2] = [40_001, 3260];
const HEADERS_LENGTH: usize = 14 + 20 + 20;
const SYN: u8 = 0x02;
const FIN: u8 = 0x01;
const ACK: u8 = 0x10;

fn read_file(bytes: &[u8], dissector: &mut Dissector) {
    let Ok(mut file) = CaptureFile::new(Cursor::new(bytes.to_vec())) else {
        return;
    };
    let mut packets = 0;
    while file
        .read(|packet| {
            packets += 1;
            assert!(packet.bytes.len() <= bytes.len());
            dissector.handle_packet(packet.at, packet.link, packet.bytes, packet.original_length);
        })
        .expect("memory can be read")
    {}
    assert_eq!(file.packets(), packets);
}

fn segment(from: usize, sequence: u32, acknowledged: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![2; 12];
    packet.extend([0x08, 0x00, 0x45, 0]);
    packet.extend((40 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    for side in [from, 1 - from] {
        packet.extend([10, 0, 0, 1 + side as u8]);
    }
    packet.extend(PORTS[from].to_be_bytes());
    packet.extend(PORTS[1 - from].to_be_bytes());
    packet.extend(sequence.to_be_bytes());
    packet.extend(acknowledged.to_be_bytes());
    packet.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend_from_slice(payload);
    packet
}

fn read_segments(mut rest: &[u8], dissector: &mut Dissector) {
    // Near the wrap of unsigned and of signed sequence numbers.
    let mut next = [u32::MAX - 500, (1 << 31) - 300];
    let mut now = Time::ZERO;
    while let [control, gap, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]) % 3000).min(after.len());
        let (payload, tail) = after.split_at(length);
        rest = tail;
        now += Duration::from_micros(u64::from(*gap).pow(2));
        let from = usize::from(control & 1);
        let sequence = match control >> 1 & 7 {
            1 => next[from].wrapping_sub(length as u32),
            2 => next[from].wrapping_sub(u32::from(*gap)),
            3 => next[from].wrapping_add(u32::from(*gap)),
            4 => next[from].wrapping_add(u32::from(*gap) << 12),
            _ => next[from],
        };
        let flags = match control >> 4 & 3 {
            1 => SYN,
            2 => SYN | ACK,
            3 => FIN | ACK,
            _ => ACK,
        };
        let packet = segment(from, sequence, next[1 - from], flags, payload);
        let captured = if control & 0x40 == 0 {
            packet.len()
        } else {
            HEADERS_LENGTH + usize::from(*gap)
        };
        let captured = &packet[..captured.min(packet.len())];
        dissector.handle_packet(now, Link::Ethernet, captured, packet.len() as u32);
        let end = sequence.wrapping_add(length as u32 + u32::from(flags & SYN != 0));
        if end.wrapping_sub(next[from]) < 1 << 31 {
            next[from] = end;
        }
    }
}

fn check(report: &Report) {
    for session in &report.sessions {
        let kinds = [&session.reads, &session.writes, &session.others];
        for kind in kinds.iter().take(2) {
            let sum: u64 = kind.phases.values().map(|phase| phase.sum_ns).sum();
            assert_eq!(sum, kind.latency_sum_ns, "{session:#?}");
        }
        let complete: u64 = kinds.iter().map(|kind| kind.commands).sum();
        let incomplete = session.commands_not_whole
            + session.commands_unfinished
            + session.commands_without_response;
        assert_eq!(complete + incomplete, session.commands, "{session:#?}");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let mut dissector = Dissector::new(&[3260]);
    if kind & 1 == 0 {
        read_file(rest, &mut dissector);
    } else {
        read_segments(rest, &mut dissector);
    }
    check(&dissector.finish());
});
