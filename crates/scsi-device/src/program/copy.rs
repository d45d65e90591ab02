//! EXTENDED COPY: segments from one LU to another (or itself), chunk by chunk, in the order of the
//! list (SPC-4 section 6.3).

use super::{Answer, CHUNK_BYTES, Step, Workplace, read, take_front};
use crate::io::{Extent, IoOp};

/// A segment with its places found.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub from_lu: u8,
    pub from: Extent,
    pub to_lu: u8,
    pub to_offset_bytes: u64,
}

/// Copies segments.
#[derive(Debug)]
pub struct Copy {
    segments: Vec<Segment>,
    /// The segment under way.
    at: usize,
    bytes: u64,
    /// Kept under this number once it has ended.
    pub list: Option<u8>,
}

impl Copy {
    /// `list`: under which number its result is kept.
    pub fn new(segments: Vec<Segment>, list: Option<u8>) -> Self {
        Self {
            segments,
            at: 0,
            bytes: 0,
            list,
        }
    }

    /// Segments and bytes that are copied.
    pub fn done(&self) -> (u16, u64) {
        (self.at as u16, self.bytes)
    }

    /// Bytes to copy, at the beginning.
    pub(super) fn total_bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.from.length_bytes)
            .sum()
    }

    pub(super) fn step(&mut self, at: &mut Workplace<'_>, answer: Answer) -> Step {
        match answer {
            Answer::Read(data) => {
                let segment = &mut self.segments[self.at];
                let op = IoOp::Write {
                    offset_bytes: segment.to_offset_bytes,
                    data,
                    fua: false,
                };
                let to = segment.to_lu;
                return Step::Ask(to, op);
            }
            Answer::Written(data) => {
                self.bytes += data.len() as u64;
                self.segments[self.at].to_offset_bytes += data.len() as u64;
                at.buffers.give(data);
            }
            _ => {}
        }
        while let Some(segment) = self.segments.get_mut(self.at) {
            if let Some(part) = take_front(&mut segment.from, CHUNK_BYTES) {
                return Step::Ask(segment.from_lu, read(part));
            }
            self.at += 1;
        }
        Step::GOOD
    }
}
