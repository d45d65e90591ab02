//! Access pattern of a VM: an endless, seeded stream of (operation, offset, length).
//!
//! Draws are independent, so the shares hold in the long run. The stream has no period that could
//! coincide with a period of the device.
use hakaru_contract::initiator::Pattern;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Read or write. The type has four bytes so that an [`Access`] has no padding, which would make
/// copies slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Op {
    /// Transfer from the volume.
    Read,
    /// Transfer to the volume.
    Write,
}

/// One access: operation and range, in bytes from the start of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Read or write.
    pub op: Op,
    /// First byte.
    pub offset_bytes: u64,
    /// Length, bytes.
    pub length_bytes: u32,
}

impl Access {
    /// Returns the offset of the first byte after the access.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes + u64::from(self.length_bytes)
    }

    /// Returns whether the two ranges share at least one byte.
    #[must_use]
    pub fn overlaps(&self, other: &Access) -> bool {
        self.offset_bytes < other.end_bytes() && other.offset_bytes < self.end_bytes()
    }
}

/// A range of a volume in bytes, of known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset_bytes: u64,
    /// Length, above 0.
    pub length_bytes: u64,
}

/// One access size.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u32,
    weight: u32,
    /// Alignment of random offsets, bytes.
    align_bytes: u64,
    /// Number of random offsets at which the access fits.
    offsets: u64,
}

/// Draws the accesses of one VM.
#[derive(Clone, Debug)]
pub struct Accesses {
    rng: Pcg64Mcg,
    sizes: Box<[Size]>,
    weight_sum: u64,
    read_percent: u32,
    random_percent: u32,
    extent: Extent,
    /// End of the previous access, in bytes from the start of the extent.
    position: u64,
}

impl Accesses {
    /// Creates the stream. `pattern` was validated, and each of its sizes fits `extent`.
    #[must_use]
    pub fn new(pattern: &Pattern, extent: Extent, seed: u64) -> Accesses {
        debug_assert!(
            pattern
                .sizes
                .iter()
                .all(|s| u64::from(s.bytes) <= extent.length_bytes)
        );
        let sizes = pattern.sizes.iter().map(|size| {
            let align_bytes = u64::from(pattern.align_bytes.unwrap_or(size.bytes));
            Size {
                bytes: size.bytes,
                weight: size.weight,
                align_bytes,
                offsets: (extent.length_bytes - u64::from(size.bytes)) / align_bytes + 1,
            }
        });
        Accesses {
            rng: Pcg64Mcg::seed_from_u64(seed),
            sizes: sizes.collect(),
            weight_sum: pattern.sizes.iter().map(|s| u64::from(s.weight)).sum(),
            read_percent: pattern.read_percent.into(),
            random_percent: pattern.random_percent.into(),
            extent,
            position: 0,
        }
    }

    /// Draws the next access.
    #[inline]
    pub fn draw(&mut self) -> Access {
        let size = self.draw_size();
        let length_bytes = size.bytes;
        let op = if self.chance(self.read_percent) {
            Op::Read
        } else {
            Op::Write
        };
        let offset = if self.chance(self.random_percent) {
            // Uniform over all offsets.
            self.rng.random_range(0..size.offsets) * size.align_bytes
        } else if self.position + u64::from(length_bytes) <= self.extent.length_bytes {
            self.position
        } else {
            0
        };
        self.position = offset + u64::from(length_bytes);
        Access {
            op,
            offset_bytes: self.extent.offset_bytes + offset,
            length_bytes,
        }
    }

    #[inline]
    fn draw_size(&mut self) -> Size {
        if let [only] = *self.sizes {
            return only;
        }
        let mut drawn = self.rng.random_range(0..self.weight_sum);
        for &size in &self.sizes {
            let weight = u64::from(size.weight);
            if drawn < weight {
                return size;
            }
            drawn -= weight;
        }
        unreachable!("drawn below the sum of all weights")
    }

