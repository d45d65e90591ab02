//! The send queue of a connection, as pieces for one `writev`: headers, buffers, and memory of LUs
//! that is sent without a copy.
//!
//! [`SendQueue`] keeps headers, small payloads and padding of many PDUs in one arena. Data that a
//! command reads in place is a payload of the queue. It consists of an LU and a range, whose memory
//! the shell passes to the kernel.
//!
//! **No block is torn.** A write may change an LU between two `writev`s. When the kernel accepts
//! only part of a logical block, [`Transmit::advance`] copies the rest of that block at once and
//! sends the copy. The storage keeps memory that is lent to the kernel ([`Transmit::lend`])
//! unchanged until it comes back.

use hakaru_scsi_device::Lent;
use hakaru_send_queue::{Payload, Piece, SendQueue};
use std::collections::VecDeque;

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// A range of an LU. `length_bytes` is at least 1, and the range lies within the LU.
    Lu {
        /// Logical unit number.
        lun: u8,
        /// First byte.
        offset_bytes: u64,
        /// Length, bytes.
        length_bytes: u32,
    },
}

/// Bytes that are sent in place.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A range of an LU.
    Lu { lun: u8, offset: u64, length: u32 },
    /// Part of the oldest buffer. No part of that buffer follows the `last` one.
    Buffer { start: u32, length: u32, last: bool },
}

impl Payload for Source {
    fn remaining(&self) -> usize {
        let (Self::Lu { length, .. } | Self::Buffer { length, .. }) = *self;
        length as usize
    }

    fn advance(&mut self, sent: usize) {
        match self {
            Self::Lu { offset, length, .. } => {
                *offset += sent as u64;
                *length -= sent as u32;
            }
            Self::Buffer { start, length, .. } => {
                *start += sent as u32;
                *length -= sent as u32;
            }
        }
    }
}

/// The send queue of a connection.
#[derive(Debug, Default)]
pub struct Transmit {
    /// Pending bytes other than `lent_bytes`.
    queue: SendQueue<Source>,
    /// Buffers that `Source::Buffer` refers to, oldest first. The `last` part retires the first
    /// buffer.
    buffers: VecDeque<Vec<u8>>,
    /// Bytes that precede `queue`: lent to the kernel, not yet accepted by the socket.
    lent_bytes: u64,
    /// Bytes of `buffers`.
    buffer_bytes: usize,
}

