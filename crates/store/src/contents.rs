//! Contents of a memory LU that is configured as full. They are derived from a seed, differ in
//! every block, and are generated on first read.
//!
//! The random numbers are of low quality. They give a compressor the configured ratio and reveal a
//! misplaced block.
use crate::written::GRANULE_BYTES;

/// Shortest logical block; each sector starts with its own incompressible bytes.
const SECTOR_BYTES: usize = 512;
/// Minimum number of incompressible bytes per sector. With fewer, two sectors could be equal.
const STAMP_BYTES: usize = 8;

/// Parameters of the contents.
#[derive(Clone, Copy, Debug)]
pub struct Contents {
    seed: u64,
    /// Incompressible bytes at the start of each sector, a multiple of 8; zeros follow.
    incompressible: usize,
}

impl Contents {
    /// Creates contents of which a compressor can remove `compressible_percent`, 0 to 100.
    pub fn new(seed: u64, compressible_percent: u8) -> Contents {
        let incompressible_bytes =
            SECTOR_BYTES * usize::from(100 - compressible_percent.min(100)) / 100;
        Contents {
            seed,
            incompressible: incompressible_bytes.next_multiple_of(8).max(STAMP_BYTES),
        }
    }

    /// Generates the contents of a granule.
    pub fn draw(&self, granule: u64, out: &mut [u8; GRANULE_BYTES as usize]) {
        let first = granule * (GRANULE_BYTES / 8);
        let sectors = out.chunks_exact_mut(SECTOR_BYTES);
        for (sector, at) in sectors.zip((first..).step_by(SECTOR_BYTES / 8)) {
            let (drawn, zeros) = sector.split_at_mut(self.incompressible);
            for (word, place) in drawn.chunks_exact_mut(8).zip(at..) {
                word.copy_from_slice(&self.word(place).to_le_bytes());
            }
            zeros.fill(0);
        }
    }

    /// Returns the `place`th number of the sequence SplitMix64 (Steele, Lea and Flood 2014), which
    /// is a permutation of all places.
    fn word(&self, place: u64) -> u64 {
        let mut z = self
            .seed
            .wrapping_add(place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn drawn(contents: &Contents, granule: u64) -> [u8; GRANULE_BYTES as usize] {
        let mut out = [0xff; GRANULE_BYTES as usize];
        contents.draw(granule, &mut out);
        out
    }

    #[test]
    fn every_sector_is_different_and_reproducible() {
        for percent in [0, 50, 100] {
            let contents = Contents::new(7, percent);
            let sectors: HashSet<Vec<u8>> = (0..512)
                .flat_map(|granule| {
                    let bytes = drawn(&contents, granule);
                    assert_eq!(bytes, drawn(&Contents::new(7, percent), granule));
                    bytes
                        .chunks(SECTOR_BYTES)
                        .map(<[u8]>::to_vec)
                        .collect::<Vec<_>>()
                })
                .collect();
            assert_eq!(sectors.len(), 512 * 8, "{percent} %");
        }
        assert_ne!(
            drawn(&Contents::new(7, 0), 0),
            drawn(&Contents::new(8, 0), 0)
        );
    }

    #[test]
    fn the_share_of_zeros_is_the_configured_one() {
        for (percent, zeros) in [(0, 0), (25, 128), (50, 256), (90, 456), (100, 504)] {
            let bytes = drawn(&Contents::new(1, percent), 3);
            for sector in bytes.chunks(SECTOR_BYTES) {
                let (drawn, rest) = sector.split_at(SECTOR_BYTES - zeros);
                assert!(rest.iter().all(|byte| *byte == 0));
                let random_zeros = drawn.iter().filter(|byte| **byte == 0).count();
                assert!(
                    random_zeros <= 2 + drawn.len() / 64,
                    "{random_zeros} zeros in the random bytes"
                );
            }
        }
    }
}
