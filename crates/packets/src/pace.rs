//! Due instants of the frames of a stream with a constant rate.

/// Nanoseconds per second, times the thousandths of a frame in which rates are given.
const NS_PER_S_TIMES_1000: u128 = 1_000_000_000_000;

/// A constant rate. All results are exact to the nanosecond however long a trial is, because each
/// is computed from the number of the frame, not from the previous frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Frames per 1000 s.
    millihertz: u64,
}

impl Pace {
    /// Returns the pace of a rate, rounded to a thousandth of a frame per second. `None` if that is
    /// not above 0.
    #[must_use]
    pub fn new(frames_per_s: f64) -> Option<Pace> {
        // The conversion saturates, and NaN becomes 0.
        let millihertz = (frames_per_s * 1000.0).round() as u64;
        (millihertz > 0).then_some(Pace { millihertz })
    }

    /// Returns the instant at which frame `number` is due, ns after the start. Saturates.
    #[must_use]
    pub fn due_ns(&self, number: u64) -> u64 {
        let due = u128::from(number) * NS_PER_S_TIMES_1000 / u128::from(self.millihertz);
        u64::try_from(due).unwrap_or(u64::MAX)
    }

    /// Returns the number of frames that are due before `ns` after the start. Saturates.
    #[must_use]
    pub fn due_before(&self, ns: u64) -> u64 {
        let due = (u128::from(ns) * u128::from(self.millihertz)).div_ceil(NS_PER_S_TIMES_1000);
        u64::try_from(due).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_that_does_not_divide_a_second_does_not_drift() {
        let pace = Pace::new(3.0).unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|k| pace.due_ns(k)),
            [0, 333_333_333, 666_666_666, 1_000_000_000]
        );
        let day = 86_400;
        assert_eq!(pace.due_ns(3 * day), day * 1_000_000_000);
        assert_eq!(pace.due_before(1_000_000_000), 3);
        assert_eq!(pace.due_before(1_000_000_001), 4);
        assert_eq!(pace.due_before(0), 0);
    }

    #[test]
    fn rates_are_rounded_to_thousandths_and_none_is_without_frames() {
        assert_eq!(Pace::new(0.0), None);
        assert_eq!(Pace::new(-1.0), None);
        assert_eq!(Pace::new(f64::NAN), None);
        assert_eq!(Pace::new(0.0004), None);
        assert_eq!(Pace::new(0.001).unwrap().due_ns(1), 1_000_000_000_000);
    }

    proptest! {
        #[test]
        fn as_many_frames_are_due_before_an_instant_as_have_a_due_instant_before_it(
            rate in 1_u64..2_000_000_000_000, ns in 0_u64..3_600_000_000_000,
        ) {
            let pace = Pace { millihertz: rate };
            let count = pace.due_before(ns);
            prop_assert!(count == 0 || pace.due_ns(count - 1) < ns);
            prop_assert!(pace.due_ns(count) >= ns);
        }

        #[test]
        fn a_due_instant_is_exact_to_the_nanosecond(rate in 1_u64..100_000_000_000, number in 0_u64..1_000_000_000) {
            let due = u128::from(Pace { millihertz: rate }.due_ns(number));
            let exact = u128::from(number) * NS_PER_S_TIMES_1000;
            prop_assume!(due < u128::from(u64::MAX));
            prop_assert!(due * u128::from(rate) <= exact);
            prop_assert!((due + 1) * u128::from(rate) > exact);
        }
    }
}
