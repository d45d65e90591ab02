//! Test frames: Ethernet, IPv4, UDP, the tag and the pattern.
//!
//! ```text
//! offset  0  destination MAC, source MAC, 0x0800                    14 bytes
//!        14  IPv4 header: no options, don't fragment, TTL 64         20
//!        34  UDP header; the source port is that of the flow          8
//!        42  tag:  mark      4   "hk" and a number that each process draws
//!        46        trial     2   number of the trial
//!        48        stream    2   index of the stream
//!        50        number    4   number of the frame in the stream, from 0
//!        54        sent      6   CLOCK_MONOTONIC in ns, modulo 2^48
//!        60  pattern, up to the length of the frame without FCS
//! ```
//! The shortest frame, 64 bytes with FCS, ends with the tag. All numbers are big-endian. The UDP
//! checksum covers the addresses, ports, tag and pattern. Routers leave it alone and translators of
//! addresses correct it, so it detects damage on any path.
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use hakaru_units::Time;

use crate::checksum::{fold, sum_words};
use crate::pattern;
use crate::sizes::SizeOrder;

/// Length of the frame check sequence, which the interface adds.
pub const FCS_BYTES: u16 = 4;
/// Offset of the mark, by which a filter recognises the frames of one process.
pub const MARK_AT: u32 = TAG_AT as u32;

const IP_AT: usize = 14;
const UDP_AT: usize = 34;
const TAG_AT: usize = 42;
const TAG_BYTES: usize = 18;
const PATTERN_AT: usize = TAG_AT + TAG_BYTES;
const UDP: u8 = 17;
/// The sent instant is stored modulo this, 78 hours.
const SENT_MODULUS: u64 = 1 << 48;

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = ();

    fn from_str(text: &str) -> Result<Mac, ()> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or(())?;
            // `from_str_radix` would accept a sign.
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        parts.next().map_or(Ok(Mac(bytes)), |_| Err(()))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Addresses of a stream's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Source MAC address.
    pub source_mac: Mac,
    /// Destination MAC address.
    pub destination_mac: Mac,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Source UDP port of flow 0.
    pub source_port: u16,
    /// Destination UDP port.
    pub destination_port: u16,
}

/// The frames of one stream, ready to be emitted.
#[derive(Clone, Debug)]
pub struct Frames {
    templates: Vec<Template>,
    order: SizeOrder,
    flows: u16,
    source_port: u16,
    trial: u16,
}

/// A frame of one size. Number, instant, source port and checksum are filled in for each frame.
#[derive(Clone, Debug)]
struct Template {
    /// The frame without FCS.
    bytes: Vec<u8>,
    /// Sum of all words of the UDP checksum, except those filled in.
    sum: u64,
}

impl Frames {
    /// Builds the frames of a stream with index `stream`. `mark` is that of the process.
    ///
    /// # Panics
    /// If a size is below 64 or above [`pattern::FRAME_BYTES_MAX`].
    #[must_use]
    pub fn new(
        addresses: &Addresses,
        mark: u32,
        stream: u16,
        flows: u16,
        order: SizeOrder,
    ) -> Frames {
        let template = |bytes: &u16| Template::new(addresses, mark, stream, *bytes);
        Frames {
            templates: order.sizes().iter().map(template).collect(),
            order,
            flows,
            source_port: addresses.source_port,
            trial: 0,
        }
    }

    /// Sets the trial that the following frames belong to.
    pub fn set_trial(&mut self, trial: u16) {
        self.trial = trial;
    }

    /// Returns the length of the longest frame, without FCS.
    #[must_use]
    pub fn longest(&self) -> usize {
        let lengths = self.templates.iter().map(|template| template.bytes.len());
        lengths.max().unwrap_or(0)
    }

    /// Writes frame `number` of the stream, sent at `now`, to the start of `out`. Returns its length
    /// without FCS.
    ///
    /// # Panics
    /// If `out` is shorter than the frame.
    pub fn emit(&self, number: u32, now: Time, out: &mut [u8]) -> usize {
        let template = &self.templates[self.order.index_of(number)];
        let out = &mut out[..template.bytes.len()];
        out.copy_from_slice(&template.bytes);
        let flow = (number % u32::from(self.flows)) as u16;
        let mut changing = [0_u8; 14];
        let source_port = self.source_port.wrapping_add(flow).to_be_bytes();
        changing[..2].copy_from_slice(&self.trial.to_be_bytes());
        changing[2..6].copy_from_slice(&number.to_be_bytes());
        changing[6..12].copy_from_slice(&now.as_ns().to_be_bytes()[2..]);
        changing[12..].copy_from_slice(&source_port);
        out[UDP_AT..UDP_AT + 2].copy_from_slice(&source_port);
        out[TAG_AT + 4..TAG_AT + 6].copy_from_slice(&changing[..2]);
        out[TAG_AT + 8..TAG_AT + 18].copy_from_slice(&changing[2..12]);
        let checksum = udp_checksum(template.sum + u64::from(sum_words(&changing)));
        out[UDP_AT + 6..UDP_AT + 8].copy_from_slice(&checksum.to_be_bytes());
        out.len()
    }

