//! Counter-based draws: each is a hash of the seed and of the place where it is used, so any of
//! them can be computed alone, on any machine.
use twox_hash::XxHash3_128;

/// Use of a draw. Two uses at one place are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Use {
    /// Size of a file.
    Size = 1,
    /// Folder of a file.
    Folder = 2,
    /// Parent of a folder.
    Parent = 3,
    /// Bytes of a block.
    Content = 4,
    /// Whether a block is a duplicate, and of which one.
    Duplicate = 5,
    /// Order in which a tool uses the files of a tree.
    Order = 6,
    /// Whether a tool reads or writes a file.
    Direction = 7,
    /// Operation of a user, and its file.
    Mix = 8,
    /// Think time of a user.
    Think = 9,
}

/// Returns 128 random bits for `of` at a place.
#[must_use]
pub fn bits(seed: u64, of: Use, place: [u32; 3], counter: u64) -> u128 {
    let mut key = [0; 24];
    key[..4].copy_from_slice(&(of as u32).to_le_bytes());
    for (bytes, part) in key[4..16].chunks_exact_mut(4).zip(place) {
        bytes.copy_from_slice(&part.to_le_bytes());
    }
    key[16..].copy_from_slice(&counter.to_le_bytes());
    XxHash3_128::oneshot_with_seed(seed, &key)
}

/// Returns a number above 0 and below 1, with 52 random bits.
#[must_use]
pub fn fraction(bits: u128) -> f64 {
    // 52 bits and a half are exactly representable, so 0 and 1 never occur.
    ((bits as u64 >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// Returns a number below `n`, which is not 0. The bias is below `n` / 2^64.
#[must_use]
pub fn below(bits: u128, n: u64) -> u64 {
    debug_assert!(n > 0);
    ((u128::from(bits as u64) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_of_neighbouring_places_are_uniform_and_uncorrelated() {
        let n = 100_000_u64;
        let drawn: Vec<f64> = (0..n)
            .map(|i| fraction(bits(7, Use::Size, [0, 0, i as u32], 0)))
            .collect();
        let mean = drawn.iter().sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 0.004, "{mean}");
        let lagged: f64 = drawn
            .windows(2)
            .map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5))
            .sum();
        assert!((lagged / n as f64 * 12.0).abs() < 0.015, "{lagged}");
    }

    #[test]
    fn a_fraction_never_reaches_its_bounds() {
        assert!(fraction(0) > 0.0);
        assert!(fraction(u128::MAX) < 1.0);
        assert_eq!(below(u128::MAX, 49), 48);
        assert_eq!(below(0, 49), 0);
    }
}
