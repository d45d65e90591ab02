//! Records that keep the index of a cartridge on its store.
//!
//! [`crate::recorded`] describes the format. A record counts once its [`Ticket`] is done.
//! A record that may or may not be on the store, because its write failed or was aborted, is never
//! followed by another one in its area: the next record is a checkpoint, in the area that does not
//! have the last record known to be durable.
//!
//! An aborted record costs nothing: the blocks that it would have made durable are on the store,
//! and the next record makes them durable. A failed one costs these blocks, because the store may
//! have dropped them.

use core::ops::Range;

use crate::medium::Medium;
use crate::recorded::{FRAME_BYTES, FRAME_RUNS, Frame, HEADER_BYTES, Header, Tail};
use crate::ticket::{End, Ticket};

/// Bytes to write durably.
#[derive(Debug)]
pub struct Record {
    /// First byte on the store, a multiple of [`crate::GRANULE_BYTES`].
    pub offset_bytes: u64,
    /// Bytes, a multiple of [`crate::GRANULE_BYTES`].
    pub bytes: Vec<u8>,
    /// Whether every block written before must be durable first.
    pub flush: bool,
    /// To be held until the bytes are durable, and the unused ones given back.
    pub ticket: Ticket,
    /// Bytes on the store that no object needs once the record is durable. A store that allocates
    /// space at the first write may then take it back.
    pub unused: Option<Range<u64>>,
}

/// A record that the store has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Number of objects that stand. `None`: the record named no block that was not durable.
    pub end: Option<u64>,
    /// Whether a command has reported it.
    pub reported: bool,
}

/// A record that was begun.
#[derive(Debug)]
struct Pending {
    ticket: Ticket,
    /// Area that it is in.
    area: u8,
    /// Objects of the index that are durable without it.
    kept: u64,
    /// Whether it names blocks that were not durable.
    flush: bool,
}

/// State of the index of a cartridge on its store.
#[derive(Debug)]
pub struct Journal {
    /// First byte of the cartridge on the store.
    base_bytes: u64,
    area_bytes: u64,
    /// Area of the last record.
    area: u8,
    /// Area of the last record that is known to be durable. `None`: there is none.
    durable_area: Option<u8>,
    /// Epoch of the last record.
    epoch: u64,
    /// Highest epoch of any frame on the store, also of remains of records.
    epoch_max: u64,
    /// Frames and records in its area.
    frames: u64,
    records: u64,
    /// Objects after the last record.
    recorded: u64,
    /// Objects of these that stand and are durable.
    kept: u64,
    /// Whether it is unknown if the last record is on the store.
    uncertain: bool,
    pending: Vec<Pending>,
}

impl Journal {
    /// Creates the state of a cartridge that begins at `base_bytes` on its store. `end` is the
    /// number of its objects.
    #[must_use]
    pub fn new(header: &Header, base_bytes: u64, tail: Tail, end: u64) -> Journal {
        Journal {
            base_bytes,
            area_bytes: header.area_bytes,
            area: tail.area,
            durable_area: (tail.records > 0).then_some(tail.area),
            epoch: tail.epoch,
            epoch_max: tail.epoch_max,
            frames: tail.frames,
            records: tail.records,
            recorded: end,
            kept: end,
            uncertain: !tail.clean,
            pending: Vec::new(),
        }
    }

    /// Notes that only the objects before a position stand.
    pub(crate) fn truncate(&mut self, position: u64) {
        self.kept = self.kept.min(position);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.pending.iter().any(|pending| pending.ticket.is_held())
    }

    /// Ends the pending records.
    pub(crate) fn settle(&mut self) -> Option<Lost> {
        for pending in self.pending.drain(..) {
            let end = pending.ticket.ended();
            if end == End::Done {
                self.durable_area = Some(pending.area);
                continue;
            }
            // The records after it were not begun.
            self.uncertain = true;
            self.kept = self.kept.min(pending.kept);
            let lost = Lost {
                end: pending.flush.then_some(self.kept),
                reported: end == End::Failed,
            };
            return (end != End::Aborted).then_some(lost);
        }
        None
    }

