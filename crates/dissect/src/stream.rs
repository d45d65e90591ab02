//! One direction of a TCP connection, put in order.
//!
//! A byte counts at the instant from which all bytes before it had been seen: what came early waits. What never comes is a hole; it is given up
//! once the peer has acknowledged it, for then the capture missed what the peer did not, or when more waits behind it than is held.
use std::collections::BTreeMap;

use serde::Serialize;

use crate::packet::Segment;

/// Captured bytes that one direction holds behind a hole.
const HELD_BYTES_MAX: usize = 4 << 20;
/// Segments that one direction holds behind a hole.
const HELD_PIECES_MAX: usize = 4096;

/// What comes out, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Bytes as they were captured.
    Bytes(&'a [u8]),
    /// So many bytes that the snap length cut off.
    Cut(u32),
    /// So many bytes that are in no packet of the capture.
    Hole(u64),
}

/// What happened to one direction of a connection, as TCP sees it. Bytes are payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamCounters {
    /// Segments with payload, as captured: a super-frame is one.
    pub segments: u64,
    /// Bytes of the stream that were seen, each once.
    pub bytes: u64,
    /// Segments that brought nothing new.
    pub retransmitted_segments: u64,
    /// Bytes that had been seen before.
    pub retransmitted_bytes: u64,
    /// Segments that came before one with lower numbers.
    pub out_of_order_segments: u64,
    /// Bytes that the peer acknowledged and the capture does not have.
    pub missing_bytes: u64,
    /// Bytes that the snap length cut off.
    pub cut_bytes: u64,
    /// Segments that end with the connection (RST).
    pub resets: u64,
}

/// A segment that waits.
#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    length: u32,
}

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Place of the next byte, counted from 2^32 so that the byte before the first has one too; `None` before the first segment.
    next: Option<u64>,
    /// The first byte of the connection was seen announced (SYN).
    from_start: bool,
    /// Number of that byte.
    first: u32,
    held: BTreeMap<u64, Held>,
    held_bytes: usize,
    /// Highest place that the peer has acknowledged.
    acknowledged: u64,
    pub(crate) counters: StreamCounters,
}

impl Stream {
    /// Captured bytes held behind a hole.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// This begins another connection of the same ports.
    pub(crate) fn is_begun_anew_by(&self, segment: &Segment<'_>) -> bool {
        segment.syn && self.from_start && segment.sequence.wrapping_add(1) != self.first
    }

    /// Takes a segment of this direction, and gives out what is in order then.
    pub(crate) fn handle_segment(&mut self, segment: &Segment<'_>, out: &mut dyn FnMut(Piece<'_>)) {
        self.take(segment, out);
        self.drain(false, out);
    }

    fn take(&mut self, segment: &Segment<'_>, out: &mut dyn FnMut(Piece<'_>)) {
        let mut sequence = segment.sequence;
        if segment.rst {
            self.counters.resets += 1;
            return;
        }
        if segment.syn {
            sequence = sequence.wrapping_add(1);
            if self.next.is_none() {
                self.next = Some(place_of_first(sequence));
                (self.from_start, self.first) = (true, sequence);
            }
        }
        if segment.payload_length == 0 {
            return;
        }
        let next = *self.next.get_or_insert(place_of_first(sequence));
        let start = place(sequence, next);
        let end = start + u64::from(segment.payload_length);
        // A keep-alive probe repeats one byte.
        if segment.payload_length == 1 && end == next {
            return;
        }
        self.counters.segments += 1;
        if end <= next {
            self.counters.retransmitted_segments += 1;
            self.counters.retransmitted_bytes += u64::from(segment.payload_length);
            return;
        }
        if start > next {
            self.counters.out_of_order_segments += 1;
            self.hold(start, segment);
        } else {
            self.give(next, start, segment.payload, segment.payload_length, out);
        }
    }

    fn hold(&mut self, start: u64, segment: &Segment<'_>) {
        let held = self.held.get(&start);
        if let Some(known) = held
            && (known.length, known.bytes.len()) >= (segment.payload_length, segment.payload.len())
        {
            self.counters.retransmitted_segments += 1;
            self.counters.retransmitted_bytes += u64::from(segment.payload_length);
            return;
        }
        self.held_bytes += segment.payload.len();
        let new = Held {
            bytes: segment.payload.to_vec(),
            length: segment.payload_length,
        };
        if let Some(old) = self.held.insert(start, new) {
            self.held_bytes -= old.bytes.len();
            self.counters.retransmitted_bytes += u64::from(old.length);
        }
    }

    /// Takes what the peer has acknowledged.
    pub(crate) fn handle_acknowledged(&mut self, number: u32, out: &mut dyn FnMut(Piece<'_>)) {
        if let Some(next) = self.next {
            self.acknowledged = self.acknowledged.max(place(number, next));
            self.drain(false, out);
        }
    }

    /// Gives out what is in order now. `flush`: whatever is held, since nothing more comes.
    pub(crate) fn drain(&mut self, flush: bool, out: &mut dyn FnMut(Piece<'_>)) {
        while let Some(entry) = self.held.first_entry() {
            let start = *entry.key();
            let next = self.next.unwrap_or(start);
            if start > next {
                let crowded = self.held_bytes > HELD_BYTES_MAX || self.held.len() > HELD_PIECES_MAX;
                if !(flush || crowded || self.acknowledged >= start) {
                    return;
                }
                self.counters.missing_bytes += start - next;
                self.next = Some(start);
                out(Piece::Hole(start - next));
                continue;
            }
            let held = entry.remove();
            self.held_bytes -= held.bytes.len();
            self.give(next, start, &held.bytes, held.length, out);
        }
    }

    /// The part of a segment that is new.
    fn give(
        &mut self,
        next: u64,
        start: u64,
        bytes: &[u8],
        length: u32,
        out: &mut dyn FnMut(Piece<'_>),
    ) {
        let known = (next - start).min(u64::from(length));
        self.counters.retransmitted_bytes += known;
        let new = u64::from(length) - known;
        if new == 0 {
            self.counters.retransmitted_segments += 1;
            return;
        }
        self.next = Some(next + new);
        self.counters.bytes += new;
        let bytes = bytes.get(known as usize..).unwrap_or(&[]);
        if !bytes.is_empty() {
            out(Piece::Bytes(bytes));
        }
        let cut = new - bytes.len() as u64;
        if cut > 0 {
            self.counters.cut_bytes += cut;
            out(Piece::Cut(cut as u32));
        }
    }
}

/// The place of the first number seen: half-way in the first lap but one, so that numbers shortly before it have places too.
fn place_of_first(sequence: u32) -> u64 {
    (1 << 32) + u64::from(sequence)
}

/// The place nearest to `near` that has this number.
fn place(sequence: u32, near: u64) -> u64 {
    let ahead = sequence.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(ahead))
}
