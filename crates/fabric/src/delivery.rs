//! Frames that leave for an interface. Consecutive frames of one super-frame are joined under new
//! headers.
use std::collections::VecDeque;

use hakaru_units::Time;

use crate::headers;
use crate::packet::{ETHERNET_BYTES, Segmentation};
use crate::train::{OutFrame, Train};

/// Maximum offset of the end of the IP header, with options and tag, bytes.
const IP_BYTES_MAX: usize = 18 + 60;

/// Frames waiting to be written to one interface.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    waiting: VecDeque<OutFrame>,
    bytes: u64,
}

impl Delivery {
    /// Adds frames that arrive at `at` and leave with VLAN tag `tag`.
    pub(crate) fn push(&mut self, at: Time, train: Train, tag: Option<u16>) {
        self.bytes += train.bytes();
        // A frame may be reported before others that arrive earlier.
        let place = self.waiting.partition_point(|frame| frame.due <= at);
        let due = at;
        self.waiting.insert(place, OutFrame { train, tag, due });
    }

    /// Returns the number of bytes of the waiting frames.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the instant at which the next frame arrives.
    pub(crate) fn due(&self) -> Option<Time> {
        self.waiting.front().map(|frame| frame.due)
    }

    /// Removes the next frame, with the frames of its super-frame that follow it and arrive by
    /// `until`. Frames that arrive later are separate, because joined frames leave together.
    pub(crate) fn pop(&mut self, until: Time) -> Option<OutFrame> {
        let mut front = self.waiting.pop_front()?;
        self.bytes -= front.train.bytes();
        while let Some(next) = self.waiting.front()
            && next.due <= until
            && next.tag == front.tag
            && front.train.is_followed_by(&next.train)
        {
            self.bytes -= next.train.bytes();
            front.train.count += next.train.count;
            self.waiting.pop_front();
        }
        Some(front)
    }
}

impl OutFrame {
    /// Returns the instant at which the frame should leave, which is the arrival of its first
    /// frames.
    #[must_use]
    pub const fn due(&self) -> Time {
        self.due
    }

    /// Returns the number of bytes of its frames, including FCS.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.train.bytes()
    }

    /// Returns the segmentation that the interface has to perform. `None` for a single frame.
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

    /// Returns whether the frames are UDP datagrams.
    #[must_use]
    pub fn is_udp(&self) -> bool {
        self.train.packet.is_udp()
    }

    /// Returns the position of the missing L4 checksum, as in [`crate::Packet::new`]. `None` if the
    /// checksum is filled in.
    #[must_use]
    pub fn checksum(&self) -> Option<(u16, u16)> {
        let (start, offset) = self.train.packet.checksum()?;
        if self.train.corrupt.is_some() {
            return None;
        }
        Some(((i32::from(start) + self.tag_shift()) as u16, offset))
    }

    /// Emits the Ethernet frame or super-frame, without FCS, in two parts: `head`, which is cleared
    /// first, and the returned body. The body refers to the packet and is not copied.
    pub fn emit<'a>(&'a self, head: &mut Vec<u8>) -> &'a [u8] {
        head.clear();
        let Train {
            packet,
            first,
            count,
            marked,
            corrupt,
            hop,
            ..
        } = &self.train;
        let mut body = packet.bytes();
        if *count < packet.frames()
            && let Some(cut) = packet.segmentation()
        {
            head.extend_from_slice(&body[..cut.header_bytes.into()]);
            body = &body[packet.payload_of(*first, *count)];
            let last = first + count == packet.frames();
            headers::cut(head, body.len(), *first, cut.payload_bytes, last);
            // A missing checksum is filled in by the side that segments. One that is filled in
            // covers the entire super-frame, so this part needs its own.
            if packet.checksum().is_none()
                && let Some((start, offset)) = headers::checksum_at(head)
            {
                head.extend_from_slice(body);
                body = &[];
                headers::fill_checksum(head, start, offset);
            }
        } else if *marked || hop.is_some() || self.tag != packet.tag() {
            let (front, rest) = body.split_at(body.len().min(IP_BYTES_MAX));
            head.extend_from_slice(front);
            body = rest;
        }
        if *marked {
            headers::mark(head);
        }
        if let Some(hop) = hop {
            hop.apply(head);
        }
        if let Some(draw) = corrupt {
            head.extend_from_slice(body);
            body = &[];
            self.corrupt(head, *draw);
        }
        if self.tag != packet.tag() {
            headers::set_tag(head, self.tag);
        }
        body
    }

    /// Returns the frames of a super-frame one by one, for a receiver that accepts no super-frames.
    pub fn singles(&self) -> impl Iterator<Item = OutFrame> + '_ {
        let mut rest = self.train.clone();
        core::iter::from_fn(move || {
            (rest.count > 0).then(|| OutFrame {
                train: rest.take_one(),
                tag: self.tag,
                due: self.due,
            })
        })
    }

    /// Emits a single frame, without FCS, into `bytes`, which is cleared first. Its checksums are
    /// filled in.
    ///
    /// # Panics
    /// In debug builds, if the frame is a super-frame.
    pub fn emit_finished(&self, bytes: &mut Vec<u8>) {
        debug_assert_eq!(
            self.train.count, 1,
            "a super-frame has no checksum of its own"
        );
        let body = self.emit(bytes);
        bytes.extend_from_slice(body);
        if let Some((start, offset)) = self.checksum() {
            headers::fill_checksum(bytes, start.into(), offset.into());
        }
    }

    /// Flips one bit of the payload, which the random number `draw` selects.
    fn corrupt(&self, frame: &mut [u8], draw: u32) {
        let packet = &self.train.packet;
        // A checksum computed later would cover up the flipped bit.
        if let Some((start, offset)) = packet.checksum() {
            headers::fill_checksum(frame, start.into(), offset.into());
        }
        let header = packet
            .segmentation()
            .map_or(ETHERNET_BYTES, |cut| cut.header_bytes.into());
        let bits = frame.len().saturating_sub(header) * 8;
        if let Some(bit) = (draw as usize).checked_rem(bits) {
            frame[header + bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Returns the number of bytes by which the headers are longer than those of the packet.
    fn tag_shift(&self) -> i32 {
        4 * (i32::from(self.tag.is_some()) - i32::from(self.train.packet.tag().is_some()))
    }
}
