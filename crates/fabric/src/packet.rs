//! Packets as hosts send them, and the frames that they represent.
//!
//! With segmentation offload a host sends up to 64 KiB of TCP payload as one *super-frame*, which
//! on a wire would be many frames. A [`Packet`] stays in one piece, but the fabric counts, queues
//! and drops its frames (see [`crate::train`]).
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

/// Length of the frame check sequence.
const FCS_BYTES: u32 = 4;
/// Length to which shorter frames are padded, including FCS.
pub(crate) const FRAME_BYTES_MIN: u32 = 64;
/// Length of the Ethernet header without a tag.
pub(crate) const ETHERNET_BYTES: usize = 14;

/// Segmentation of a super-frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Ethernet, IP and TCP (or UDP) headers, which every frame repeats, bytes.
    pub header_bytes: u16,
    /// Payload of each frame except the last, bytes, at least 1.
    pub payload_bytes: u16,
}

/// A packet from an interface: an Ethernet frame without FCS, or a super-frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    bytes: Vec<u8>,
    segmentation: Option<Segmentation>,
    frames: u32,
    /// Lengths, including FCS, of all frames but the last, and of the last one.
    frame_bytes: [u32; 2],
    tag: Option<u16>,
    /// Bin that receives the memory when the packet is dropped.
    bin: Option<Bin>,
    /// Start of the bytes that the L4 checksum covers, and offset of the checksum from there.
    /// `None` if it is filled in.
    checksum: Option<(u16, u16)>,
}

/// Memory of packets that have left the fabric, for reuse.
#[derive(Clone, Debug, Default)]
pub struct Bin(Arc<Mutex<Vec<Vec<u8>>>>);

impl Bin {
    /// Removes and returns the memory of one packet, if there is any.
    #[must_use]
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut bin = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bin.pop()
    }
}

impl PartialEq for Bin {
    /// Returns whether both handles refer to the same bin.
    fn eq(&self, other: &Bin) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Bin {}

impl Drop for Packet {
    fn drop(&mut self) {
        if let Some(bin) = &self.bin {
            let bytes = core::mem::take(&mut self.bytes);
            let mut bin = bin.0.lock().unwrap_or_else(PoisonError::into_inner);
            bin.push(bytes);
        }
    }
}

/// Reason why bytes are not a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PacketError {
    /// The packet is shorter than an Ethernet header or than the declared headers.
    #[error("a packet of {0} bytes is shorter than its headers")]
    Short(usize),
    /// The declared checksum field is not within the headers.
    #[error("the checksum field is not within the headers")]
    Checksum,
    /// The declared payload per frame is 0, or the declared headers are shorter than Ethernet's.
    #[error("the frames of a super-frame have no payload")]
    NoPayload,
    /// The super-frame is neither TCP nor UDP.
    #[error("the super-frame is neither TCP nor UDP")]
    NotSegmentable,
}

impl Packet {
    /// Creates a packet from `bytes`, which start with the Ethernet header. `checksum` describes an
    /// L4 checksum that is not filled in: the offset of the first byte that it covers, and the
    /// offset of its field from that byte.
    ///
    /// A priority tag (VLAN 0) is removed, because the frame belongs to the same VLAN as one without
    /// a tag, and no queue here has priorities.
    ///
    /// # Errors
    /// The packet is shorter than its headers, its frames have no payload, or the checksum field is
    /// not within the headers.
    pub fn new(
        mut bytes: Vec<u8>,
        mut segmentation: Option<Segmentation>,
        mut checksum: Option<(u16, u16)>,
    ) -> Result<Packet, PacketError> {
        if tag(&bytes) == Some(0) {
            bytes.drain(12..16);
            // Offsets within the Ethernet header are refused below.
            if let Some(cut) = &mut segmentation {
                cut.header_bytes = cut.header_bytes.saturating_sub(4);
            }
            if let Some((start, _)) = &mut checksum {
                *start = start.saturating_sub(4);
            }
        }
        let length = bytes.len();
        if length < ETHERNET_BYTES {
            return Err(PacketError::Short(length));
        }
        let (mut frames, mut headers) = (1, length);
        if let Some(cut) = segmentation {
            headers = usize::from(cut.header_bytes);
            let payload = length
                .checked_sub(headers)
                .ok_or(PacketError::Short(length))?;
            if cut.payload_bytes == 0 || usize::from(cut.header_bytes) < ETHERNET_BYTES {
                return Err(PacketError::NoPayload);
            }
            frames = payload.div_ceil(usize::from(cut.payload_bytes)).max(1) as u32;
        }
        // The checksum must be in the headers, which every frame repeats, and after the Ethernet
        // header, because a tag may be inserted or removed there.
        let places = ETHERNET_BYTES..=headers;
        if checksum.is_some_and(|(start, offset)| {
            let start = usize::from(start);
            !places.contains(&start) || !places.contains(&(start + usize::from(offset) + 2))
        }) {
            return Err(PacketError::Checksum);
        }
        let mut packet = Packet {
            tag: tag(&bytes),
            bytes,
            segmentation,
            frames,
            frame_bytes: [0; 2],
            bin: None,
            checksum,
        };
        packet.frame_bytes = [0, frames - 1].map(|index| packet.measure(index));
        Ok(packet)
    }

    /// Makes the packet return its memory to `bin` when it is dropped.
    #[must_use]
    pub fn reuse(mut self, bin: &Bin) -> Packet {
        self.bin = Some(bin.clone());
        self
    }

