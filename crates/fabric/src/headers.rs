//! The fields of Ethernet, IP, TCP and UDP headers that segmentation, marking, tagging and routing
//! need.
//!
//! All functions accept arbitrary bytes. Bytes that do not parse stay unchanged.

const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const IPV6_HEADER_BYTES: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER_BYTES: usize = 8;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Version and offset of an IP header. `header` is its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ip {
    V4 { at: usize, header: usize },
    V6 { at: usize },
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..at + 2)
        .and_then(|two| two.try_into().ok())
        .map(u16::from_be_bytes)
}

/// Returns the Ethertype, after the tag if there is one, and the offset of the payload.
pub(crate) fn ethertype(bytes: &[u8]) -> Option<(u16, usize)> {
    match u16_at(bytes, 12)? {
        ETHERTYPE_VLAN => Some((u16_at(bytes, 16)?, 18)),
        kind => Some((kind, 14)),
    }
}

/// Returns the offset and the length of an IPv4 header.
pub(crate) fn ipv4(bytes: &[u8]) -> Option<(usize, usize)> {
    match ip(bytes)? {
        Ip::V4 { at, header } => Some((at, header)),
        Ip::V6 { .. } => None,
    }
}

/// Subtracts `hops` from the time to live of IPv4. Updates the header checksum incrementally (RFC
/// 1624).
pub(crate) fn age(bytes: &mut [u8], hops: u8) {
    let Some((at, _)) = ipv4(bytes) else { return };
    let before = u16_at(bytes, at + 8).unwrap_or(0);
    bytes[at + 8] = bytes[at + 8].saturating_sub(hops);
    let after = u16_at(bytes, at + 8).unwrap_or(0);
    let sum = u16_at(bytes, at + 10).unwrap_or(0);
    let changed = u64::from(!sum) + u64::from(!before) + u64::from(after);
    put_u16(bytes, at + 10, !fold(changed));
}

/// Returns the internet checksum (RFC 1071).
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum_of(bytes))
}

/// Fills in the header checksum of IPv4.
pub(crate) fn seal(bytes: &mut [u8]) {
    if let Some((at, header)) = ipv4(bytes) {
        seal_ipv4(bytes, at, header);
    }
}

fn ip(bytes: &[u8]) -> Option<Ip> {
    let (kind, at) = ethertype(bytes)?;
    match kind {
        ETHERTYPE_IPV4 => {
            let header = usize::from(bytes.get(at)? & 0x0f) * 4;
            (header >= 20 && bytes.len() >= at + header).then_some(Ip::V4 { at, header })
        }
        ETHERTYPE_IPV6 => (bytes.len() >= at + IPV6_HEADER_BYTES).then_some(Ip::V6 { at }),
        _ => None,
    }
}

/// Returns the ECN bits, 0 to 3. `None` unless the frame is IP.
pub(crate) fn ecn(bytes: &[u8]) -> Option<u8> {
    match ip(bytes)? {
        Ip::V4 { at, .. } => Some(bytes[at + 1] & 3),
        Ip::V6 { at } => Some(bytes[at + 1] >> 4 & 3),
    }
}

/// Returns the transport protocol and the offset of its header.
fn transport(bytes: &[u8]) -> Option<(u8, usize)> {
    Some(match ip(bytes)? {
        Ip::V4 { at, header } => (bytes[at + 9], at + header),
        Ip::V6 { at } => (bytes[at + 6], at + IPV6_HEADER_BYTES),
    })
}

/// Returns the offset of the payload of a TCP segment or a UDP datagram.
pub(crate) fn payload_at(bytes: &[u8]) -> Option<usize> {
    let (protocol, at) = transport(bytes)?;
    let header = match protocol {
        TCP => usize::from(bytes.get(at + 12)? >> 4) * 4,
        UDP => UDP_HEADER_BYTES,
        _ => return None,
    };
    let header_bytes_min = if protocol == TCP {
        20
    } else {
        UDP_HEADER_BYTES
    };
    (header >= header_bytes_min && bytes.len() >= at + header).then_some(at + header)
}

/// Returns whether the frame is UDP.
pub(crate) fn is_udp(bytes: &[u8]) -> bool {
    transport(bytes).is_some_and(|(protocol, _)| protocol == UDP)
}

