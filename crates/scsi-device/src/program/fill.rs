//! Fills a range with one block: WRITE SAME, and the overwrite of SANITIZE.

use super::{Answer, Step, StepContext, take_front};
use crate::io::{Extent, IoOp};

/// Maximum bytes written per access, so that accesses of other commands run between.
const FILL_BYTES: u64 = 1 << 20;

/// Maximum bytes unmapped per access, which updates metadata rather than writing each block.
const UNMAP_BYTES: u64 = 1 << 30;

/// Fills a range.
#[derive(Debug)]
pub struct Fill {
    whole: Extent,
    rest: Extent,
    /// The block. `None`: the block that the initiator sends.
    block: Option<Vec<u8>>,
    /// Remaining passes over the range, including the current one.
    passes: u32,
    passes_total: u32,
    /// The block is inverted for every other pass, such that the last pass writes it unchanged.
    invert: bool,
    unmap: bool,
    fua: bool,
}

impl Fill {
    /// Fills a range with the block that the initiator sends.
    pub fn new(range: Extent, unmap: bool) -> Self {
        Self {
            whole: range,
            rest: range,
            block: None,
            passes: 1,
            passes_total: 1,
            invert: false,
            unmap,
            fua: false,
        }
    }

    /// Fills a range with this block.
    pub fn with(range: Extent, block: Vec<u8>, unmap: bool) -> Self {
        Self {
            block: Some(block),
            ..Self::new(range, unmap)
        }
    }

    /// Sets FUA, for a fill that bypasses the cache.
    pub fn with_fua(mut self, fua: bool) -> Self {
        self.fua = fua;
        self
    }

    /// Fills the range several times, with every other pass inverted if `invert` is set.
    pub fn repeated(mut self, passes: u32, invert: bool) -> Self {
        (self.passes, self.passes_total, self.invert) = (passes, passes, invert);
        self
    }

    pub(super) fn step(&mut self, context: &mut StepContext<'_>, answer: Answer) -> Step {
        if let Answer::Begin = answer {
            let block = self.block.take();
            let block = block.unwrap_or_else(|| core::mem::take(context.data));
            // Every other pass before the last is inverted, so the first is inverted if the number
            // of passes is even.
            let begin_inverted = self.invert && self.passes.is_multiple_of(2);
            self.block = Some(if begin_inverted {
                inverted(&block)
            } else {
                block
            });
        }
        if self.rest.length_bytes == 0 && self.passes > 1 {
            self.passes -= 1;
            self.rest = self.whole;
            if self.invert {
                self.block = self.block.as_deref().map(inverted);
            }
        }
        let block = self.block.as_deref().unwrap_or_default();
        let zeros = block.iter().all(|byte| *byte == 0);
        let length_max = if self.unmap && zeros {
            UNMAP_BYTES
        } else {
            FILL_BYTES
        };
        match take_front(&mut self.rest, length_max) {
            Some(range) => {
                let op = IoOp::WriteSame {
                    range,
                    block: block.to_vec(),
                    unmap: self.unmap && zeros,
                    fua: self.fua,
                };
                Step::Access(context.lu, op)
            }
            None => Step::GOOD,
        }
    }

    /// Returns the bytes filled so far and the bytes of all passes.
    pub(super) fn progress(&self) -> (u64, u64) {
        let pass = self.whole.length_bytes;
        let before = u64::from(self.passes_total - self.passes);
        let done = before
            .saturating_mul(pass)
            .saturating_add(pass - self.rest.length_bytes);
        (done, pass.saturating_mul(self.passes_total.into()))
    }
}

fn inverted(block: &[u8]) -> Vec<u8> {
    block.iter().map(|byte| !byte).collect()
}
