//! Trains, which are consecutive frames of one packet that travel together.
use std::sync::Arc;

use hakaru_units::Time;

use crate::hop::Hop;
use crate::packet::{FRAME_BYTES_MIN, Packet};

/// Length of an 802.1Q tag.
pub(crate) const TAG_BYTES: u32 = 4;
/// Length of preamble, start delimiter and the gap to the next frame.
const GAP_BYTES: u32 = 20;

/// Consecutive frames of one packet that travel together.
#[derive(Clone, Debug)]
pub(crate) struct Train {
    pub(crate) packet: Arc<Packet>,
    /// Index of the first frame in the packet.
    pub(crate) first: u32,
    /// Number of frames, at least 1.
    pub(crate) count: u32,
    /// VLAN of the train. 0 before it reaches a switch.
    pub(crate) vlan: u16,
    /// Whether the frames carry an 802.1Q tag on the current link.
    tagged: bool,
    /// Whether the frames are marked "congestion experienced" (ECN).
    pub(crate) marked: bool,
    /// Random number that selects the bit to flip in the payload, if any.
    pub(crate) corrupt: Option<u32>,
    /// Changes made by routers, if any.
    pub(crate) hop: Option<Hop>,
}

impl Train {
    /// Creates a train of all frames of a packet.
    pub(crate) fn whole(packet: Arc<Packet>) -> Train {
        Train {
            first: 0,
            count: packet.frames(),
            tagged: packet.tag().is_some(),
            packet,
            vlan: 0,
            marked: false,
            corrupt: None,
            hop: None,
        }
    }

    /// Returns the Ethernet address of the receiver.
    pub(crate) fn destination(&self) -> [u8; 6] {
        let bytes = self.packet.bytes().first_chunk();
        self.hop
            .map_or(*bytes.unwrap_or(&[0; 6]), |hop| hop.destination)
    }

    /// Returns the Ethernet address of the sender.
    pub(crate) fn source(&self) -> [u8; 6] {
        let bytes = self.packet.bytes()[6..].first_chunk();
        self.hop.map_or(*bytes.unwrap_or(&[0; 6]), |hop| hop.source)
    }

    /// Returns the headers of the first frame. For a packet of a single frame, returns up to 128
    /// bytes.
    pub(crate) fn first_headers(&self) -> Vec<u8> {
        let packet = &self.packet;
        let Some(cut) = packet.segmentation() else {
            let length = packet.bytes().len().min(128);
            return packet.bytes()[..length].to_vec();
        };
        let mut head = packet.bytes()[..cut.header_bytes.into()].to_vec();
        let payload = packet.payload_of(self.first, 1).len();
        let last = self.first + 1 == packet.frames();
        crate::headers::cut(&mut head, payload, self.first, cut.payload_bytes, last);
        head
    }

    /// Returns whether the frames carry an 802.1Q tag on the current link.
    pub(crate) const fn is_tagged(&self) -> bool {
        self.tagged
    }

    /// Sets whether the frames carry an 802.1Q tag on the current link.
    pub(crate) const fn set_tagged(&mut self, tagged: bool) {
        self.tagged = tagged;
    }

    /// Returns the number of bytes of the frames, including FCS and, if they carry one, the tag.
    pub(crate) fn bytes(&self) -> u64 {
        let last = self.first + self.count - 1;
        u64::from(self.frame_bytes(self.first)) * u64::from(self.count - 1)
            + u64::from(self.frame_bytes(last))
    }

    /// Returns the length of frame `index` of the packet on the current link.
    fn frame_bytes(&self, index: u32) -> u32 {
        let bytes = self.packet.frame_bytes(index);
        match (self.packet.tag().is_some(), self.tagged) {
            (false, true) => bytes + TAG_BYTES,
            // A frame that was padded with its tag needs more padding without it.
            (true, false) if bytes >= FRAME_BYTES_MIN + TAG_BYTES => bytes - TAG_BYTES,
            (true, false) => FRAME_BYTES_MIN,
            _ => bytes,
        }
    }

    /// Returns the number of bytes on the wire, including preambles and gaps.
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.bytes() + u64::from(GAP_BYTES) * u64::from(self.count)
    }

    /// Returns the length of the longest frame, which is the first one.
    pub(crate) fn longest_bytes(&self) -> u32 {
        self.frame_bytes(self.first)
    }

    /// Removes and returns the first frame. The train keeps the rest, which may be empty.
    pub(crate) fn take_one(&mut self) -> Train {
        let front = Train {
            count: 1,
            ..self.clone()
        };
        self.first += 1;
        self.count -= 1;
        front
    }

    /// Returns whether `next` directly follows these frames and underwent the same changes.
    pub(crate) fn is_followed_by(&self, next: &Train) -> bool {
        Arc::ptr_eq(&self.packet, &next.packet)
            && self.first + self.count == next.first
            && (self.vlan, self.marked, self.hop) == (next.vlan, next.marked, next.hop)
            && self.corrupt.is_none()
            && next.corrupt.is_none()
    }

    /// Removes and returns the first `count` frames. The train keeps the rest.
    pub(crate) fn take_front(&mut self, count: u32) -> Train {
        debug_assert!(count > 0 && count < self.count);
        let front = Train {
            count,
            ..self.clone()
        };
        self.first += count;
        self.count -= count;
        front
    }
}

/// Consecutive frames of one packet that leave for an interface.
#[derive(Clone, Debug)]
pub struct OutFrame {
    pub(crate) train: Train,
    /// VLAN tag, if any.
    pub(crate) tag: Option<u16>,
    /// Instant at which the first frames arrive.
    pub(crate) due: Time,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Segmentation;

    fn super_frame(payload: usize) -> Packet {
        let cut = Segmentation {
            header_bytes: 66,
            payload_bytes: 1448,
        };
        Packet::new(vec![0; 66 + payload], Some(cut), None).unwrap()
    }

    #[test]
    fn a_super_frame_has_as_many_bytes_as_its_frames() {
        let packet = super_frame(1448 * 3 + 100);
        assert_eq!(packet.frames(), 4);
        let all = Train::whole(Arc::new(packet.clone()));
        let one_by_one: u32 = (0..4).map(|i| packet.frame_bytes(i)).sum();
        assert_eq!(all.bytes(), u64::from(one_by_one));
        assert_eq!(one_by_one, 3 * (66 + 1448 + 4) + 66 + 100 + 4);
        assert_eq!(all.wire_bytes(), u64::from(one_by_one) + 4 * 20);
    }

    #[test]
    fn a_train_splits_without_loss() {
        let mut rest = Train::whole(Arc::new(super_frame(1448 * 10 + 1)));
        let all = rest.bytes();
        let front = rest.take_front(4);
        assert_eq!(
            (front.first, front.count, rest.first, rest.count),
            (0, 4, 4, 7)
        );
        assert_eq!(front.bytes() + rest.bytes(), all);
    }
}
