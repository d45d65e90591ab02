//! Support for the tests: short configurations, frames, and a loop that runs all events.
use hakaru_contract::fabric::{Direction, End, FabricConfig, LinkConfig, Queue, SwitchConfig};
use hakaru_fabric::{ChannelCounters, Fabric, OutFrame, Packet, Segmentation};
use hakaru_units::Time;

pub const GIGABIT: u64 = 1_000_000_000;
/// Length of Ethernet, IPv4 and TCP headers with timestamps.
pub const HEADER_BYTES: usize = 66;
/// Payload of a full segment.
pub const SEGMENT_BYTES: usize = 1448;

/// Returns a direction with a rate, and defaults otherwise.
pub fn rate(bits_per_s: u64) -> Direction {
    Direction {
        rate_bits_per_s: Some(bits_per_s),
        ..Direction::default()
    }
}

pub fn queue(bytes: u64) -> Queue {
    Queue {
        bytes,
        ..Queue::default()
    }
}

/// Returns two interfaces, `a` (0) and `b` (1), joined by a link.
pub fn wire(a_to_b: Direction) -> FabricConfig {
    let end = |name: &str| End::Interface { name: name.into() };
    let link = LinkConfig {
        name: "wire".into(),
        a: end("a"),
        b: end("b"),
        mtu_bytes: 1500,
        a_to_b,
        b_to_a: Direction::default(),
    };
    FabricConfig {
        switches: Vec::new(),
        links: vec![link],
        seed: 1,
    }
}

pub fn switch(name: &str) -> SwitchConfig {
    serde_json::from_value(serde_json::json!({ "name": name })).unwrap()
}

/// Returns the link of a host to `switch`. `up` is the direction to the switch.
pub fn host(name: &str, switch: &str, up: Direction, down: Direction) -> LinkConfig {
    LinkConfig {
        name: name.into(),
        a: End::Interface { name: name.into() },
        b: End::Switch {
            name: switch.into(),
            vlan: Some(1),
            allowed: None,
        },
        mtu_bytes: 1500,
        a_to_b: up,
        b_to_a: down,
    }
}

/// Returns the Ethernet address of host `n`.
pub fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

/// Builds an ECN-capable TCP super-frame with `payload` bytes, or a single frame if they fit into
/// one.
pub fn tcp(from: u8, to: u8, payload: usize) -> Packet {
    let mut bytes = vec![0; HEADER_BYTES + payload];
    bytes[..6].copy_from_slice(&mac(to));
    bytes[6..12].copy_from_slice(&mac(from));
    bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x02]);
    bytes[23] = 6;
    let cut = Segmentation {
        header_bytes: HEADER_BYTES as u16,
        payload_bytes: SEGMENT_BYTES as u16,
    };
    Packet::new(bytes, (payload > SEGMENT_BYTES).then_some(cut), None).unwrap()
}

/// Builds a frame of `length` bytes, including FCS.
pub fn frame(from: u8, to: u8, length: usize) -> Packet {
    let mut bytes = vec![0; length - 4];
    bytes[..6].copy_from_slice(&mac(to));
    bytes[6..12].copy_from_slice(&mac(from));
    Packet::new(bytes, None, None).unwrap()
}

/// Joins the two parts of an emitted frame.
pub fn bytes_of(out: &OutFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    let body = out.emit(&mut bytes);
    bytes.extend_from_slice(body);
    bytes
}

/// Returns the number of frames of `out`.
pub fn frames_of(out: &OutFrame) -> usize {
    let bytes = bytes_of(out);
    match out.segmentation() {
        None => 1,
        Some(cut) => {
            (bytes.len() - usize::from(cut.header_bytes)).div_ceil(usize::from(cut.payload_bytes))
        }
    }
}

/// Runs all events. Returns each frame that left, with the instant and the interface.
pub fn run(fabric: &mut Fabric, ports: usize) -> Vec<(Time, usize, OutFrame)> {
    let mut seen = Vec::new();
    let mut now = Time::ZERO;
    loop {
        for port in 0..ports {
            while let Some(out) = fabric.poll_frame(port, now) {
                seen.push((now, port, out));
            }
        }
        let Some(next) = fabric.poll_timeout() else {
            return seen;
        };
        now = next;
        fabric.handle_timeout(now);
    }
}

pub fn counters(fabric: &mut Fabric, channel: &str) -> ChannelCounters {
    let mut all = fabric.counters(Time::MAX);
    all.find(|(name, _)| *name == format!("link/{channel}"))
        .expect("the channel exists")
        .1
}

/// Asserts that every frame that entered has left, was dropped for a counted cause, or is inside.
pub fn assert_conserved(fabric: &mut Fabric) {
    for (name, c) in fabric.counters(Time::MAX) {
        assert_eq!(
            c.frames_in + c.duplicated,
            c.frames_out + c.drops.all() + c.frames_now,
            "{name}: {c:?}"
        );
    }
    for (name, c) in fabric.switch_counters() {
        assert_eq!(
            c.frames_in + c.copied + c.originated,
            c.frames_out + c.taken + c.dropped() + c.frames_now,
            "{name}: {c:?}"
        );
    }
}
