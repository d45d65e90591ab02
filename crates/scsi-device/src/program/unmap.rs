//! Ranges given back: UNMAP, and the erase of SANITIZE.

use super::{Answer, Step, Workplace, take_front};
use crate::io::{Extent, IoOp};

/// Maximum bytes unmapped per access.
const CHUNK_BYTES: u64 = 1 << 30;

/// Gives ranges back.
#[derive(Debug)]
pub struct Unmap {
    ranges: Vec<Extent>,
    total_bytes: u64,
    done_bytes: u64,
}

impl Unmap {
    /// Ranges of at least one block, in the order that they are given.
    pub fn new(ranges: Vec<Extent>) -> Self {
        let lengths = ranges.iter().map(|range| range.length_bytes);
        Self {
            total_bytes: lengths.fold(0, u64::saturating_add),
            done_bytes: 0,
            ranges: ranges.into_iter().rev().collect(),
        }
    }

    /// The next ranges, up to a chunk in all, for one access.
    pub(super) fn step(&mut self, at: &mut Workplace<'_>, _answer: Answer) -> Step {
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
            Step::GOOD
        } else {
            Step::Ask(at.lu, IoOp::Unmap { ranges })
        }
    }

    pub(super) fn progress(&self) -> (u64, u64) {
        (self.done_bytes, self.total_bytes)
    }
}