/// Returns the offset of the first byte that the TCP or UDP checksum covers, and the offset of the
/// checksum field from there.
pub(crate) fn checksum_at(bytes: &[u8]) -> Option<(usize, usize)> {
    match transport(bytes)? {
        (TCP, at) => Some((at, 16)),
        (UDP, at) => Some((at, 6)),
        _ => None,
    }
}

/// Sets the ECN bits to "congestion experienced" (RFC 3168).
pub(crate) fn mark(bytes: &mut [u8]) {
    match ip(bytes) {
        Some(Ip::V4 { at, header }) => {
            bytes[at + 1] |= 3;
            seal_ipv4(bytes, at, header);
        }
        Some(Ip::V6 { at }) => bytes[at + 1] |= 3 << 4,
        None => {}
    }
}

/// Inserts, replaces or (`None`) removes the 802.1Q tag.
pub(crate) fn set_tag(bytes: &mut Vec<u8>, tag: Option<u16>) {
    if u16_at(bytes, 12) == Some(ETHERTYPE_VLAN) && bytes.len() >= 16 {
        bytes.drain(12..16);
    }
    if let Some(vlan) = tag {
        let [high, low] = vlan.to_be_bytes();
        bytes.splice(12..12, [0x81, 0x00, high, low]);
    }
}

/// Converts the headers of a super-frame to those of a part with `payload` bytes. `index` is the
/// part's first frame, `each` the payload of a frame, and `last` whether the part includes the last
/// frame. The checksum becomes the sum of the pseudo-header, as checksum offload expects.
pub(crate) fn cut(headers: &mut [u8], payload: usize, index: u32, each: u16, last: bool) {
    let (Some(ip), Some((protocol, at_transport))) = (ip(headers), transport(headers)) else {
        return;
    };
    let total = headers.len() + payload;
    match ip {
        Ip::V4 { at, header } => {
            put_u16(headers, at + 2, (total - at) as u16);
            let id = u16_at(headers, at + 4).unwrap_or(0);
            put_u16(headers, at + 4, id.wrapping_add(index as u16));
            seal_ipv4(headers, at, header);
        }
        Ip::V6 { at } => put_u16(headers, at + 4, (total - at - IPV6_HEADER_BYTES) as u16),
    }
    let length = total - at_transport;
    let sum = fold(pseudo_header(headers, ip, protocol, length as u32));
    match protocol {
        TCP if headers.len() >= at_transport + 20 => {
            cut_tcp(&mut headers[at_transport..], index, each, last);
            put_u16(headers, at_transport + 16, sum);
        }
        UDP if headers.len() >= at_transport + UDP_HEADER_BYTES => {
            put_u16(headers, at_transport + 4, length as u16);
            put_u16(headers, at_transport + 6, sum);
        }
        _ => {}
    }
}

fn cut_tcp(header: &mut [u8], index: u32, each: u16, last: bool) {
    let sequence = header[4..]
        .first_chunk()
        .map_or(0, |four| u32::from_be_bytes(*four));
    let sequence = sequence.wrapping_add(index.wrapping_mul(u32::from(each)));
    header[4..8].copy_from_slice(&sequence.to_be_bytes());
    if !last {
        header[13] &= !FIN_PSH;
    }
    if index > 0 {
        header[13] &= !CWR;
    }
}

/// Fills in the L4 checksum of the bytes from `start` on. Its field, at `start + offset`, must
/// contain the sum of the pseudo-header.
pub(crate) fn fill_checksum(bytes: &mut [u8], start: usize, offset: usize) {
    if bytes.len() < start + offset + 2 {
        return;
    }
    let sum = !fold(sum_of(&bytes[start..]));
    put_u16(bytes, start + offset, if sum == 0 { 0xffff } else { sum });
}

fn seal_ipv4(bytes: &mut [u8], at: usize, header: usize) {
    put_u16(bytes, at + 10, 0);
    let sum = !fold(sum_of(&bytes[at..at + header]));
    put_u16(bytes, at + 10, sum);
}

fn pseudo_header(bytes: &[u8], ip: Ip, protocol: u8, length: u32) -> u64 {
    let addresses = match ip {
        Ip::V4 { at, .. } => &bytes[at + 12..at + 20],
        Ip::V6 { at } => &bytes[at + 8..at + 40],
    };
    sum_of(addresses) + u64::from(protocol) + u64::from(length)
}