    /// Returns the size of frame `number` with FCS, bytes.
    #[must_use]
    pub fn bytes_of(&self, number: u32) -> u16 {
        self.order.sizes()[self.order.index_of(number)]
    }
}

impl Template {
    fn new(addresses: &Addresses, mark: u32, stream: u16, frame_bytes: u16) -> Template {
        assert!((64..=pattern::FRAME_BYTES_MAX).contains(&frame_bytes));
        let length = usize::from(frame_bytes - FCS_BYTES);
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(addresses.destination_mac.0);
        bytes.extend(addresses.source_mac.0);
        bytes.extend([0x08, 0x00]);
        let ip_length = (length - IP_AT) as u16;
        bytes.extend([0x45, 0]);
        bytes.extend(ip_length.to_be_bytes());
        // Identification 0, don't fragment, TTL 64, UDP, checksum.
        bytes.extend([0, 0, 0x40, 0, 64, UDP, 0, 0]);
        bytes.extend(addresses.source.octets());
        bytes.extend(addresses.destination.octets());
        let checksum = !fold(sum_words(&bytes[IP_AT..]).into());
        bytes[IP_AT + 10..IP_AT + 12].copy_from_slice(&checksum.to_be_bytes());
        let udp_length = (length - UDP_AT) as u16;
        bytes.extend([0, 0]);
        bytes.extend(addresses.destination_port.to_be_bytes());
        bytes.extend(udp_length.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(mark.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend([0; 10]);
        bytes.extend(pattern::bytes(length - PATTERN_AT));
        let sum = udp_sum(&bytes, length - UDP_AT);
        Template { bytes, sum }
    }
}

/// Adds the words that the UDP checksum of a frame covers. The pattern must be intact.
fn udp_sum(frame: &[u8], udp_length: usize) -> u64 {
    // The addresses are part of a pseudo-header, with the protocol and the length (RFC 768).
    let words = sum_words(&frame[IP_AT + 12..PATTERN_AT]);
    let pattern = pattern::sum(udp_length + UDP_AT - PATTERN_AT);
    u64::from(words) + u64::from(pattern) + u64::from(UDP) + udp_length as u64
}

/// Returns the checksum for a sum of words. 0 would mean that there is none (RFC 768).
fn udp_checksum(sum: u64) -> u16 {
    match !fold(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// Contents of a frame's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Number of the trial.
    pub trial: u16,
    /// Index of the stream.
    pub stream: u16,
    /// Number of the frame in the stream.
    pub number: u32,
    /// Instant at which the frame was sent, ns, modulo 2^48.
    sent: u64,
}

impl Tag {
    /// Returns the time from the sending of the frame to `at`, ns. 0 if `at` is earlier, as it can
    /// be by the rounding of a converted clock.
    #[must_use]
    pub fn latency_ns(&self, at: Time) -> u64 {
        let passed = at.as_ns().wrapping_sub(self.sent) % SENT_MODULUS;
        if passed < SENT_MODULUS / 2 { passed } else { 0 }
    }
}

/// A parsed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Not a test frame of this process.
    Foreign,
    /// A test frame whose checksum, lengths or pattern are wrong. The index of the stream may be
    /// wrong as well.
    Damaged {
        /// Index of the stream.
        stream: u16,
    },
    /// An intact test frame.
    Intact {
        /// Its tag.
        tag: Tag,
        /// Its size with FCS, bytes.
        bytes: u16,
    },
}

/// Parses a frame without FCS. Any bytes are accepted.
#[must_use]
pub fn parse(frame: &[u8], mark: u32) -> Arrival {
    let half = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let is_test = frame.len() >= PATTERN_AT
        && frame[12..15] == [0x08, 0x00, 0x45]
        && frame[IP_AT + 9] == UDP
        && frame[TAG_AT..TAG_AT + 4] == mark.to_be_bytes();
    if !is_test {
        return Arrival::Foreign;
    }
    let stream = half(TAG_AT + 6);
    let ip_length = usize::from(half(IP_AT + 2));
    let udp_length = usize::from(half(UDP_AT + 4));
    let end = IP_AT + ip_length;
    let is_intact = (PATTERN_AT..=frame.len()).contains(&end)
        && end <= usize::from(pattern::FRAME_BYTES_MAX - FCS_BYTES)
        && udp_length == end - UDP_AT
        && frame[PATTERN_AT..end] == *pattern::bytes(end - PATTERN_AT)
        // With the checksum included, the sum is that of nothing.
        && fold(udp_sum(frame, udp_length)) == 0xffff;
    if !is_intact {
        return Arrival::Damaged { stream };
    }
    let mut sent = [0; 8];
    sent[2..].copy_from_slice(&frame[TAG_AT + 12..PATTERN_AT]);
    Arrival::Intact {
        tag: Tag {
            trial: half(TAG_AT + 4),
            stream,
            number: u32::from(half(TAG_AT + 8)) << 16 | u32::from(half(TAG_AT + 10)),
            sent: u64::from_be_bytes(sent),
        },
        bytes: end as u16 + FCS_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use hakaru_contract::FrameSize;

    use super::*;

    const MARK: u32 = 0x686b_1234;

    fn frames(sizes: &[u16], flows: u16) -> Frames {
        let sizes: Vec<FrameSize> = sizes
            .iter()
            .map(|bytes| FrameSize {
                bytes: *bytes,
                weight: 1,
            })
            .collect();
        let addresses = Addresses {
            source_mac: Mac([2, 0, 0, 0, 0, 1]),
            destination_mac: Mac([2, 0, 0, 0, 0, 2]),
            source: Ipv4Addr::new(198, 18, 0, 2),
            destination: Ipv4Addr::new(198, 19, 0, 2),
            source_port: 49_152,
            destination_port: 9,
        };
        Frames::new(&addresses, MARK, 3, flows, SizeOrder::new(&sizes, flows))
    }

    fn emitted(frames: &Frames, number: u32, now: Time) -> Vec<u8> {
        let mut out = vec![0xee; 9300];
        let length = frames.emit(number, now, &mut out);
        out.truncate(length);
        out
    }

    #[test]
    fn a_frame_survives_emit_and_parse_at_every_size() {
        let mut frames = frames(&[64, 65, 594, 1518, 9216], 4);
        frames.set_trial(7);
        for number in [0, 1, 2, 3, 4, 5, 70_000, u32::MAX] {
            let now = Time((3 << 48) + 123_456_789);
            let frame = emitted(&frames, number, now);
            let bytes = frame.len() as u16 + FCS_BYTES;
            assert_eq!(bytes, frames.bytes_of(number));
            let Arrival::Intact { tag, bytes: parsed } = parse(&frame, MARK) else {
                panic!("frame {number} is not intact");
            };
            assert_eq!((tag.trial, tag.stream, tag.number), (7, 3, number));
            assert_eq!(parsed, bytes);
            assert_eq!(tag.latency_ns(now + std::time::Duration::from_nanos(5)), 5);
            assert_eq!(tag.latency_ns(Time(now.as_ns() - 5)), 0);
            // Padding, as interfaces add it, is not part of the frame.
            let padded = [&frame[..], &[0; 4]].concat();
            assert_eq!(parse(&padded, MARK), parse(&frame, MARK));
            assert_eq!(parse(&frame, MARK + 1), Arrival::Foreign);
        }
    }

    #[test]
    fn headers_are_those_of_a_valid_udp_datagram() {
        let frame = emitted(&frames(&[64], 3), 5, Time(0));
        assert_eq!(frame.len(), 60);
        assert_eq!(
            fold(sum_words(&frame[IP_AT..UDP_AT]).into()),
            0xffff,
            "the checksum of the IPv4 header"
        );
        // Frame 5 of three flows belongs to flow 2.
        assert_eq!(frame[UDP_AT..UDP_AT + 2], 49_154_u16.to_be_bytes());
        let pseudo = [&frame[26..34], &[0, UDP, 0, 26], &frame[UDP_AT..]].concat();
        assert_eq!(fold(sum_words(&pseudo).into()), 0xffff);
    }

    #[test]
    fn every_flipped_bit_behind_the_ethernet_header_is_recognised_or_harmless() {
        let frame = emitted(&frames(&[128], 1), 9, Time(77));
        let intact = parse(&frame, MARK);
        for bit in 8 * IP_AT..8 * frame.len() {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let byte = bit / 8;
            let harmless = [15, 18, 19, 20, 21, 22, 24, 25];
            let parsed = parse(&damaged, MARK);
            if harmless.contains(&byte) {
                // DSCP, identification, fragment, TTL and header checksum: a router changes some
                // and checks the last.
                assert_eq!(parsed, intact, "bit {bit}");
            } else {
                assert!(!matches!(parsed, Arrival::Intact { .. }), "bit {bit}");
            }
        }
    }

    #[test]
    fn truncated_frames_never_panic() {
        let frame = emitted(&frames(&[200], 1), 0, Time(0));
        for length in 0..frame.len() {
            assert!(!matches!(
                parse(&frame[..length], MARK),
                Arrival::Intact { .. }
            ));
        }
    }

    #[test]
    fn mac_addresses_are_parsed_strictly() {
        let mac: Mac = "02:0a:00:ff:00:01".parse().unwrap();
        assert_eq!(mac.to_string(), "02:0a:00:ff:00:01");
        for wrong in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "+2:00:00:00:00:01",
            "02-00-00-00-00-01",
        ] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
    }
}
