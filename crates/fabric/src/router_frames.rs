//! The frames that a router parses and emits: ARP (RFC 826), IPv4 (RFC 791), ICMP (RFC 792).
use std::net::Ipv4Addr;

use crate::headers;
use crate::packet::ETHERNET_BYTES;
use crate::train::Train;

const BROADCAST: [u8; 6] = [0xff; 6];
const ARP_BYTES: usize = 28;
const ICMP: u8 = 1;
const ECHO: u8 = 8;
const TTL: u8 = 64;

// Types and codes of the ICMP errors that a router sends.
pub(crate) const TIME_EXCEEDED: (u8, u8) = (11, 0);
pub(crate) const NET_UNREACHABLE: (u8, u8) = (3, 0);
pub(crate) const HOST_UNREACHABLE: (u8, u8) = (3, 1);
pub(crate) const FRAGMENTATION_NEEDED: (u8, u8) = (3, 4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArpKind {
    Request,
    Reply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arp {
    pub(crate) kind: ArpKind,
    pub(crate) sender_mac: [u8; 6],
    pub(crate) sender: Ipv4Addr,
    pub(crate) target: Ipv4Addr,
}

/// Fields of an IPv4 train that a router reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ipv4 {
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    /// Time to live on arrival at this router.
    pub(crate) ttl: u8,
    pub(crate) forbids_fragments: bool,
    /// Length of the longest of its IP packets, bytes.
    pub(crate) longest_bytes: u32,
    /// Offset of the IP header in the frame.
    at: usize,
    header_bytes: usize,
    protocol: u8,
    first_fragment: bool,
}

fn address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    bytes
        .get(at..)?
        .first_chunk::<4>()
        .map(|four| Ipv4Addr::from(*four))
}

/// Parses an ARP frame. `None` unless the frame is ARP for IPv4 over Ethernet.
pub(crate) fn parse_arp(bytes: &[u8]) -> Option<Arp> {
    let (kind, at) = headers::ethertype(bytes)?;
    let arp = bytes.get(at..at + ARP_BYTES).filter(|_| kind == 0x0806)?;
    let (fixed, rest) = arp.split_at(6);
    let kind = match (fixed, rest[1]) {
        (&[0, 1, 0x08, 0, 6, 4], 1) => ArpKind::Request,
        (&[0, 1, 0x08, 0, 6, 4], 2) => ArpKind::Reply,
        _ => return None,
    };
    Some(Arp {
        kind,
        sender_mac: *arp[8..].first_chunk()?,
        sender: address(arp, 14)?,
        target: address(arp, 24)?,
    })
}

/// Parses the IPv4 header of a train. `None` unless the frame is IPv4.
pub(crate) fn parse_ipv4(train: &Train) -> Option<Ipv4> {
    let bytes = train.packet.bytes();
    let (at, header_bytes) = headers::ipv4(bytes)?;
    let header = &bytes[at..at + header_bytes];
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    Some(Ipv4 {
        source: address(header, 12)?,
        destination: address(header, 16)?,
        ttl: header[8].saturating_sub(train.hop.map_or(0, |hop| hop.hops)),
        forbids_fragments: fragment & 0x4000 != 0,
        first_fragment: fragment & 0x1fff == 0,
        // Both the frame length and `at` are those of the packet as sent, tagged or not. Padding
        // counts too, but a padded frame is short anyway.
        longest_bytes: train
            .packet
            .frame_bytes(train.first)
            .saturating_sub(at as u32 + 4),
        at,
        header_bytes,
        protocol: header[9],
    })
}

fn arp(
    destination: [u8; 6],
    mac: [u8; 6],
    operation: u8,
    sender: Ipv4Addr,
    target: ([u8; 6], Ipv4Addr),
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ETHERNET_BYTES + ARP_BYTES);
    bytes.extend(destination);
    bytes.extend(mac);
    bytes.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, operation]);
    bytes.extend(mac);
    bytes.extend(sender.octets());
    bytes.extend(target.0);
    bytes.extend(target.1.octets());
    bytes
}

pub(crate) fn arp_request(mac: [u8; 6], own: Ipv4Addr, wanted: Ipv4Addr) -> Vec<u8> {
    arp(BROADCAST, mac, 1, own, ([0; 6], wanted))
}

pub(crate) fn arp_reply(mac: [u8; 6], own: Ipv4Addr, to: &Arp) -> Vec<u8> {
    arp(to.sender_mac, mac, 2, own, (to.sender_mac, to.sender))
}

/// Emits an ICMP message in an Ethernet frame, with both checksums. `ends` are the Ethernet
/// addresses of receiver and sender.
fn icmp(
    ends: ([u8; 6], [u8; 6]),
    source: Ipv4Addr,
    destination: Ipv4Addr,
    message: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ETHERNET_BYTES + 20 + message.len());
    bytes.extend(ends.0);
    bytes.extend(ends.1);
    bytes.extend([0x08, 0x00, 0x45, 0]);
    bytes.extend(((20 + message.len()) as u16).to_be_bytes());
    bytes.extend([0, 0, 0, 0, TTL, ICMP, 0, 0]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(message);
    let at = ETHERNET_BYTES + 20;
    bytes[at + 2..at + 4].fill(0);
    let sum = headers::checksum(&bytes[at..]);
    bytes[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    headers::seal(&mut bytes);
    bytes
}

/// Emits the reply to an echo request. `None` for other packets and for fragments.
pub(crate) fn echo_reply(train: &Train, ip: &Ipv4, mac: [u8; 6]) -> Option<Vec<u8>> {
    let packet = train.packet.bytes().get(ip.at..)?;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let message = packet.get(ip.header_bytes..total)?;
    let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
    if ip.protocol != ICMP || fragment || message.len() < 8 || message[0] != ECHO {
        return None;
    }
    let mut message = message.to_vec();
    message[0] = 0;
    Some(icmp(
        (train.source(), mac),
        ip.destination,
        ip.source,
        &message,
    ))
}

/// Emits an ICMP error that quotes the IP header and the next 8 bytes. `None` if RFC 1812 forbids
/// an error: about ICMP errors, later fragments, and packets that are not from and to single hosts.
pub(crate) fn icmp_error(
    train: &Train,
    ip: &Ipv4,
    mac: [u8; 6],
    own: Ipv4Addr,
    (kind, code): (u8, u8),
    mtu: u16,
) -> Option<Vec<u8>> {
    let mut head = train.first_headers();
    headers::age(&mut head, train.hop.map_or(0, |hop| hop.hops));
    let begin = ip.at + ip.header_bytes;
    let is_query = ip.protocol != ICMP || matches!(head.get(begin), Some(&(0 | ECHO | 13..=18)));
    let is_single_host = |address: Ipv4Addr| {
        !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified()
    };
    if !is_query
        || !ip.first_fragment
        || !is_single_host(ip.source)
        || !is_single_host(ip.destination)
    {
        return None;
    }
    let quoted = head.get(ip.at..(begin + 8).min(head.len()))?;
    let mut message = vec![kind, code, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(quoted);
    Some(icmp((train.source(), mac), own, ip.source, &message))
}
