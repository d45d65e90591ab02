//! Frames on their way out to an interface: neighbours of one super-frame together, with headers of their own.
use std::collections::VecDeque;

use crate::headers;
use crate::packet::{OutFrame, Segmentation, Train};

/// Payload that one super-frame takes at most: what an IP packet may be long, less headers.
const PAYLOAD_BYTES_MAX: u64 = 64_000;

/// What waits to be written to one interface.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    waiting: VecDeque<OutFrame>,
}

impl Delivery {
    /// `tag`: what the frames are to be tagged with.
    pub(crate) fn push(&mut self, train: Train, tag: Option<u16>) {
        if let Some(back) = self.waiting.back_mut()
            && back.tag == tag
            && back.train.goes_on_in(&train)
            && back.train.bytes() + train.bytes() <= PAYLOAD_BYTES_MAX
        {
            back.train.count += train.count;
        } else {
            self.waiting.push_back(OutFrame { train, tag });
        }
    }

    pub(crate) fn pop(&mut self) -> Option<OutFrame> {
        self.waiting.pop_front()
    }
}

impl OutFrame {
    /// The packet as it came in, if it goes out just so: nothing needs to be copied.
    #[must_use]
    pub fn untouched(&self) -> Option<&[u8]> {
        let Train {
            packet,
            count,
            marked,
            corrupt,
            ..
        } = &self.train;
        let whole =
            *count == packet.frames() && !marked && corrupt.is_none() && self.tag == packet.tag();
        whole.then(|| packet.bytes())
    }

    /// How the interface is to cut it; `None`: it is one frame.
    #[must_use]
    pub fn segmentation(&self) -> Option<Segmentation> {
        let cut = self
            .train
            .packet
            .segmentation()
            .filter(|_| self.train.count > 1)?;
        let header = i32::from(cut.header_bytes) + self.tag_shift();
        Some(Segmentation {
            header_bytes: header as u16,
            ..cut
        })
    }

    /// Where its L4 checksum is missing, as in [`crate::Packet::new`]; `None`: it is filled in.
    #[must_use]
    pub fn checksum(&self) -> Option<(u16, u16)> {
        let (start, offset) = self.train.packet.checksum()?;
        if self.train.corrupt.is_some() {
            return None;
        }
        Some(((i32::from(start) + self.tag_shift()) as u16, offset))
    }

    /// Appends the Ethernet frame, or super-frame, without FCS.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let Train {
            packet,
            first,
            count,
            marked,
            corrupt,
            ..
        } = &self.train;
        let begin = out.len();
        let payload = packet.payload_of(*first, *count);
        match packet.segmentation() {
            Some(cut) if *count < packet.frames() => {
                out.extend_from_slice(&packet.bytes()[..usize::from(cut.header_bytes)]);
                out.extend_from_slice(&packet.bytes()[payload]);
                headers::cut(
                    &mut out[begin..],
                    *first,
                    cut.payload_bytes,
                    first + count == packet.frames(),
                );
            }
            _ => out.extend_from_slice(packet.bytes()),
        }
        if *marked {
            headers::mark(&mut out[begin..]);
        }
        if let Some(draw) = corrupt {
            // A checksum that is computed later would hide it.
            if let Some((start, offset)) = packet.checksum() {
                headers::fill_checksum(&mut out[begin..], start.into(), offset.into());
            }
            let header = packet
                .segmentation()
                .map_or(crate::packet::ETHERNET_BYTES, |cut| cut.header_bytes.into());
            let bits = (out.len() - begin).saturating_sub(header) * 8;
            if let Some(bit) = (*draw as usize).checked_rem(bits) {
                out[begin + header + bit / 8] ^= 1 << (bit % 8);
            }
        }
        if self.tag != packet.tag() {
            let mut frame = out.split_off(begin);
            headers::set_tag(&mut frame, self.tag);
            out.append(&mut frame);
        }
    }

    /// By how many bytes its headers are longer than the packet's.
    fn tag_shift(&self) -> i32 {
        4 * (i32::from(self.tag.is_some()) - i32::from(self.train.packet.tag().is_some()))
    }
}