    /// Creates a super-frame of TCP or UDP with `payload_bytes` per frame. Parses the headers for
    /// their length.
    ///
    /// # Errors
    /// The packet is not TCP or UDP over IP, or as for [`Packet::new`].
    pub fn super_frame(
        bytes: Vec<u8>,
        payload_bytes: u16,
        checksum: Option<(u16, u16)>,
    ) -> Result<Packet, PacketError> {
        let header_bytes =
            crate::headers::payload_at(&bytes).ok_or(PacketError::NotSegmentable)? as u16;
        Packet::new(
            bytes,
            Some(Segmentation {
                header_bytes,
                payload_bytes,
            }),
            checksum,
        )
    }

    /// Returns the bytes as received from the interface, without a priority tag.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of frames that the packet represents on a wire.
    #[must_use]
    pub const fn frames(&self) -> u32 {
        self.frames
    }

    /// Returns the segmentation of a super-frame. `None` for a single frame.
    #[must_use]
    pub const fn segmentation(&self) -> Option<Segmentation> {
        self.segmentation
    }

    /// Returns the position of the missing L4 checksum, as in [`Packet::new`]. `None` if it is
    /// filled in.
    #[must_use]
    pub const fn checksum(&self) -> Option<(u16, u16)> {
        self.checksum
    }

    /// Returns the range of the payload of `count` frames from `first` on. For a single frame this
    /// is everything after the Ethernet header.
    pub(crate) fn payload_of(&self, first: u32, count: u32) -> core::ops::Range<usize> {
        let Some(cut) = self.segmentation else {
            return ETHERNET_BYTES..self.bytes.len();
        };
        let (header, each) = (
            usize::from(cut.header_bytes),
            usize::from(cut.payload_bytes),
        );
        let begin = header + each * first as usize;
        begin..(begin + each * count as usize).min(self.bytes.len())
    }

    /// Returns the length of frame `index`, including FCS, bytes.
    pub(crate) const fn frame_bytes(&self, index: u32) -> u32 {
        self.frame_bytes[(index + 1 == self.frames) as usize]
    }

    fn measure(&self, index: u32) -> u32 {
        let bare = match self.segmentation {
            None => self.bytes.len(),
            Some(cut) => usize::from(cut.header_bytes) + self.payload_of(index, 1).len(),
        };
        (bare as u32 + FCS_BYTES).max(FRAME_BYTES_MIN)
    }

    /// Returns whether the packet represents UDP datagrams.
    pub(crate) fn is_udp(&self) -> bool {
        crate::headers::is_udp(&self.bytes)
    }

    /// Returns whether the frames may be marked: the ECN bits of the IP header are not 0 (RFC
    /// 3168).
    pub(crate) fn allows_marks(&self) -> bool {
        crate::headers::ecn(&self.bytes).is_some_and(|bits| bits != 0)
    }

    /// Returns the VLAN of the 802.1Q tag, which is not 0. `None` without a tag.
    pub(crate) const fn tag(&self) -> Option<u16> {
        self.tag
    }
}

fn tag(bytes: &[u8]) -> Option<u16> {
    match bytes.get(12..16) {
        Some(&[0x81, 0x00, high, low]) => Some(u16::from_be_bytes([high, low]) & 0xfff),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_checksum_must_be_in_the_headers_of_every_frame() {
        let cut = |header_bytes| {
            Some(Segmentation {
                header_bytes,
                payload_bytes: 100,
            })
        };
        let new =
            |cut, checksum| Packet::new(vec![0; 142], cut, Some(checksum)).map(|p| p.frames());
        assert_eq!(new(cut(42), (34, 6)), Ok(1));
        assert_eq!(new(cut(41), (34, 6)), Err(PacketError::Checksum));
        assert_eq!(new(None, (34, 106)), Ok(1));
        assert_eq!(new(None, (34, 107)), Err(PacketError::Checksum));
        assert_eq!(new(None, (13, 6)), Err(PacketError::Checksum));
        assert_eq!(new(None, (u16::MAX, u16::MAX)), Err(PacketError::Checksum));
    }

    #[test]
    fn a_priority_tag_is_removed_and_offsets_follow() {
        let mut bytes = vec![0_u8; 46];
        bytes[12..16].copy_from_slice(&[0x81, 0x00, 0xe0, 0x00]);
        bytes[16] = 8;
        let cut = Segmentation {
            header_bytes: 46,
            payload_bytes: 100,
        };
        bytes.extend([1; 150]);
        let packet = Packet::new(bytes.clone(), Some(cut), Some((38, 6))).unwrap();
        assert_eq!((packet.tag(), packet.frames()), (None, 2));
        assert_eq!((packet.bytes().len(), packet.bytes()[12]), (192, 8));
        assert_eq!(packet.segmentation().unwrap().header_bytes, 42);
        assert_eq!(packet.checksum(), Some((34, 6)));
        let short = Packet::new(bytes[..16].to_vec(), None, None);
        assert_eq!(short, Err(PacketError::Short(12)));
        let inside = Packet::new(bytes.clone(), None, Some((15, 6)));
        assert_eq!(inside, Err(PacketError::Checksum));
        bytes[15] = 7;
        assert_eq!(Packet::new(bytes, None, None).unwrap().tag(), Some(7));
    }

    #[test]
    fn short_frames_are_padded_on_the_wire() {
        assert_eq!(
            Packet::new(vec![0; 42], None, None).unwrap().frame_bytes(0),
            64
        );
        assert_eq!(
            Packet::new(vec![0; 1514], None, None)
                .unwrap()
                .frame_bytes(0),
            1518
        );
        assert_eq!(
            Packet::new(vec![0; 13], None, None),
            Err(PacketError::Short(13))
        );
    }
}
