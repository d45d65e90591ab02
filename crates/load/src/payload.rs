//! Data of writes without verification: one buffer of incompressible bytes, which all VMs share.
//! Writes reference it without copying.
use std::sync::Arc;

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Alignment of a write's data in the buffer, bytes.
const STEP: usize = 64;
/// Number of different start offsets.
const STEPS: usize = 4096;

/// Incompressible bytes to write.
#[derive(Clone, Debug)]
pub struct Payload {
    bytes: Arc<Vec<u8>>,
    longest: usize,
}

impl Payload {
    /// Creates a buffer for writes of up to `longest_bytes`, drawn from `seed`. Takes
    /// `longest_bytes` + 256 KiB.
    #[must_use]
    pub fn new(longest_bytes: u32, seed: u64) -> Payload {
        let longest = longest_bytes as usize;
        let mut bytes = vec![0; longest + STEP * STEPS];
        Pcg64Mcg::seed_from_u64(seed).fill_bytes(&mut bytes);
        Payload {
            bytes: Arc::new(bytes),
            longest,
        }
    }

    /// Returns the entire buffer, which writes reference.
    #[must_use]
    pub fn bytes(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// Returns the offset in the buffer of the data of the `n`th write. 4096 successive writes
    /// differ; later ones repeat them, so an array that removes duplicates stores them once.
    /// Verification stamps every block with data of its own.
    #[must_use]
    pub fn begin_of(&self, n: u64, length_bytes: u32) -> usize {
        debug_assert!(length_bytes as usize <= self.longest);
        // An odd multiplier visits every offset.
        (n.wrapping_mul(1_597) as usize % STEPS) * STEP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_lies_in_the_buffer_and_successive_writes_differ() {
        let payload = Payload::new(4096, 3);
        let write = |n| {
            let begin = payload.begin_of(n, 4096);
            &payload.bytes()[begin..begin + 4096]
        };
        for n in 0..10_000 {
            assert_ne!(write(n), write(n + 1));
        }
    }
}
