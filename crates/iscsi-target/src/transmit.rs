//! What a connection has to send, as pieces for one `writev`: headers, and without a copy the LU's own memory.
//!
//! Headers, small payloads and padding of many PDUs lie one after another in one reusable arena; neighbours become one
//! piece. Data a command reads in place is only named (LU and range); the shell lends its memory to the kernel.
//!
//! **No block is torn.** A write may change an LU between two `writev`s. So when the kernel takes only part of a logical
//! block, the rest of that block is copied at once ([`Transmit::advance`]) and sent from the copy. What is lent to the kernel
//! rather than copied ([`Transmit::lend`]) the storage keeps as it is until it comes back.

use hakaru_scsi_device::Lent;
use std::collections::VecDeque;

/// One piece to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// These bytes of an LU. `length_bytes` is at least 1; the range lies within the LU.
    Lu {
        /// Which LU.
        lun: u8,
        /// First byte.
        offset_bytes: u64,
        /// How many.
        length_bytes: u32,
    },
}

/// As [`Segment`], owned. Arena pieces carry no position: they are consumed in the order they were appended.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Arena { length: u32 },
    Lu { lun: u8, offset: u64, length: u32 },
    Buffer { start: u32, length: u32, last: bool },
}

/// The queue.
#[derive(Debug, Default)]
pub struct Transmit {
    pieces: VecDeque<Piece>,
    arena: Vec<u8>,
    /// Bytes of the arena already sent.
    arena_sent: usize,
    /// Buffers that `Piece::Buffer`s point into, oldest first; the piece marked `last` retires the first.
    buffers: VecDeque<Vec<u8>>,
    /// Bytes to send, over all pieces and what is lent.
    pending_bytes: u64,
    /// Bytes before all pieces that the shell has lent to the kernel and the socket has not taken yet.
    lent_bytes: u64,
    /// Bytes of `buffers`.
    buffer_bytes: usize,
}

/// Above this much sent-but-not-reclaimed arena it is compacted, so that a queue that never runs empty stays small.
const COMPACT_BYTES: usize = 64 << 10;

