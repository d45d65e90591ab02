//! Placement of a group's address space on its drives in extents.
//!
//! Image files of many VMs in one file system, or thin LUs in one pool, are not stored in order.
//! Neighbouring extents of an LU are far apart, and the working set of every VM is spread over all
//! cylinders in use. Here extent `e` of `n` is at `e·s mod n`, with `s` near `n/φ` and coprime to
//! `n`. This permutation spreads every run of neighbours evenly (the three-distance theorem),
//! without randomness and without a table.
use hakaru_contract::drive as config;

/// The permutation of one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents {
    /// Length of an extent, bytes.
    extent: u64,
    /// Number of extents per span. Each span is permuted separately.
    per_span: u64,
    stride: u64,
    /// First address after the last complete span. The rest of the group is placed in order.
    scattered_end: u64,
}

impl Extents {
    pub(crate) fn new(config: &config::Extents, capacity_bytes: u64) -> Extents {
        let per_span = config.span_bytes / config.extent_bytes;
        Extents {
            extent: config.extent_bytes,
            per_span,
            stride: stride(per_span),
            scattered_end: capacity_bytes - capacity_bytes % config.span_bytes,
        }
    }

    /// Returns the position of address `offset`, and the number of bytes that are contiguous from
    /// there, at most `length`.
    pub(crate) fn locate(&self, offset: u64, length: u64) -> (u64, u64) {
        if offset >= self.scattered_end {
            return (offset, length);
        }
        let (extent, within) = (offset / self.extent, offset % self.extent);
        let (span, place) = (extent / self.per_span, extent % self.per_span);
        let scattered =
            (u128::from(place) * u128::from(self.stride) % u128::from(self.per_span)) as u64;
        let start = (span * self.per_span + scattered) * self.extent + within;
        (start, length.min(self.extent - within))
    }
}

/// Returns the largest number up to the golden section of `n` that is coprime to `n`, at least 1.
fn stride(n: u64) -> u64 {
    let golden = (n as f64 * 0.618_033_988_749_895) as u64;
    (1..=golden).rev().find(|s| gcd(*s, n) == 1).unwrap_or(1)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(n: u64) -> Extents {
        Extents::new(
            &config::Extents {
                extent_bytes: 10,
                span_bytes: 10 * n,
            },
            10 * n * 2 + 5,
        )
    }

    #[test]
    fn every_extent_of_a_span_has_a_place_of_its_own_in_it() {
        for n in [1, 2, 3, 8, 640, 2560] {
            let mut places: Vec<u64> = (0..n)
                .map(|e| extents(n).locate(10 * n + 10 * e, 1).0 / 10 - n)
                .collect();
            places.sort_unstable();
            assert_eq!(places, (0..n).collect::<Vec<_>>(), "{n} extents");
        }
    }

    #[test]
    fn neighbouring_extents_are_spread_over_the_whole_span() {
        let mut places: Vec<u64> = (100..116)
            .map(|e| extents(640).locate(10 * e, 1).0 / 10)
            .collect();
        places.sort_unstable();
        let widest = places.windows(2).map(|w| w[1] - w[0]).max();
        assert!(widest < Some(2 * 640 / 16), "{places:?}");
    }

    #[test]
    fn a_range_ends_with_its_extent_and_the_rest_of_the_group_is_in_order() {
        assert_eq!(extents(8).locate(7, 9).1, 3);
        assert_eq!(extents(8).locate(162, 3), (162, 3));
    }
}
