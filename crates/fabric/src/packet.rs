//! Packets as hosts send them, and the frames that they represent.
//!
//! With segmentation offload a host sends up to 64 KiB of TCP payload as one *super-frame*; on a
//! wire it would be many frames. A [`Packet`] stays in one piece, but the fabric counts, queues and
//! drops its frames: see [`crate::train`].
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

/// Frame check sequence.
const FCS_BYTES: u32 = 4;
/// Length to which shorter frames are padded.
pub(crate) const FRAME_BYTES_MIN: u32 = 64;
/// Ethernet header without tag.
pub(crate) const ETHERNET_BYTES: usize = 14;

/// Segmentation of a super-frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Ethernet, IP and TCP (or UDP) headers, which every frame repeats, bytes.
    pub header_bytes: u16,
    /// Payload of each frame but the last, bytes, at least 1.
    pub payload_bytes: u16,
}

/// A packet from an interface: an Ethernet frame without FCS, or a super-frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    bytes: Vec<u8>,
    segmentation: Option<Segmentation>,
    frames: u32,
    /// Lengths with FCS of the first frame (all but the last are as long) and of the last.
    frame_bytes: [u32; 2],
    tag: Option<u16>,
    /// Receives the bytes when the packet is dropped.
    bin: Option<Bin>,
    /// `(start, offset)` of the L4 checksum as virtio-net gives them, if it is not filled in.
    checksum: Option<(u16, u16)>,
}

/// Memory of packets that have left the fabric, for reuse.
#[derive(Clone, Debug, Default)]
pub struct Bin(Arc<Mutex<Vec<Vec<u8>>>>);

impl Bin {
    /// Takes the memory of one packet.
    #[must_use]
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut bin = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bin.pop()
    }
}

impl PartialEq for Bin {
    /// Returns another handle of the same bin.
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
    /// The packet is shorter than an Ethernet header, or than the headers that the segmentation
    /// declares.
    #[error("a packet of {0} bytes is shorter than its headers")]
    Short(usize),
    /// The declared checksum field is not in the headers.
    #[error("the missing checksum is not in the headers")]
    Checksum,
    /// A frame has no payload.
    #[error("the frames of a super-frame have no payload")]
    NoPayload,
    /// The super-frame is neither TCP nor UDP.
    #[error("a super-frame is neither TCP nor UDP")]
    NotCut,
}

impl Packet {
    /// Creates a packet from `bytes`, which start with the Ethernet header. `checksum`: the start
    /// of the checksummed bytes and the offset of the L4 checksum, both from the start of the
    /// packet, if it is not filled in yet.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn new(
        bytes: Vec<u8>,
        segmentation: Option<Segmentation>,
        checksum: Option<(u16, u16)>,
    ) -> Result<Packet, PacketError> {
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
        // Every frame of a super-frame has the header, even the shortest. A tag may be inserted or
        // removed before it.
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

    /// Returns the memory to `bin` when the packet is dropped.
    #[must_use]
    pub fn reuse(mut self, bin: &Bin) -> Packet {
        self.bin = Some(bin.clone());
        self
    }

    /// Creates a super-frame of TCP or UDP with `payload_bytes` per frame. The headers are parsed
    /// for their length.
    ///
    /// # Errors
    /// The packet is neither IPv4 nor IPv6, or as for [`Packet::new`].
    pub fn super_frame(
        bytes: Vec<u8>,
        payload_bytes: u16,
        checksum: Option<(u16, u16)>,
    ) -> Result<Packet, PacketError> {
        let header_bytes = crate::headers::payload_at(&bytes).ok_or(PacketError::NotCut)? as u16;
        Packet::new(
            bytes,
            Some(Segmentation {
                header_bytes,
                payload_bytes,
            }),
            checksum,
        )
    }

    /// Returns the bytes as received from the interface.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of frames that the packet represents on a wire.
    #[must_use]
    pub const fn frames(&self) -> u32 {
        self.frames
    }

    /// Returns the segmentation of the packet.
    #[must_use]
    pub const fn segmentation(&self) -> Option<Segmentation> {
        self.segmentation
    }

    /// Returns the position of the missing L4 checksum.
    #[must_use]
    pub const fn checksum(&self) -> Option<(u16, u16)> {
        self.checksum
    }

    /// Returns the range of the payload of `count` frames from `first`; everything after the
    /// Ethernet header if there is only one frame.
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

    /// Length of frame `index` with FCS, bytes.
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

    /// Returns whether the sender supports ECN: one of the ECN bits of the IP header is set (RFC
    /// 3168).
    pub(crate) fn allows_marks(&self) -> bool {
        crate::headers::ecn(&self.bytes).is_some_and(|bits| bits != 0)
    }

    /// Returns the VLAN of an 802.1Q tag; 0 (a priority tag) counts as none.
    pub(crate) const fn tag(&self) -> Option<u16> {
        self.tag
    }
}

fn tag(bytes: &[u8]) -> Option<u16> {
    match bytes.get(12..16) {
        Some(&[0x81, 0x00, high, low]) => {
            Some(u16::from_be_bytes([high, low]) & 0xfff).filter(|vlan| *vlan != 0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_missing_where_every_frame_has_its_place() {
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