impl Transmit {
    /// Nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending_bytes == 0
    }

    /// Of what is to be sent, bytes that were lent to the kernel: they come before all [`Self::segments`].
    #[must_use]
    pub fn lent_bytes(&self) -> u64 {
        self.lent_bytes
    }

    /// Whether part of an LU's memory is to be sent.
    pub(crate) fn names_lu(&self, number: u8) -> bool {
        let mut pieces = self.pieces.iter();
        pieces.any(|piece| matches!(piece, Piece::Lu { lun, .. } if *lun == number))
    }

    /// Bytes to send.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Memory held for what is to be sent, bytes: less than `pending_bytes` by what is sent in place.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.arena.len() - self.arena_sent + self.buffer_bytes
    }

    /// The pieces in order, after what is lent. Give as many as wanted to `writev`, then tell [`crate::Target::handle_transmitted`] how
    /// much of it was taken.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let mut arena = self.arena_sent;
        let mut buffer = 0;
        self.pieces.iter().map(move |piece| match *piece {
            Piece::Arena { length } => {
                let start = arena;
                arena += length as usize;
                Segment::Bytes(&self.arena[start..arena])
            }
            Piece::Lu {
                lun,
                offset,
                length,
            } => Segment::Lu {
                lun,
                offset_bytes: offset,
                length_bytes: length,
            },
            Piece::Buffer {
                start,
                length,
                last,
            } => {
                let bytes = &self.buffers[buffer][start as usize..(start + length) as usize];
                buffer += usize::from(last);
                Segment::Bytes(bytes)
            }
        })
    }

    /// Appends a header.
    #[inline]
    pub(crate) fn push_header(&mut self, header: &[u8; 48]) {
        self.arena.extend_from_slice(header);
        self.appended(header.len());
    }

    /// Appends bytes.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.arena.extend_from_slice(bytes);
        self.appended(bytes.len());
    }

    fn appended(&mut self, length: usize) {
        if length == 0 {
            return;
        }
        self.pending_bytes += length as u64;
        if let Some(Piece::Arena { length: before }) = self.pieces.back_mut() {
            *before += length as u32;
        } else {
            self.pieces.push_back(Piece::Arena {
                length: length as u32,
            });
        }
    }

    /// Appends a range of an LU.
    pub(crate) fn push_lu(&mut self, lun: u8, offset: u64, length: u32) {
        debug_assert!(length > 0);
        self.pending_bytes += u64::from(length);
        self.pieces.push_back(Piece::Lu {
            lun,
            offset,
            length,
        });
    }

    /// Hands over a buffer; [`Self::push_buffer_part`] then appends parts of it.
    pub(crate) fn adopt_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer_bytes += buffer.len();
        self.buffers.push_back(buffer);
    }

    /// The buffer handed over last.
    pub(crate) fn newest_buffer(&self) -> &[u8] {
        self.buffers.back().map_or(&[], Vec::as_slice)
    }

    /// Appends part of the buffer handed over last; `last` if no more parts of it follow.
    pub(crate) fn push_buffer_part(&mut self, start: u32, length: u32, last: bool) {
        debug_assert!(length > 0);
        self.pending_bytes += u64::from(length);
        self.pieces.push_back(Piece::Buffer {
            start,
            length,
            last,
        });
    }

    /// Takes the first `length` bytes of the first piece, a range of an LU, as lent: still to be sent, by the kernel. `block_bytes` and
    /// `read_lu` as for [`Self::advance`].
    pub(crate) fn lend(
        &mut self,
        length: u32,
        block_bytes: impl Fn(u8) -> u32,
        read_lu: &mut dyn FnMut(u8, u64, &mut [u8]),
    ) -> Lent {
        let Some(&Piece::Lu {
            lun,
            offset,
            length: whole,
        }) = self.pieces.front()
        else {
            panic!("only memory of an LU is lent");
        };
        assert!(length <= whole, "more was lent than comes first");
        self.lent_bytes += u64::from(length);
        if length == whole {
            self.pieces.pop_front();
        } else {
            self.cut_front(length, block_bytes, read_lu);
        }
        Lent {
            lun,
            offset_bytes: offset,
            length_bytes: length.into(),
        }
    }

    /// Takes the first `sent` bytes off the queue, those that are lent before all others. `block_bytes` gives an LU's block length, `read_lu` its bytes: it is
    /// called once if the cut lies within a logical block. Buffers that were sent whole go to `retired`.
    pub(crate) fn advance(
        &mut self,
        mut sent: u64,
        block_bytes: impl Fn(u8) -> u32,
        read_lu: &mut dyn FnMut(u8, u64, &mut [u8]),
        retired: &mut Vec<Vec<u8>>,
    ) {
        assert!(sent <= self.pending_bytes, "more was sent than was queued");
        self.pending_bytes -= sent;
        let of_lent = sent.min(self.lent_bytes);
        self.lent_bytes -= of_lent;
        sent -= of_lent;
        let mut whole = 0;
        for piece in &self.pieces {
            let (Piece::Arena { length } | Piece::Lu { length, .. } | Piece::Buffer { length, .. }) =
                *piece;
            if sent < u64::from(length) {
                break;
            }
            sent -= u64::from(length);
            whole += 1;
            match *piece {
                Piece::Arena { length } => self.arena_sent += length as usize,
                Piece::Lu { .. } | Piece::Buffer { last: false, .. } => {}
                Piece::Buffer { last: true, .. } => {
                    if let Some(buffer) = self.buffers.pop_front() {
                        self.buffer_bytes -= buffer.len();
                        retired.push(buffer);
                    }
                }
            }
        }
        self.pieces.drain(..whole);
        if sent > 0 {
            self.cut_front(sent as u32, block_bytes, read_lu);
        }
        self.reclaim_arena();
    }

    /// Takes `sent` bytes, fewer than it has, off the first piece.
    fn cut_front(
        &mut self,
        sent: u32,
        block_bytes: impl Fn(u8) -> u32,
        read_lu: &mut dyn FnMut(u8, u64, &mut [u8]),
    ) {
        match self
            .pieces
            .front_mut()
            .expect("bytes were left over, so a piece is")
        {
            Piece::Arena { length } => {
                *length -= sent;
                self.arena_sent += sent as usize;
            }
            Piece::Buffer { start, length, .. } => {
                *start += sent;
                *length -= sent;
            }
            Piece::Lu {
                lun,
                offset,
                length,
            } => {
                *offset += u64::from(sent);
                *length -= sent;
                let block = u64::from(block_bytes(*lun));
                let into_block = *offset % block;
                if into_block == 0 {
                    return;
                }
                let (lun, at) = (*lun, *offset);
                let rest = ((block - into_block) as u32).min(*length);
                *offset += u64::from(rest);
                *length -= rest;
                if *length == 0 {
                    self.pieces.pop_front();
                }
                let mut copy = vec![0; rest as usize];
                read_lu(lun, at, &mut copy);
                self.buffer_bytes += copy.len();
                self.buffers.push_front(copy);
                self.pieces.push_front(Piece::Buffer {
                    start: 0,
                    length: rest,
                    last: true,
                });
            }
        }
    }

    fn reclaim_arena(&mut self) {
        if self.arena_sent == self.arena.len() {
            self.arena.clear();
            self.arena.shrink_to(COMPACT_BYTES);
            self.arena_sent = 0;
        } else if self.arena_sent >= COMPACT_BYTES && self.arena_sent * 2 >= self.arena.len() {
            self.arena.drain(..self.arena_sent);
            self.arena_sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An LU whose byte at offset n is n mod 251.
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
    fn neighbouring_headers_become_one_segment() {
        let mut t = Transmit::default();
        t.push_header(&[1; 48]);
        t.push_header(&[2; 48]);
        assert_eq!(t.segments().count(), 1);
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
    fn what_is_lent_is_sent_before_the_rest_and_a_block_it_cuts_comes_from_a_copy() {
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
    fn a_queue_of_nothing_but_what_is_lent_is_not_empty() {
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

    #[test]
    fn a_queue_that_never_runs_empty_keeps_a_small_arena() {
        let mut t = Transmit::default();
        for _ in 0..100_000 {
            t.push_header(&[0; 48]);
            t.push_header(&[0; 48]);
            let n = t.pending_bytes() - 48;
            t.advance(n, |_| 512, &mut lu, &mut Vec::new());
        }
        assert!(t.arena.len() < 4 * COMPACT_BYTES, "{}", t.arena.len());
    }
}