/// Returns the sum of 16-bit words in network order, without carries folded in (RFC 1071).
fn sum_of(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let sum: u64 = words
        .iter()
        .map(|word| u64::from(u16::from_be_bytes(*word)))
        .sum();
    sum + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a TCP segment over IPv4: 20-byte headers, sequence number 1000, ACK, PSH and CWR,
    /// ECT(0).
    fn segment(payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; 54 + payload];
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        bytes[14] = 0x45;
        bytes[15] = 2;
        put_u16(&mut bytes, 16, (40 + payload) as u16);
        put_u16(&mut bytes, 18, 7);
        bytes[23] = TCP;
        bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        bytes[38..42].copy_from_slice(&1000_u32.to_be_bytes());
        bytes[46] = 5 << 4;
        bytes[47] = 0x18 | CWR;
        seal_ipv4(&mut bytes, 14, 20);
        bytes
    }

    #[test]
    fn a_part_of_a_super_frame_has_its_own_numbers() {
        let mut part = segment(100);
        cut(&mut part[..54], 100, 3, 100, false);
        assert_eq!(u16_at(&part, 16), Some(140));
        assert_eq!(u16_at(&part, 18), Some(10), "identification counts up");
        assert_eq!(&part[38..42], &1300_u32.to_be_bytes());
        assert_eq!(
            part[47], 0x10,
            "only the last frame has PSH, only the first CWR"
        );
        assert_eq!(
            fold(sum_of(&part[14..34])),
            0xffff,
            "the IPv4 header is sealed"
        );
        let pseudo = 0x0a00 + 1 + 0x0a00 + 2 + 6 + 120;
        assert_eq!(u16_at(&part, 50), Some(pseudo));
        fill_checksum(&mut part, 34, 16);
        assert_eq!(
            fold(sum_of(&part[34..]) + u64::from(pseudo)),
            0xffff,
            "TCP's checksum holds"
        );
    }

    #[test]
    fn a_part_of_a_udp_super_frame_has_its_own_length() {
        let mut part = segment(100);
        part[23] = UDP;
        assert_eq!(
            (payload_at(&part), checksum_at(&part)),
            (Some(42), Some((34, 6)))
        );
        cut(&mut part[..42], 112, 2, 56, true);
        assert_eq!(
            (u16_at(&part, 16), u16_at(&part, 38)),
            (Some(140), Some(120))
        );
        assert_eq!(u16_at(&part, 40), Some(0x0a00 + 1 + 0x0a00 + 2 + 17 + 120));
        fill_checksum(&mut part, 34, 6);
        let pseudo = u64::from(0x0a00_u16 + 1 + 0x0a00 + 2 + 17 + 120);
        assert_eq!(fold(sum_of(&part[34..]) + pseudo), 0xffff);
    }

    #[test]
    fn only_ip_frames_are_marked() {
        let mut frame = segment(0);
        assert_eq!(ecn(&frame), Some(2));
        mark(&mut frame);
        assert_eq!(ecn(&frame), Some(3));
        assert_eq!(fold(sum_of(&frame[14..34])), 0xffff);
        let mut arp = vec![0_u8; 60];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        let before = arp.clone();
        mark(&mut arp);
        cut(&mut arp, 0, 1, 10, true);
        assert_eq!((ecn(&arp), arp), (None, before));
    }

    #[test]
    fn tags_are_inserted_replaced_and_removed() {
        let plain = segment(10);
        let mut frame = plain.clone();
        set_tag(&mut frame, Some(5));
        assert_eq!(
            (frame.len(), u16_at(&frame, 12), u16_at(&frame, 14)),
            (plain.len() + 4, Some(ETHERTYPE_VLAN), Some(5))
        );
        assert_eq!(ecn(&frame), Some(2), "IP is found after the tag");
        set_tag(&mut frame, Some(6));
        assert_eq!(u16_at(&frame, 14), Some(6));
        set_tag(&mut frame, None);
        assert_eq!(frame, plain);
    }

    #[test]
    fn no_bytes_panic() {
        let whole = segment(30);
        for length in 0..whole.len() {
            let mut bytes = whole[..length].to_vec();
            mark(&mut bytes);
            cut(&mut bytes, 0, 2, 10, true);
            assert!(payload_at(&bytes).is_none_or(|at| at <= length));
            checksum_at(&bytes);
            fill_checksum(&mut bytes, 34, 16);
            set_tag(&mut bytes, None);
        }
    }
}
