//! Flows of frames to a guest with several pairs of rings.
//!
//! The driver leaves the choice of a frame's pair to the device (virtio 1.2, section 5.1.6.5.6). The
//! device should choose the pair on which the driver sends frames of the flow. That needs a table of
//! flows; a hash of the headers needs none, and keeps a flow in order just as well.
use std::hash::{DefaultHasher, Hasher as _};

use crate::packet::Outgoing;

/// Headers that are looked at, bytes: Ethernet with a VLAN tag, IPv4 with all options, and ports.
const HEADERS_MAX: usize = 18 + 60 + 4;
const MAC_BYTES: usize = 6;
const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const IPV6_BYTES: usize = 40;
const VLAN: [u8; 2] = [0x81, 0x00];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Returns a number that is the same for all frames of a TCP connection, and for all between the same
/// two UDP ports. All other packets between two IP addresses are one flow, fragments included, and so
/// are all other frames between two Ethernet addresses.
pub(super) fn flow_hash(packet: &Outgoing<'_>) -> u64 {
    let mut bytes = [0; HEADERS_MAX];
    let mut length = 0;
    for part in [packet.head, packet.body] {
        let taken = part.len().min(HEADERS_MAX - length);
        bytes[length..][..taken].copy_from_slice(&part[..taken]);
        length += taken;
    }
    let headers = &bytes[..length];
    let mut hasher = DefaultHasher::new();
    match network_flow(headers) {
        Some(flow) => flow.iter().for_each(|part| hasher.write(part)),
        None => hasher.write(headers.get(..2 * MAC_BYTES).unwrap_or(headers)),
    }
    hasher.finish()
}

/// Returns the addresses of an IP packet, and the ports that follow. `None` for another frame.
fn network_flow(frame: &[u8]) -> Option<[&[u8]; 2]> {
    let kind_at = 2 * MAC_BYTES;
    let has_tag = frame.get(kind_at..kind_at + 2)? == VLAN;
    let network_at = ETHERNET_BYTES + if has_tag { VLAN_BYTES } else { 0 };
    let network = frame.get(network_at..)?;
    let kind: [u8; 2] = frame[network_at - 2..network_at].try_into().ok()?;
    let (addresses, protocol, transport_at) = match kind {
        IPV4 => {
            let addresses = network.get(12..20)?;
            // "More fragments", or an offset. Only the first fragment has ports.
            let is_fragment = network[6] & 0x3f != 0 || network[7] != 0;
            let protocol = if is_fragment { 0 } else { network[9] };
            (addresses, protocol, usize::from(network[0] & 0x0f) * 4)
        }
        IPV6 => (network.get(8..40)?, network[6], IPV6_BYTES),
        _ => return None,
    };
    let ports = match protocol {
        TCP | UDP => network.get(transport_at..transport_at + 4).unwrap_or(&[]),
        _ => &[],
    };
    Some([addresses, ports])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::Offload;

    fn hash_of(head: &[u8], body: &[u8]) -> u64 {
        flow_hash(&Outgoing {
            head,
            body,
            offload: Offload::default(),
        })
    }

    /// A frame of UDP over IPv4 with a source port.
    fn datagram(port: u16) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&IPV4);
        frame[14] = 0x45;
        frame[23] = UDP;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame
    }

    #[test]
    fn flows_spread_evenly_and_a_flow_stays_together() {
        let mut pairs = [0; 4];
        for port in 0..1024 {
            let mut frame = datagram(port);
            let hash = hash_of(&frame, &[]);
            // Neither the rest of the frame nor the place of the headers matters.
            frame[50] = 7;
            assert_eq!(hash_of(&frame, &[]), hash);
            assert_eq!(hash_of(&frame[..20], &frame[20..]), hash);
            let mut tagged = frame.clone();
            tagged.splice(12..12, [0x81, 0, 0, 9]);
            assert_eq!(hash_of(&[], &tagged), hash);
            pairs[hash as usize % 4] += 1;
        }
        // Binomial distribution: 256 and five standard deviations of 14.
        assert!(
            pairs.iter().all(|count| (186..=326).contains(count)),
            "{pairs:?}"
        );
    }

    #[test]
    fn fragments_and_packets_without_ports_of_two_addresses_are_one_flow() {
        for (at, value) in [(20, 0x20), (21, 1), (23, 1)] {
            let hashes = [1, 2].map(|port| {
                let mut frame = datagram(port);
                frame[at] = value;
                hash_of(&frame, &[])
            });
            assert_eq!(hashes[0], hashes[1]);
        }
        let arp = |last| {
            let mut frame = vec![0; 60];
            frame[12..14].copy_from_slice(&[0x08, 0x06]);
            frame[41] = last;
            frame
        };
        assert_eq!(hash_of(&arp(1), &[]), hash_of(&arp(2), &[]));
    }

    #[test]
    fn connections_over_ipv6_differ_by_their_ports() {
        let segment = |port| {
            let mut frame = vec![0; 80];
            frame[12..14].copy_from_slice(&IPV6);
            frame[20] = TCP;
            frame[55] = port;
            frame
        };
        assert_ne!(hash_of(&segment(1), &[]), hash_of(&segment(2), &[]));
    }

    proptest! {
        /// Headers of every kind, cut off anywhere and split anywhere.
        #[test]
        fn any_bytes_have_a_flow(
            mut frame in proptest::collection::vec(any::<u8>(), 0..100),
            kinds in proptest::collection::vec(prop_oneof![Just(IPV4), Just(IPV6), Just(VLAN)], 2),
            protocol in prop_oneof![Just(TCP), Just(UDP), any::<u8>()],
            split in any::<prop::sample::Index>(),
        ) {
            for (at, bytes) in [(12, &kinds[0][..]), (16, &kinds[1][..]), (23, &[protocol][..])] {
                if let Some(place) = frame.get_mut(at..at + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
            let (head, body) = frame.split_at(split.index(frame.len() + 1));
            prop_assert_eq!(hash_of(head, body), hash_of(&[], &frame));
        }
    }
}
