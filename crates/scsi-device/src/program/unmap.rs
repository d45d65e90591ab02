//! Deallocates ranges: UNMAP, and the erase of SANITIZE.

use super::{Answer, Step, StepContext, take_front};
use crate::io::{Extent, IoOp};

/// Maximum bytes unmapped per access.
const CHUNK_BYTES: u64 = 1 << 30;

/// Deallocates ranges.
#[derive(Debug)]
pub struct Unmap {
    ranges: Vec<Extent>,
    total_bytes: u64,
    done_bytes: u64,
    /// Whether the cache is still to be flushed at the end.
    flushes: bool,
}

impl Unmap {
    /// Creates the program for ranges of at least one block, which it deallocates in order.
    pub fn new(ranges: Vec<Extent>) -> Self {
        let lengths = ranges.iter().map(|range| range.length_bytes);
        Self {
            total_bytes: lengths.fold(0, u64::saturating_add),
            done_bytes: 0,
            ranges: ranges.into_iter().rev().collect(),
            flushes: false,
        }
    }

    /// Flushes the cache at the end.
    pub fn with_flush(self, flushes: bool) -> Self {
        Self { flushes, ..self }
    }

    /// Returns one access for the next ranges, up to [`CHUNK_BYTES`] in total.
    pub(super) fn step(&mut self, context: &mut StepContext<'_>, _answer: Answer) -> Step {
        let mut ranges = Vec::new();
        let mut left = CHUNK_BYTES;
        while let Some(range) = self.ranges.last_mut().filter(|_| left > 0) {
            match take_front(range, left) {
                Some(part) => {
                    left -= part.length_bytes;
                    self.done_bytes += part.length_bytes;
                    ranges.push(part);
                }
                None => {
                    self.ranges.pop();
                }
            }
        }
        if ranges.is_empty() {
            if core::mem::take(&mut self.flushes) {
                return Step::Access(context.lu, IoOp::Flush);
            }
            Step::GOOD
        } else {
            Step::Access(context.lu, IoOp::Unmap { ranges })
        }
    }

    pub(super) fn progress(&self) -> (u64, u64) {
        (self.done_bytes, self.total_bytes)
    }
}