impl Transmit {
    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending_bytes() == 0
    }

    /// Returns the number of pending bytes that were lent to the kernel. They precede all
    /// [`Self::segments`].
    #[must_use]
    pub fn lent_bytes(&self) -> u64 {
        self.lent_bytes
    }

    /// Whether memory of an LU is in the queue.
    pub(crate) fn names_lu(&self, number: u8) -> bool {
        self.queue
            .payloads()
            .any(|source| matches!(source, Source::Lu { lun, .. } if *lun == number))
    }

    /// Returns the number of bytes to send.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.queue.pending_bytes() as u64 + self.lent_bytes
    }

    /// Returns the memory that the queue itself holds, bytes. Ranges of LUs do not count.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.queue.copied_bytes() + self.buffer_bytes
    }

    /// Returns the pieces in order, after the lent bytes. Pass any number of them to `writev`, then
    /// pass the number of bytes sent to [`crate::Target::handle_transmitted`].
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let mut buffer = 0;
        self.queue.pieces().map(move |piece| match piece {
            Piece::Bytes(bytes) => Segment::Bytes(bytes),
            Piece::Payload(&Source::Lu {
                lun,
                offset,
                length,
            }) => Segment::Lu {
                lun,
                offset_bytes: offset,
                length_bytes: length,
            },
            Piece::Payload(&Source::Buffer {
                start,
                length,
                last,
            }) => {
                let bytes = &self.buffers[buffer][start as usize..(start + length) as usize];
                buffer += usize::from(last);
                Segment::Bytes(bytes)
            }
        })
    }

    /// Appends a header.
    pub(crate) fn push_header(&mut self, header: &[u8; 48]) {
        self.queue.push_bytes(header);
    }

    /// Appends bytes.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.queue.push_bytes(bytes);
    }

    /// Appends a range of an LU.
    pub(crate) fn push_lu(&mut self, lun: u8, offset: u64, length: u32) {
        self.queue.push_payload(Source::Lu {
            lun,
            offset,
            length,
        });
    }

    /// Takes ownership of a buffer; [`Self::push_buffer_part`] then appends parts of it.
    pub(crate) fn adopt_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer_bytes += buffer.len();
        self.buffers.push_back(buffer);
    }

    /// Returns the buffer adopted last.
    pub(crate) fn newest_buffer(&self) -> &[u8] {
        self.buffers.back().map_or(&[], Vec::as_slice)
    }

    /// Appends part of the buffer adopted last. `last` is true if no more parts of the buffer
    /// follow.
    pub(crate) fn push_buffer_part(&mut self, start: u32, length: u32, last: bool) {
        self.queue.push_payload(Source::Buffer {
            start,
            length,
            last,
        });
    }

    /// Marks the first `length` bytes of the first piece, a range of an LU, as lent to the kernel,
    /// which has still to send them. `block_bytes` and `read_lu` are as for [`Self::advance`].
    ///
    /// # Panics
    /// If the queue does not begin with a range of an LU of at least that length.
    pub(crate) fn lend(
        &mut self,
        length: u32,
        block_bytes: impl Fn(u8) -> u32,
        read_lu: &mut dyn FnMut(u8, u64, &mut [u8]),
    ) -> Lent {
        let Some(&Source::Lu {
            lun,
            offset,
            length: available,
        }) = self.queue.front_payload()
        else {
            panic!("only memory of an LU is lent");
        };
        assert!(
            length <= available,
            "only memory at the front of the queue is lent"
        );
        self.lent_bytes += u64::from(length);
        let cut = self.queue.advance(length as usize, drop).copied();
        self.copy_rest_of_block(cut, block_bytes, read_lu);
        Lent {
            lun,
            offset_bytes: offset,
            length_bytes: length.into(),
        }
    }

    /// Removes the first `sent` bytes. Lent bytes precede all others. `block_bytes` returns the
    /// block length of an LU. `read_lu` copies from an LU. It is called once if the cut lies within
    /// a logical block. Buffers that were sent to their end go to `retired`.
    pub(crate) fn advance(
        &mut self,
        sent: u64,
        block_bytes: impl Fn(u8) -> u32,
        read_lu: &mut dyn FnMut(u8, u64, &mut [u8]),
        retired: &mut Vec<Vec<u8>>,
    ) {
        let lent_sent = sent.min(self.lent_bytes);
        self.lent_bytes -= lent_sent;
        let Self {
            queue,
            buffers,
            buffer_bytes,
            ..
        } = self;
        let cut = queue.advance((sent - lent_sent) as usize, |source| {
            if let Source::Buffer { last: true, .. } = source
                && let Some(buffer) = buffers.pop_front()
            {
                *buffer_bytes -= buffer.len();
                retired.push(buffer);
            }
        });
        let cut = cut.copied();
        self.copy_rest_of_block(cut, block_bytes, read_lu);
    }

    /// Replaces the rest of the logical block at the beginning of the range `cut`, which is first
    /// in the queue, by a copy.
    fn copy_rest_of_block(
        &mut self,
        cut: Option<Source>,
        block_bytes: impl Fn(u8) -> u32,
        read_lu: &mut dyn FnMut(u8, u64, &mut [u8]),
    ) {
        let Some(Source::Lu {
            lun,
            offset,
            length,
        }) = cut
        else {
            return;
        };
        let block = u64::from(block_bytes(lun));
        let into_block = offset % block;
        if into_block == 0 {
            return;
        }
        let rest = ((block - into_block) as u32).min(length);
        let mut copy = vec![0; rest as usize];
        read_lu(lun, offset, &mut copy);
        self.queue.advance(rest as usize, drop);
        self.buffer_bytes += copy.len();
        self.buffers.push_front(copy);
        self.queue.push_front_payload(Source::Buffer {
            start: 0,
            length: rest,
            last: true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an LU whose byte at offset n is n mod 251.
    fn lu(_: u8, offset: u64, out: &mut [u8]) {
        for (i, b) in out.iter_mut().enumerate() {
            *b = ((offset + i as u64) % 251) as u8;
        }
    }

    fn drain(t: &Transmit) -> Vec<u8> {
        let mut out = Vec::new();
        for s in t.segments() {
            match s {
                Segment::Bytes(b) => out.extend_from_slice(b),
                Segment::Lu {
                    lun,
                    offset_bytes,
                    length_bytes,
                } => {
                    let start = out.len();
                    out.resize(start + length_bytes as usize, 0);
                    lu(lun, offset_bytes, &mut out[start..]);
                }
            }
        }
        out
    }

    fn filled() -> Transmit {
        let mut t = Transmit::default();
        t.push_header(&[1; 48]);
        t.push_bytes(&[2; 4]);
        t.push_lu(0, 1024, 1536);
        t.adopt_buffer((0..100).collect());
        t.push_buffer_part(0, 60, false);
        t.push_bytes(&[3; 4]);
        t.push_buffer_part(60, 40, true);
        t.push_header(&[4; 48]);
        t
    }

    #[test]
    fn every_way_of_cutting_the_queue_sends_the_same_bytes() {
        let whole = drain(&filled());
        for step in [1, 7, 48, 52, 100, 512, 513, 2000] {
            let mut t = filled();
            let mut out = Vec::new();
            let mut retired = Vec::new();
            while !t.is_empty() {
                let bytes = drain(&t);
                let n = bytes.len().min(step);
                out.extend_from_slice(&bytes[..n]);
                t.advance(n as u64, |_| 512, &mut lu, &mut retired);
            }
            assert_eq!(out, whole, "cut every {step} bytes");
            assert_eq!((t.pending_bytes(), t.held_bytes()), (0, 0));
        }
    }

    #[test]
    fn lent_memory_is_sent_before_the_rest_and_the_block_at_its_end_is_copied() {
        let mut t = Transmit::default();
        t.push_lu(3, 1024, 2048);
        t.push_header(&[1; 48]);
        let lent = t.lend(1000, |_| 512, &mut lu);
        assert_eq!(
            (lent.lun, lent.offset_bytes, lent.length_bytes),
            (3, 1024, 1000)
        );
        let segments: Vec<_> = t.segments().collect();
        assert!(matches!(segments[0], Segment::Bytes(b) if b.len() == 24));
        assert!(matches!(
            segments[1],
            Segment::Lu {
                length_bytes: 1024,
                ..
            }
        ));
        assert_eq!((t.lent_bytes(), t.pending_bytes()), (1000, 2096));
        let rest = drain(&t);
        t.advance(900, |_| 512, &mut lu, &mut Vec::new());
        assert_eq!(drain(&t), rest);
        t.advance(110, |_| 512, &mut lu, &mut Vec::new());
        assert_eq!(drain(&t), rest[10..]);
        assert_eq!(t.lent_bytes(), 0);
        t.advance(1086, |_| 512, &mut lu, &mut Vec::new());
        assert!(t.is_empty());
    }

    #[test]
    fn a_queue_that_holds_only_lent_memory_is_not_empty() {
        let mut t = Transmit::default();
        t.push_lu(0, 0, 512);
        t.lend(512, |_| 512, &mut lu);
        assert!(!t.is_empty() && t.segments().count() == 0);
        t.advance(512, |_| 512, &mut lu, &mut Vec::new());
        assert!(t.is_empty());
    }

    #[test]
    fn a_block_cut_in_the_middle_is_finished_from_a_copy() {
        let mut t = Transmit::default();
        t.push_lu(0, 0, 1024);
        t.advance(100, |_| 512, &mut lu, &mut Vec::new());
        let segments: Vec<_> = t.segments().collect();
        assert!(matches!(segments[0], Segment::Bytes(b) if b.len() == 412));
        assert_eq!(
            segments[1],
            Segment::Lu {
                lun: 0,
                offset_bytes: 512,
                length_bytes: 512
            }
        );
    }
}
