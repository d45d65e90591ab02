//! View of a captured packet down to its TCP segment; nothing is copied.
//!
//! Link layers: Ethernet (with up to four VLAN tags), Linux cooked captures (SLL, SLL2), BSD
//! loopback, and none (raw IP). Lengths are taken from the IP header, so a snap length does not
//! change them. Super-frames of segmentation offload are longer than any MTU. Above 64 KiB their IP
//! length is 0, and the length of the packet applies.
//!
//! Checksums are not verified: if a packet is captured on its way out, the interface has yet to
//! fill them in.
use std::net::{IpAddr, SocketAddr};

const VLAN_TAGS_MAX: usize = 4;
const IPV6_EXTENSIONS_MAX: usize = 8;
const TCP: u8 = 6;

/// Link layer of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header.
    Ethernet,
    /// The 16-byte header of Linux cooked captures (SLL).
    Cooked,
    /// The 20-byte header of Linux cooked captures, version 2 (SLL2).
    Cooked2,
    /// An address family in four bytes, in either byte order (BSD loopback).
    Loopback,
    /// An IP header.
    Ip,
}

impl Link {
    /// Returns the link layer of a LINKTYPE_ number in a pcap or pcapng file
    /// (<https://www.tcpdump.org/linktypes.html>); `None` for unsupported ones.
    pub const fn from_code(code: u32) -> Option<Link> {
        match code {
            1 => Some(Link::Ethernet),
            113 => Some(Link::Cooked),
            276 => Some(Link::Cooked2),
            0 | 108 => Some(Link::Loopback),
            // These are LINKTYPE_RAW, the two values of DLT_RAW in old files, LINKTYPE_IPV4 and
            // LINKTYPE_IPV6.
            101 | 12 | 14 | 228 | 229 => Some(Link::Ip),
            _ => None,
        }
    }
}

/// Reason why a packet contains no readable TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSeen {
    /// Neither IPv4 nor IPv6 (for example ARP).
    NotIp,
    /// IP without TCP.
    NotTcp,
    /// A fragment of an IP datagram: TCP avoids fragments, and they are not reassembled here.
    Fragment,
    /// The capture ends before the TCP header does.
    Cut,
    /// The headers contradict themselves.
    Malformed,
}

/// A TCP segment, or a super-frame of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Sender.
    pub from: SocketAddr,
    /// Receiver.
    pub to: SocketAddr,
    /// Sequence number of the first byte, or of the SYN if it is set.
    pub sequence: u32,
    /// Sequence number of the next byte that the sender expects, if ACK is set.
    pub acknowledged: Option<u32>,
    /// Whether SYN is set.
    pub syn: bool,
    /// Whether FIN is set.
    pub fin: bool,
    /// Whether RST is set.
    pub rst: bool,
    /// Captured part of the payload.
    pub payload: &'a [u8],
    /// Length of the payload on the wire, bytes; at least `payload.len()`.
    pub payload_length: u32,
    /// Hash of the IP identification and of the TCP header without ports and checksum. It is equal
    /// for two copies of one packet, and almost always different for a retransmission.
    pub fingerprint: u64,
}

/// Parses a packet. `original_length`: length before the snap length cut it, bytes.
///
/// # Errors
/// The packet contains no readable TCP segment.
pub fn parse(link: Link, bytes: &[u8], original_length: u32) -> Result<Segment<'_>, NotSeen> {
    let at = network_header(link, bytes)?;
    let packet = bytes.get(at..).ok_or(NotSeen::Cut)?;
    let original = (original_length as usize)
        .max(bytes.len())
        .saturating_sub(at);
    match packet.first().ok_or(NotSeen::Cut)? >> 4 {
        4 => parse_ipv4(packet, original),
        6 => parse_ipv6(packet, original),
        _ => Err(NotSeen::NotIp),
    }
}

/// Returns the offset of the IP header.
fn network_header(link: Link, bytes: &[u8]) -> Result<usize, NotSeen> {
    match link {
        Link::Ethernet => after_ethertype(bytes, 12),
        Link::Cooked => after_ethertype(bytes, 14),
        Link::Cooked2 => after_ethertype(bytes, 0).map(|_| 20),
        Link::Loopback => Ok(4),
        Link::Ip => Ok(0),
    }
}

/// Returns the offset of the IP header after an ethertype and its VLAN tags.
fn after_ethertype(bytes: &[u8], mut at: usize) -> Result<usize, NotSeen> {
    for _ in 0..=VLAN_TAGS_MAX {
        match u16_at(bytes, at)? {
            0x0800 | 0x86dd => return Ok(at + 2),
            // These are 802.1Q, 802.1ad, and the older number of some vendors.
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            _ => return Err(NotSeen::NotIp),
        }
    }
    Err(NotSeen::Malformed)
}

