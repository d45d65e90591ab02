//! Reassembly of one direction of a TCP connection.
//!
//! A byte counts at the instant at which it and all bytes before it have been seen. Data that
//! arrived early waits, as it does in the receiver. A hole is given up once the peer has
//! acknowledged it, because the capture then missed bytes that the peer received. It is also given
//! up if more data waits behind it than the limits below allow. The time of data that waited behind
//! such a hole is known only within bounds. The same holds for bytes that the peer acknowledged
//! before they were captured.
use std::collections::{BTreeMap, VecDeque};

use hakaru_units::Time;
use serde::Serialize;

use crate::clock::Stamp;
use crate::packet::Segment;

/// Maximum number of captured bytes that one direction holds behind a hole.
const HELD_BYTES_MAX: usize = 4 << 20;
/// Maximum number of segments that one direction holds behind a hole.
const HELD_PIECES_MAX: usize = 4096;
/// Number of newest segments searched for a copy of a packet.
const RECENT_MAX: usize = 64;

/// Bytes of the stream, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    /// Bytes as they were captured.
    Bytes(&'a [u8]),
    /// Number of bytes that the snap length cut off.
    Cut(u32),
    /// Number of bytes that are in no packet of the capture.
    Hole(u64),
}

/// A part of the stream, and its arrival time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) content: Content<'a>,
    pub(crate) stamp: Stamp,
}

/// Counters of one direction of a connection, as TCP sees it. Bytes are payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamCounters {
    /// Segments with payload, as captured: a super-frame is one.
    pub segments: u64,
    /// Bytes of the stream that were seen, each once.
    pub bytes: u64,
    /// Segments without new bytes: lost after the place of capture, or assumed lost by the sender.
    pub retransmitted_segments: u64,
    /// Payload bytes that had been seen before.
    pub retransmitted_bytes: u64,
    /// Packets that the capture contains twice.
    pub duplicated_packets: u64,
    /// Segments that arrived before a segment with lower numbers.
    pub out_of_order_segments: u64,
    /// Segments that filled a hole later than reordering on the path explains: lost before the
    /// place of capture, and retransmitted.
    pub late_segments: u64,
    /// Longest time for which later segments waited for a late segment, ns.
    pub late_max_ns: u64,
    /// Bytes that the peer acknowledged and the capture lacks.
    pub missing_bytes: u64,
    /// Bytes that the snap length cut off.
    pub cut_bytes: u64,
    /// Segments that reset the connection (RST).
    pub resets: u64,
}

/// A segment that waits behind a hole.
#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    length: u32,
    stamp: Stamp,
}

/// Reassembly state of one direction.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Place of the next byte, counted from 2^32 so that the byte before the first has a place too;
    /// `None` before the first segment.
    next: Option<u64>,
    /// Whether the SYN was seen.
    from_start: bool,
    /// Sequence number of the connection's first byte, or of the first one seen.
    first: u32,
    held: BTreeMap<u64, Held>,
    held_bytes: usize,
    /// Arrival time of the oldest held segment.
    hole_since: Option<Time>,
    /// Highest place that the peer has acknowledged.
    acknowledged: u64,
    /// Fingerprints of the newest segments.
    recent: VecDeque<u64>,
    /// A segment that fills a hole within this time was overtaken, not lost, ns.
    overtaking_max_ns: u64,
    pub(crate) counters: StreamCounters,
}

impl Stream {
    /// Returns the number of captured bytes held behind a hole.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns whether the segment begins another connection of the same ports.
    pub(crate) fn is_restarted_by(&self, segment: &Segment<'_>) -> bool {
        // Of a connection that began before the capture, only a SYN alone proves another one.
        segment.syn
            && self.next.is_some()
            && segment.sequence.wrapping_add(1) != self.first
            && (self.from_start || segment.acknowledged.is_none())
    }

    /// Returns whether nothing of this direction was seen.
    pub(crate) fn is_silent(&self) -> bool {
        self.next.is_none()
    }

    /// Returns whether the direction was seen, but not its SYN.
    pub(crate) fn began_before(&self) -> bool {
        self.next.is_some() && !self.from_start
    }

    /// Sets the time within which a segment counts as overtaken on the path, ns.
    pub(crate) fn set_overtaking_max(&mut self, ns: u64) {
        self.overtaking_max_ns = ns;
    }

    /// Handles a segment of this direction, and emits the bytes that are now in order.
    pub(crate) fn handle_segment(
        &mut self,
        stamp: Stamp,
        segment: &Segment<'_>,
        out: &mut dyn FnMut(Piece<'_>),
    ) {
        self.accept(stamp, segment, out);
        self.drain(stamp, false, out);
    }

    fn accept(&mut self, stamp: Stamp, segment: &Segment<'_>, out: &mut dyn FnMut(Piece<'_>)) {
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
        if self.next.is_none() {
            self.first = sequence;
        }
        let next = *self.next.get_or_insert(place_of_first(sequence));
        let start = place(sequence, next);
        let end = start + u64::from(segment.payload_length);
        // A keep-alive probe repeats one byte.
        if segment.payload_length == 1 && end == next {
            return;
        }
        if self.is_copy(segment) {
            self.counters.duplicated_packets += 1;
            return;
        }
        self.counters.segments += 1;
        if end <= next {
            self.count_retransmission(segment.payload_length);
            return;
        }
        if start > next {
            self.counters.out_of_order_segments += 1;
            self.hold(start, stamp, segment);
            return;
        }
        self.count_late(stamp);
        // If the receiver has already acknowledged these bytes, it had them earlier than this
        // instant.
        let stamp = if next < self.acknowledged {
            stamp.inexact()
        } else {
            stamp
        };
        self.emit_new(
            next,
            start,
            stamp,
            segment.payload,
            segment.payload_length,
            out,
        );
    }

