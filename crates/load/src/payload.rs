//! What writes carry when nothing is verified: one buffer of incompressible bytes that all VMs
//! share and no write copies.
use std::sync::Arc;

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Writes begin at multiples of this many bytes in the buffer.
const STEP: usize = 64;
/// Different beginnings.
const STEPS: usize = 4096;

/// Incompressible bytes to write.
#[derive(Clone, Debug)]
pub struct Payload {
    bytes: Arc<Vec<u8>>,
    longest: usize,
}

impl Payload {
    /// Enough for writes of up to `longest_bytes`, drawn from `seed`. Takes `longest_bytes` + 256
    /// KiB.
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

    /// The whole buffer, to be referenced by segments.
    #[must_use]
    pub fn bytes(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// Where in the buffer the write number `n` begins: neighbouring writes differ, so that no
    /// array can merge them.
    #[must_use]
    pub fn begin_of(&self, n: u64, length_bytes: u32) -> usize {
        debug_assert!(length_bytes as usize <= self.longest);
        // An odd multiplier visits every beginning.
        (n.wrapping_mul(1_597) as usize % STEPS) * STEP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_lies_in_the_buffer_and_neighbours_differ() {
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
