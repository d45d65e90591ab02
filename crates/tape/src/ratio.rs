//! Compression: how many bytes of initiators a byte on the tape holds.

use crate::medium::GRANULE_BYTES;

/// Bytes of initiators for each byte on the tape, at least 1. The data itself is not compressed: the
/// ratio is a property that it is declared to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    millionths: u64,
}

const MILLION: u64 = 1_000_000;

impl Ratio {
    /// No compression.
    pub const ONE: Ratio = Ratio {
        millionths: MILLION,
    };

    /// Returns a ratio to six decimal places, at least 1.
    #[must_use]
    pub fn of(ratio: f64) -> Ratio {
        let millionths = (ratio * MILLION as f64).round() as u64;
        Ratio {
            millionths: millionths.max(MILLION),
        }
    }

    /// Returns the bytes on the tape that bytes of initiators occupy.
    #[must_use]
    pub fn stored_bytes(self, bytes: u64) -> u64 {
        scaled(bytes, MILLION, self.millionths)
    }

    /// Returns the bytes of initiators that bytes on the tape hold.
    #[must_use]
    pub fn taken_bytes(self, stored_bytes: u64) -> u64 {
        scaled(stored_bytes, self.millionths, MILLION)
    }

    /// Returns the bytes of initiators that a cartridge of a capacity takes, a multiple of
    /// [`GRANULE_BYTES`].
    #[must_use]
    pub fn cartridge_bytes(self, capacity_bytes: u64) -> u64 {
        let bytes = self.taken_bytes(capacity_bytes);
        bytes - bytes % GRANULE_BYTES
    }

    /// Returns the ratio in percent.
    #[must_use]
    pub fn percent(self) -> u64 {
        self.millionths / (MILLION / 100)
    }
}

/// Returns a product divided by a third value, rounded down.
fn scaled(bytes: u64, factor: u64, divisor: u64) -> u64 {
    let scaled = u128::from(bytes) * u128::from(factor) / u128::from(divisor);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_divided_and_multiplied() {
        let two = Ratio::of(2.0);
        assert_eq!((two.stored_bytes(1001), two.taken_bytes(500)), (500, 1000));
        assert_eq!((two.percent(), Ratio::of(2.5).percent()), (200, 250));
        assert_eq!(Ratio::of(1.0), Ratio::ONE);
        assert_eq!(Ratio::of(1.5).cartridge_bytes(1 << 20), 3 << 19);
        assert_eq!(Ratio::of(1.1).cartridge_bytes(5120), 5632);
        assert_eq!(Ratio::of(1.1).cartridge_bytes(5000), 5120);
        // A value that is no ratio.
        assert_eq!(
            (Ratio::of(0.5), Ratio::of(f64::NAN)),
            (Ratio::ONE, Ratio::ONE)
        );
        assert_eq!(Ratio::of(100.0).taken_bytes(u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn bytes_come_back_from_the_tape(ratio in 1.0..100.0, bytes in 0_u64..1 << 50) {
            let ratio = Ratio::of(ratio);
            let stored = ratio.stored_bytes(bytes);
            prop_assert!(stored <= bytes);
            let back = ratio.taken_bytes(stored);
            prop_assert!(back <= bytes && bytes - back <= 101, "{back} of {bytes}");
        }
    }
}
