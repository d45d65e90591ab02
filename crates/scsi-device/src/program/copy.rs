//! EXTENDED COPY: copies segments from one LU to another (or the same LU), in chunks, in the order
//! of the list (SPC-4 section 6.3).

use super::{Answer, CHUNK_BYTES, Step, StepContext, read, take_front};
use crate::io::{Extent, IoOp};

/// A segment whose LUs and ranges are resolved.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub from_lu: u8,
    pub from: Extent,
    pub to_lu: u8,
    pub to_offset_bytes: u64,
    /// Whether writes bypass the cache.
    pub fua: bool,
}

/// Copies segments.
#[derive(Debug)]
pub struct Copy {
    segments: Vec<Segment>,
    /// Index of the segment that is being copied.
    segment_index: usize,
    bytes: u64,
    /// List identifier with which the result is kept, if it is kept.
    pub list: Option<u8>,
}

impl Copy {
    /// Creates the program. `list` is the list identifier with which its result is kept.
    pub fn new(segments: Vec<Segment>, list: Option<u8>) -> Self {
        Self {
            segments,
            segment_index: 0,
            bytes: 0,
            list,
        }
    }

    /// Returns the numbers of segments and bytes copied.
    pub fn done(&self) -> (u16, u64) {
        (self.segment_index as u16, self.bytes)
    }

    /// Returns the bytes to copy, before the first step.
    pub(super) fn total_bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.from.length_bytes)
            .sum()
    }

    pub(super) fn step(&mut self, context: &mut StepContext<'_>, answer: Answer) -> Step {
        match answer {
            Answer::Read(data) => {
                let segment = &mut self.segments[self.segment_index];
                let op = IoOp::Write {
                    offset_bytes: segment.to_offset_bytes,
                    data,
                    fua: segment.fua,
                };
                let to = segment.to_lu;
                return Step::Access(to, op);
            }
            Answer::Written(data) => {
                self.bytes += data.len() as u64;
                self.segments[self.segment_index].to_offset_bytes += data.len() as u64;
                context.buffers.give(data);
            }
            _ => {}
        }
        while let Some(segment) = self.segments.get_mut(self.segment_index) {
            if let Some(part) = take_front(&mut segment.from, CHUNK_BYTES) {
                return Step::Access(segment.from_lu, read(part));
            }
            self.segment_index += 1;
        }
        Step::GOOD
    }
}