    /// Returns whether the capture has contained this packet before. A retransmission differs in
    /// its IP identification or its timestamp.
    fn is_copy(&mut self, segment: &Segment<'_>) -> bool {
        let copy = self.recent.contains(&segment.fingerprint);
        if !copy {
            if self.recent.len() == RECENT_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(segment.fingerprint);
        }
        copy
    }

    fn count_retransmission(&mut self, bytes: u32) {
        self.counters.retransmitted_segments += 1;
        self.counters.retransmitted_bytes += u64::from(bytes);
    }

    /// Counts a segment that fills a hole, or a part of it.
    fn count_late(&mut self, stamp: Stamp) {
        let Some(since) = self.hole_since else {
            return;
        };
        let waited = stamp.at.0.saturating_sub(since.0);
        if waited > self.overtaking_max_ns {
            self.counters.late_segments += 1;
            self.counters.late_max_ns = self.counters.late_max_ns.max(waited);
        }
    }

    fn hold(&mut self, start: u64, stamp: Stamp, segment: &Segment<'_>) {
        let held = self.held.get(&start);
        if let Some(known) = held
            && (known.length, known.bytes.len()) >= (segment.payload_length, segment.payload.len())
        {
            self.count_retransmission(segment.payload_length);
            return;
        }
        self.hole_since.get_or_insert(stamp.at);
        self.held_bytes += segment.payload.len();
        let new = Held {
            bytes: segment.payload.to_vec(),
            length: segment.payload_length,
            stamp,
        };
        if let Some(old) = self.held.insert(start, new) {
            self.held_bytes -= old.bytes.len();
            self.counters.retransmitted_bytes += u64::from(old.length);
        }
    }

    /// Handles the sequence number up to which the peer has acknowledged.
    pub(crate) fn handle_acknowledged(
        &mut self,
        stamp: Stamp,
        number: u32,
        out: &mut dyn FnMut(Piece<'_>),
    ) {
        if let Some(next) = self.next {
            self.acknowledged = self.acknowledged.max(place(number, next));
            self.drain(stamp, false, out);
        }
    }

    /// Emits the bytes that are in order now. `flush`: emits everything that is held, because the
    /// capture has ended or memory is short.
    pub(crate) fn drain(&mut self, now: Stamp, flush: bool, out: &mut dyn FnMut(Piece<'_>)) {
        let mut given_up = None;
        loop {
            let crowded = self.held_bytes > HELD_BYTES_MAX || self.held.len() > HELD_PIECES_MAX;
            let Some(entry) = self.held.first_entry() else {
                break;
            };
            let start = *entry.key();
            let next = self.next.unwrap_or(start);
            if start > next {
                let received = self.acknowledged >= start;
                if !(flush || crowded || received) {
                    self.hole_since = Some(entry.get().stamp.at);
                    return;
                }
                given_up = Some(received);
                self.counters.missing_bytes += start - next;
                self.next = Some(start);
                let content = Content::Hole(start - next);
                out(Piece {
                    content,
                    stamp: now.inexact(),
                });
                continue;
            }
            let held = entry.remove();
            self.held_bytes -= held.bytes.len();
            let stamp = match given_up {
                // The hole before this segment was already acknowledged on arrival, so the segment
                // did not wait.
                Some(true) if held.stamp.packet == now.packet => held.stamp,
                Some(_) => held.stamp.inexact(),
                None => now,
            };
            self.emit_new(next, start, stamp, &held.bytes, held.length, out);
        }
        self.hole_since = None;
    }

    /// Emits the new part of a segment.
    fn emit_new(
        &mut self,
        next: u64,
        start: u64,
        stamp: Stamp,
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
            let content = Content::Bytes(bytes);
            out(Piece { content, stamp });
        }
        let cut = new - bytes.len() as u64;
        if cut > 0 {
            self.counters.cut_bytes += cut;
            let content = Content::Cut(cut as u32);
            out(Piece { content, stamp });
        }
    }
}

/// Returns the place of the first number seen: in the second lap of the sequence numbers, so that
/// numbers shortly before it have places too.
fn place_of_first(sequence: u32) -> u64 {
    (1 << 32) + u64::from(sequence)
}

/// Returns the place with this number that is nearest to `near`.
fn place(sequence: u32, near: u64) -> u64 {
    let ahead = sequence.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(ahead))
}