fn parse_ipv4(packet: &[u8], original: usize) -> Result<Segment<'_>, NotSeen> {
    let header = usize::from(packet[0] & 0x0f) * 4;
    if header < 20 {
        return Err(NotSeen::Malformed);
    }
    if packet.len() < header {
        return Err(NotSeen::Cut);
    }
    if u16_at(packet, 6)? & 0x3fff != 0 {
        return Err(NotSeen::Fragment);
    }
    if packet[9] != TCP {
        return Err(NotSeen::NotTcp);
    }
    let total = match usize::from(u16_at(packet, 2)?) {
        0 => original,
        total => total,
    };
    let address = |at| IpAddr::from(octets::<4>(packet, at));
    let mut segment = parse_tcp(packet, header, total, address(12), address(16))?;
    segment.fingerprint ^= u64::from(u16_at(packet, 4)?) << 48;
    Ok(segment)
}

fn parse_ipv6(packet: &[u8], original: usize) -> Result<Segment<'_>, NotSeen> {
    if packet.len() < 40 {
        return Err(NotSeen::Cut);
    }
    let total = match usize::from(u16_at(packet, 4)?) {
        // This is a jumbogram, which super-frames above 64 KiB are.
        0 => original,
        payload => 40 + payload,
    };
    let (mut next, mut at) = (packet[6], 40);
    for _ in 0..IPV6_EXTENSIONS_MAX {
        let length = match next {
            TCP => {
                let address = |at| IpAddr::from(octets::<16>(packet, at));
                return parse_tcp(packet, at, total, address(8), address(24));
            }
            // These are hop-by-hop, routing and destination options. The authentication header
            // below counts in words of four bytes.
            0 | 43 | 60 => 8 + 8 * usize::from(*packet.get(at + 1).ok_or(NotSeen::Cut)?),
            51 => 8 + 4 * usize::from(*packet.get(at + 1).ok_or(NotSeen::Cut)?),
            44 => return Err(NotSeen::Fragment),
            _ => return Err(NotSeen::NotTcp),
        };
        next = *packet.get(at).ok_or(NotSeen::Cut)?;
        at += length;
    }
    Err(NotSeen::Malformed)
}

fn parse_tcp(
    packet: &[u8],
    at: usize,
    total: usize,
    from: IpAddr,
    to: IpAddr,
) -> Result<Segment<'_>, NotSeen> {
    let tcp = packet.get(at..).ok_or(NotSeen::Cut)?;
    if tcp.len() < 20 {
        return Err(NotSeen::Cut);
    }
    let header = usize::from(tcp[12] >> 4) * 4;
    if header < 20 {
        return Err(NotSeen::Malformed);
    }
    let payload_length = total
        .checked_sub(at + header)
        .ok_or(NotSeen::Malformed)?
        // No window is longer than 1 GiB.
        .min(1 << 30);
    // Options may be cut off, and Ethernet's padding may follow the payload.
    let payload = tcp.get(header..).unwrap_or(&[]);
    let flags = tcp[13];
    Ok(Segment {
        from: SocketAddr::new(from, u16_at(tcp, 0)?),
        to: SocketAddr::new(to, u16_at(tcp, 2)?),
        sequence: u32::from_be_bytes(octets(tcp, 4)),
        acknowledged: (flags & 0x10 != 0).then(|| u32::from_be_bytes(octets(tcp, 8))),
        syn: flags & 0x02 != 0,
        fin: flags & 0x01 != 0,
        rst: flags & 0x04 != 0,
        payload: &payload[..payload.len().min(payload_length)],
        payload_length: payload_length as u32,
        fingerprint: fingerprint(&tcp[..header.min(tcp.len())], payload_length),
    })
}

/// Returns the FNV-1a hash of a TCP header without its ports and checksum.
fn fingerprint(header: &[u8], payload_length: usize) -> u64 {
    let fields = header[4..16].iter().chain(&header[18..]);
    fields.fold(
        0xcbf2_9ce4_8422_2325 ^ payload_length as u64,
        |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3),
    )
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, NotSeen> {
    match bytes.get(at..at + 2) {
        Some(two) => Ok(u16::from_be_bytes([two[0], two[1]])),
        None => Err(NotSeen::Cut),
    }
}

/// Returns `N` bytes from `at`. The caller has checked that they exist.
fn octets<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&bytes[at..at + N]);
    octets
}