    /// Whether the last record may be missing on the store.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.uncertain
    }

    /// Returns the record that makes the index of the medium durable.
    pub(crate) fn synchronise(&mut self, medium: &Medium, loads: u64) -> Option<Record> {
        let end = medium.end();
        if !self.uncertain && self.kept == self.recorded && self.recorded == end {
            return None;
        }
        let flush = end > self.kept;
        Some(self.record(medium, end, loads, flush))
    }

    /// Returns the record that removes the objects which do not stand, or whose record may be
    /// missing.
    pub(crate) fn give_up(&mut self, medium: &Medium, loads: u64) -> Option<Record> {
        (self.uncertain || self.kept < self.recorded)
            .then(|| self.record(medium, self.kept, loads, false))
    }

    /// Returns a record after which the index has `end` objects.
    fn record(&mut self, medium: &Medium, end: u64, loads: u64, flush: bool) -> Record {
        let area_frames = self.area_bytes / FRAME_BYTES as u64;
        let mut runs: Vec<(u32, u64)> = medium.lengths(self.kept, end).collect();
        let frames = frames_of(&runs);
        if self.uncertain || self.records == 0 || self.frames + frames > area_frames {
            runs = medium.lengths(0, end).collect();
            self.area = self.durable_area.map_or(0, |area| 1 - area);
            // Remains of an interrupted checkpoint must not be taken for frames of this one.
            self.epoch_max += 1;
            self.epoch = self.epoch_max;
            (self.frames, self.records) = (0, 0);
        }
        let kept = if self.records == 0 { 0 } else { self.kept };
        let frames = frames_of(&runs);
        let mut bytes = Vec::with_capacity(frames as usize * FRAME_BYTES);
        for at in 0..frames {
            let rest = &runs[(at as usize * FRAME_RUNS).min(runs.len())..];
            let frame = Frame {
                epoch: self.epoch,
                record: self.records,
                number: (self.frames + at) as u32,
                first: at == 0,
                last: at + 1 == frames,
                kept,
                end,
                loads,
                runs: rest[..rest.len().min(FRAME_RUNS)].to_vec(),
            };
            frame.emit(&mut bytes);
        }
        let place = HEADER_BYTES + u64::from(self.area) * self.area_bytes;
        let offset_bytes = self.base_bytes + place + self.frames * FRAME_BYTES as u64;
        let ticket = Ticket::default();
        self.pending.push(Pending {
            ticket: ticket.clone(),
            area: self.area,
            kept: self.kept,
            flush,
        });
        self.frames += frames;
        self.records += 1;
        // A later record of the same command follows this one.
        self.uncertain = false;
        (self.recorded, self.kept) = (end, end);
        Record {
            offset_bytes,
            bytes,
            flush,
            ticket,
            unused: None,
        }
    }
}

/// Returns the number of frames of a record.
fn frames_of(runs: &[(u32, u64)]) -> u64 {
    runs.len().div_ceil(FRAME_RUNS).max(1) as u64
}

/// Returns the index of a new cartridge with these contents: its offset in the cartridge, bytes,
/// and its bytes.
#[must_use]
pub fn index_of(header: &Header, medium: &Medium) -> (u64, Vec<u8>) {
    let mut journal = Journal::new(header, 0, Tail::default(), 0);
    let record = journal.record(medium, medium.end(), 0, false);
    (record.offset_bytes, record.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::{Recovered, recover};

    const CAPACITY_BYTES: u64 = 1 << 20;

    /// A store of one cartridge in memory.
    struct Store(Vec<u8>);

    impl Store {
        /// Writes these frames of a record, all that were written when the power was cut.
        fn write(&mut self, record: &Record, frames: &[usize]) {
            for frame in frames {
                let (begin, at) = (frame * FRAME_BYTES, record.offset_bytes as usize);
                let bytes = &record.bytes[begin..begin + FRAME_BYTES];
                self.0[at + begin..][..FRAME_BYTES].copy_from_slice(bytes);
            }
        }

        fn recover(&self) -> Recovered {
            let recovered = recover(&mut |offset, buffer| {
                buffer.copy_from_slice(&self.0[offset as usize..][..buffer.len()]);
                Ok(())
            });
            recovered.expect("the index is whole")
        }
    }

    #[test]
    fn frames_of_two_interrupted_checkpoints_are_never_mixed() {
        let header = Header {
            area_bytes: 64 * FRAME_BYTES as u64,
            ..Header::new("A".to_owned(), false, CAPACITY_BYTES)
        };
        let mut store = Store(vec![0; header.data_bytes() as usize]);
        store.0[..FRAME_BYTES].copy_from_slice(&header.emit());
        let mut medium = Medium::new(header.runs_max());
        for _ in 0..45 {
            medium.append_blocks(512, 1);
            medium.append_filemarks(1);
        }
        let mut journal = Journal::new(&header, 0, Tail::default(), 0);
        let record = journal.synchronise(&medium, 1).expect("a record");
        store.write(&record, &[0, 1, 2]);
        record.ticket.done();
        drop(record);
        let durable = medium.end();
        for (blocks, stored) in [(1, &[0, 2][..]), (2, &[0, 1])] {
            // A record that was aborted, which the next one, a checkpoint, replaces.
            medium.append_blocks(512, blocks);
            drop(journal.synchronise(&medium, 1).expect("a record"));
            journal.settle();
            let record = journal.synchronise(&medium, 1).expect("a checkpoint");
            assert_eq!(record.bytes.len(), 3 * FRAME_BYTES);
            store.write(&record, stored);
            let recovered = store.recover();
            assert_eq!(recovered.medium.end(), durable);
            medium = recovered.medium;
            journal = Journal::new(&header, 0, recovered.tail, medium.end());
        }
    }
}