    /// Returns true in `percent` of all calls. 0 and 100 consume no random number.
    #[inline]
    fn chance(&mut self, percent: u32) -> bool {
        match percent {
            0 => false,
            100 => true,
            _ => self.rng.random_range(0..100u32) < percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakaru_contract::initiator::SizeWeight;

    const KIB: u64 = 1024;

    fn pattern(read_percent: u8, random_percent: u8, sizes: &[(u32, u32)]) -> Pattern {
        let sizes = sizes
            .iter()
            .map(|&(bytes, weight)| SizeWeight { bytes, weight })
            .collect();
        Pattern {
            sizes,
            read_percent,
            random_percent,
            align_bytes: None,
        }
    }

    fn extent(offset_bytes: u64, length_bytes: u64) -> Extent {
        Extent {
            offset_bytes,
            length_bytes,
        }
    }

    /// Returns the sum over all bins of (observed - expected)^2 / expected.
    fn chi_square(observed: &[u64], expected: f64) -> f64 {
        observed
            .iter()
            .map(|&n| (n as f64 - expected).powi(2) / expected)
            .sum()
    }

    #[test]
    fn sequential_stream_is_contiguous_and_wraps_at_the_end_of_the_region() {
        let mut accesses = Accesses::new(
            &pattern(100, 0, &[(4096, 1)]),
            extent(64 * KIB, 10 * KIB),
            1,
        );
        let offsets: Vec<u64> = (0..5).map(|_| accesses.draw().offset_bytes).collect();
        assert_eq!(offsets, [64 * KIB, 68 * KIB, 64 * KIB, 68 * KIB, 64 * KIB]);
    }

    #[test]
    fn same_seed_gives_the_same_stream_and_another_seed_another() {
        let p = pattern(70, 100, &[(4096, 1), (8192, 3)]);
        let draw = |seed| {
            let mut accesses = Accesses::new(&p, extent(0, 1 << 30), seed);
            (0..100).map(move |_| accesses.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn every_access_lies_in_the_region_and_is_aligned() {
        let mut p = pattern(50, 60, &[(512, 1), (65_536, 1), (1 << 20, 1)]);
        p.align_bytes = Some(4096);
        let region = extent(3 << 20, (2 << 20) + 512);
        let mut accesses = Accesses::new(&p, region, 3);
        for _ in 0..20_000 {
            let access = accesses.draw();
            assert!(access.offset_bytes >= region.offset_bytes);
            assert!(access.end_bytes() <= region.offset_bytes + region.length_bytes);
            assert_eq!(access.offset_bytes % 512, 0);
        }
    }

    #[test]
    fn an_access_as_long_as_the_region_has_one_offset() {
        let mut accesses = Accesses::new(&pattern(0, 100, &[(8192, 1)]), extent(512, 8192), 9);
        assert!((0..100).all(|_| accesses.draw().offset_bytes == 512));
    }

    /// 99.9 % points of chi-square: 10.83 (1 degree of freedom), 148.2 (99), 149.4 (100).
    #[test]
    fn shares_of_reads_sizes_and_offsets_pass_a_chi_square_test() {
        let n = 200_000u64;
        let mut accesses = Accesses::new(
            &pattern(70, 100, &[(4096, 1), (8192, 3)]),
            extent(0, 100 * 8192),
            42,
        );
        let (mut reads, mut large, mut offsets) = (0u64, 0u64, vec![0u64; 100]);
        for _ in 0..n {
            let access = accesses.draw();
            reads += u64::from(access.op == Op::Read);
            if access.length_bytes == 8192 {
                large += 1;
                offsets[(access.offset_bytes / 8192) as usize] += 1;
            }
        }
        let two_bins = |hits: u64, share: f64| {
            let expected = n as f64 * share;
            (hits as f64 - expected).powi(2) * (1.0 / expected + 1.0 / (n as f64 - expected))
        };
        assert!(two_bins(reads, 0.70) < 10.83, "{reads} reads of {n}");
        assert!(two_bins(large, 0.75) < 10.83, "{large} large of {n}");
        let x2 = chi_square(&offsets, large as f64 / 100.0);
        assert!(x2 < 148.2, "offsets: chi-square {x2}");
    }

    #[test]
    fn share_of_random_offsets_passes_a_chi_square_test() {
        let n = 100_000u64;
        let mut accesses = Accesses::new(&pattern(100, 30, &[(4096, 1)]), extent(0, 1 << 40), 5);
        let mut expected_next = 0;
        let mut jumps = 0u64;
        for _ in 0..n {
            let access = accesses.draw();
            jumps += u64::from(access.offset_bytes != expected_next);
            expected_next = access.end_bytes();
        }
        let expected = n as f64 * 0.30;
        let x2 = (jumps as f64 - expected).powi(2) * (1.0 / expected + 1.0 / (n as f64 * 0.70));
        assert!(x2 < 10.83, "{jumps} jumps of {n}");
    }
}
