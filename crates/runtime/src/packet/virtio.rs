//! `virtio_net_hdr`: offload metadata of a packet (virtio 1.2, section 5.1.6).
use std::mem::size_of;

use super::frame::{Cut, Offload, Outgoing};

/// Length of the header, bytes.
pub(crate) const HEADER_BYTES: usize = size_of::<VirtioHeader>();

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VirtioHeader {
    flags: u8,
    gso_type: u8,
    header_bytes: u16,
    gso_bytes: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

impl VirtioHeader {
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> VirtioHeader {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        VirtioHeader {
            flags: bytes[0],
            gso_type: bytes[1],
            header_bytes: word(2),
            gso_bytes: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    pub(crate) fn emit(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [
            self.header_bytes,
            self.gso_bytes,
            self.checksum_start,
            self.checksum_offset,
        ];
        for (to, word) in bytes[2..].as_chunks_mut::<2>().0.iter_mut().zip(words) {
            *to = word.to_ne_bytes();
        }
        bytes
    }

    /// Returns the offload of a packet after `tag_bytes` are inserted into its headers. `None` for
    /// a super-frame of an unsupported protocol.
    pub(crate) fn offload(self, tag_bytes: u16) -> Option<Offload> {
        let cut = |udp| Cut {
            udp,
            header_bytes: self.header_bytes.saturating_add(tag_bytes),
            payload_bytes: self.gso_bytes,
        };
        let segmentation = match self.gso_type & !GSO_ECN {
            0 => None,
            GSO_TCP4 | GSO_TCP6 => Some(cut(false)),
            GSO_UDP_L4 => Some(cut(true)),
            _ => return None,
        };
        let checksum = (self.flags & NEEDS_CHECKSUM != 0).then_some((
            self.checksum_start.saturating_add(tag_bytes),
            self.checksum_offset,
        ));
        Some(Offload {
            checksum,
            segmentation,
        })
    }

    pub(crate) fn of(packet: &Outgoing<'_>) -> VirtioHeader {
        let mut header = VirtioHeader::default();
        if let Some((start, offset)) = packet.offload.checksum {
            header.flags = NEEDS_CHECKSUM;
            (header.checksum_start, header.checksum_offset) = (start, offset);
        }
        if let Some(cut) = packet.offload.segmentation {
            let bytes = if packet.head.is_empty() {
                packet.body
            } else {
                packet.head
            };
            // The ethertype, which follows the tag if there is one, identifies IPv6.
            let kind = if bytes.get(12..14) == Some(&[0x81, 0]) {
                bytes.get(16..18)
            } else {
                bytes.get(12..14)
            };
            header.gso_type = match (cut.udp, kind) {
                (true, _) => GSO_UDP_L4,
                (false, Some(&[0x86, 0xdd])) => GSO_TCP6,
                (false, _) => GSO_TCP4,
            };
            (header.header_bytes, header.gso_bytes) = (cut.header_bytes, cut.payload_bytes);
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_emit_and_parse() {
        let cut = Cut {
            udp: false,
            header_bytes: 66,
            payload_bytes: 1448,
        };
        let offload = Offload {
            checksum: Some((34, 16)),
            segmentation: Some(cut),
        };
        let mut bytes = [0; 100];
        bytes[12] = 8;
        let of = |bytes: &[u8], offload| {
            VirtioHeader::of(&Outgoing {
                head: &[],
                body: bytes,
                offload,
            })
        };
        let header = of(&bytes, offload);
        assert_eq!((header.flags, header.gso_type), (NEEDS_CHECKSUM, GSO_TCP4));
        assert_eq!(VirtioHeader::parse(&header.emit()), header);
        assert_eq!(header.offload(0), Some(offload));
        bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(of(&bytes, offload).gso_type, GSO_TCP6);
        let datagrams = Offload {
            segmentation: Some(Cut { udp: true, ..cut }),
            ..offload
        };
        assert_eq!(of(&bytes, datagrams).offload(0), Some(datagrams));
        let other = VirtioHeader {
            gso_type: 3,
            ..header
        };
        assert_eq!(other.offload(0), None, "IP fragmentation is not supported");
        assert_eq!(VirtioHeader::default().offload(0), Some(Offload::default()));
    }

    #[test]
    fn an_inserted_tag_shifts_the_offsets_after_it() {
        let header = VirtioHeader {
            flags: NEEDS_CHECKSUM,
            gso_type: GSO_TCP4,
            header_bytes: 66,
            gso_bytes: 1448,
            checksum_start: 34,
            checksum_offset: 16,
        };
        let offload = header.offload(4).unwrap();
        assert_eq!(offload.checksum, Some((38, 16)));
        assert_eq!(offload.segmentation.unwrap().header_bytes, 70);
    }
}
