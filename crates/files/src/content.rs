//! Contents of files, in blocks that can each be computed alone.
use hakaru_contract::files::{Alphabet, FileContent};
use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

use crate::draw::{self, Use};

/// Bytes of a block. Compression and deduplication of storage work on blocks of this size or a
/// multiple.
pub const BLOCK_BYTES: usize = 4096;
/// Number of different blocks that duplicates are copies of.
const DUPLICATES: u64 = 64;

/// Computes contents.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    /// Seed of the description.
    pub seed: u64,
    /// Kind of content.
    pub config: FileContent,
}

impl Content {
    /// Writes the bytes of a file from `offset` on. `place` identifies the file.
    pub fn fill(&self, place: [u32; 3], offset: u64, out: &mut [u8]) {
        let block_bytes = BLOCK_BYTES as u64;
        let (mut number, mut skip) = (offset / block_bytes, (offset % block_bytes) as usize);
        let mut rest = out;
        while !rest.is_empty() {
            let length = rest.len().min(BLOCK_BYTES - skip);
            let (part, others) = rest.split_at_mut(length);
            if length == BLOCK_BYTES {
                self.fill_block(place, number, part);
            } else {
                let mut block = [0; BLOCK_BYTES];
                self.fill_block(place, number, &mut block[..skip + length]);
                part.copy_from_slice(&block[skip..skip + length]);
            }
            (number, skip, rest) = (number + 1, 0, others);
        }
    }

    /// Writes the beginning of a block, as long as `out`.
    fn fill_block(&self, place: [u32; 3], number: u64, out: &mut [u8]) {
        let state = match self.duplicate_of(place, number) {
            Some(one) => draw::bits(self.seed, Use::Duplicate, [u32::MAX; 3], one),
            None => draw::bits(self.seed, Use::Content, place, number),
        };
        let random = BLOCK_BYTES * (100 - usize::from(self.config.compressible_percent)) / 100;
        let (drawn, repeated) = out.split_at_mut(random.min(out.len()));
        Pcg64Mcg::new(state).fill_bytes(drawn);
        repeated.fill((state >> 64) as u8);
        if self.config.alphabet == Alphabet::Ascii {
            for byte in out {
                *byte = (*byte & 0x3f) + 0x20;
            }
        }
    }

    fn duplicate_of(&self, place: [u32; 3], number: u64) -> Option<u64> {
        if self.config.duplicate_percent == 0 {
            return None;
        }
        let bits = draw::bits(self.seed, Use::Duplicate, place, number);
        let is_duplicate = draw::below(bits, 100) < u64::from(self.config.duplicate_percent);
        is_duplicate.then(|| draw::below(bits >> 64, DUPLICATES))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const PLACE: [u32; 3] = [1, 2, 3];

    fn content(alphabet: Alphabet, compressible_percent: u8, duplicate_percent: u8) -> Content {
        Content {
            seed: 5,
            config: FileContent {
                alphabet,
                compressible_percent,
                duplicate_percent,
            },
        }
    }

    #[test]
    fn every_part_of_a_file_equals_the_same_part_of_the_whole() {
        for content in [
            content(Alphabet::Ascii, 0, 0),
            content(Alphabet::Binary, 40, 30),
        ] {
            let mut whole = vec![0; 5 * BLOCK_BYTES + 77];
            content.fill(PLACE, 0, &mut whole);
            for (offset, length) in [(0, 1), (1, 4096), (4095, 2), (4096, 4096), (9000, 11_557)] {
                let mut part = vec![0; length];
                content.fill(PLACE, offset as u64, &mut part);
                assert_eq!(part, whole[offset..offset + length], "{offset}+{length}");
            }
        }
    }

    #[test]
    fn ascii_is_printable_and_uses_all_64_characters() {
        let mut bytes = vec![0; 1 << 16];
        content(Alphabet::Ascii, 0, 0).fill(PLACE, 0, &mut bytes);
        let mut counts = HashMap::new();
        bytes
            .iter()
            .for_each(|byte| *counts.entry(*byte).or_insert(0) += 1);
        assert!(counts.keys().all(|byte| (0x20..=0x5f).contains(byte)));
        assert_eq!(counts.len(), 64);
        assert!(
            counts.values().all(|count| (800..1250).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn the_requested_share_of_blocks_is_duplicated_and_of_each_block_repeated() {
        let mut bytes = vec![0; 4000 * BLOCK_BYTES];
        content(Alphabet::Binary, 25, 30).fill(PLACE, 0, &mut bytes);
        let mut counts = HashMap::new();
        for block in bytes.chunks_exact(BLOCK_BYTES) {
            *counts.entry(block).or_insert(0) += 1;
            assert!(block[3072..].iter().all(|byte| *byte == block[3072]));
            assert_ne!(block[3060..3072], [block[3072]; 12]);
        }
        let duplicated: u32 = counts.values().filter(|count| **count > 1).sum();
        assert!((1100..1300).contains(&duplicated), "{duplicated} of 4000");
        assert_eq!(counts.values().filter(|count| **count > 1).count(), 64);
    }
}
