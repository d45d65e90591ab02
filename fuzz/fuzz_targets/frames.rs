//! Frames from a wire into a fabric of switches, VLANs, a router and impairments, with arbitrary
//! bytes and offload headers.
//!
//! Checks, in addition to the absence of panics: every frame is accounted for, and every outgoing
//! frame can be emitted.
//!
//! Input: packets, each `[port, gap, kind, length, length, bytes…]`. A `kind` of 0 to 99 is a plain
//! frame, any other a super-frame whose frames have `kind` bytes of payload.
#![no_main]
use hakaru_fabric::{Fabric, Packet};
use hakaru_units::Time;
use libfuzzer_sys::fuzz_target;

const CONFIG: &str = r#"{
  "seed": 7,
  "switches": [
    {"name": "s", "addresses_max": 4, "router": {
      "interfaces": [{"vlan": 1, "address": "10.0.1.254", "prefix_length": 24}, {"vlan": 2, "address": "10.0.2.254", "prefix_length": 24, "mtu_bytes": 600}],
      "routes": [{"destination": "0.0.0.0", "prefix_length": 0, "via": "10.0.1.1"}]}},
    {"name": "t", "forwarding": "cut_through", "shared_buffer": {"bytes": 20000}}],
  "links": [
    {"name": "1", "a": {"kind": "interface", "name": "1"}, "b": {"kind": "switch", "name": "s"},
     "a_to_b": {"corrupt_percent": 20, "duplicate_percent": 5, "pause": true}},
    {"name": "2", "a": {"kind": "interface", "name": "2"}, "b": {"kind": "switch", "name": "s", "vlan": null},
     "b_to_a": {"rate_bits_per_s": 10000000, "queue": {"bytes": 4000, "discipline": {"kind": "mark", "above_bytes": 1000}}}},
    {"name": "3", "a": {"kind": "interface", "name": "3"}, "b": {"kind": "switch", "name": "t", "vlan": 2},
     "a_to_b": {"jitter": {"kind": "uniform", "max_us": 50}}, "b_to_a": {"rate_bits_per_s": 100000000}},
    {"name": "trunk", "a": {"kind": "switch", "name": "s", "vlan": null}, "b": {"kind": "switch", "name": "t", "vlan": null},
     "a_to_b": {"rate_bits_per_s": 100000000}, "b_to_a": {"rate_bits_per_s": 1000000000}}]
}"#;

fn check(fabric: &mut Fabric) {
    for (name, c) in fabric.counters(Time::MAX) {
        assert_eq!(
            c.frames_in + c.duplicated,
            c.frames_out + c.drops.all() + c.frames_now,
            "{name}: {c:?}"
        );
    }
    for (name, c) in fabric.switch_counters() {
        let ended = c.frames_out + c.taken + c.dropped() + c.frames_now;
        assert_eq!(
            c.frames_in + c.copied + c.originated,
            ended,
            "{name}: {c:?}"
        );
    }
}

fn drain(fabric: &mut Fabric, until: Time) {
    for port in 0..3 {
        while let Some(out) = fabric.poll_frame(port, until) {
            let mut head = Vec::new();
            let length = out.emit(&mut head).len() + head.len();
            assert!(length >= 14 && length < 70_000);
            if let Some(cut) = out.segmentation() {
                assert!(usize::from(cut.header_bytes) < length);
            }
            if let Some((start, offset)) = out.checksum() {
                assert!(usize::from(start) + usize::from(offset) + 2 <= length);
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let config = serde_json::from_str(CONFIG).expect("the configuration parses");
    let mut fabric = Fabric::new(&config).expect("the configuration is valid");
    let (mut rest, mut now) = (data, Time::ZERO);
    while let [port, gap, kind, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]) % 3000).min(after.len());
        let (bytes, next) = after.split_at(length);
        rest = next;
        now += core::time::Duration::from_micros(u64::from(*gap).pow(2));
        let packet = match kind {
            0..=99 => Packet::new(bytes.to_vec(), None, (*kind > 50).then_some((34, 6))),
            payload_bytes => {
                Packet::super_frame(bytes.to_vec(), u16::from(*payload_bytes), Some((34, 16)))
            }
        };
        if let Ok(packet) = packet {
            fabric.handle_frame(now, usize::from(*port) % 3, packet);
        }
        fabric.handle_timeout(now);
        drain(&mut fabric, now);
        check(&mut fabric);
    }
    let mut turns = 0;
    while let Some(at) = fabric.poll_timeout() {
        fabric.handle_timeout(at);
        drain(&mut fabric, at);
        turns += 1;
        assert!(turns < 1_000_000, "the fabric has timeouts without end");
    }
    check(&mut fabric);
    for (name, c) in fabric.counters(Time::MAX) {
        assert_eq!(
            (c.frames_now, c.queue_bytes_now),
            (0, 0),
            "{name}: frames are left"
        );
    }
});
