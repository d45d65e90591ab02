//! Conversion of the kernel's timestamps.
use hakaru_units::Time;

use crate::wait::clock;

/// Difference of `CLOCK_MONOTONIC` and `CLOCK_REALTIME`, the clock of the kernel's timestamps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clocks {
    /// `CLOCK_MONOTONIC` minus `CLOCK_REALTIME`.
    difference_ns: i128,
    /// Instant at which the clocks were read.
    pub(super) now: Time,
}

impl Clocks {
    /// Reads both clocks. A converted timestamp is never too early, so that an emulated link does not
    /// count a frame's delay from before its arrival.
    #[must_use]
    pub fn read() -> Clocks {
        let (_, realtime_ns, now) = clock::realtime_ns_between();
        Clocks {
            difference_ns: i128::from(now.as_ns()) - i128::from(realtime_ns),
            now,
        }
    }

    /// Converts a timestamp. `None` if it precedes the start of the monotonic clock.
    #[must_use]
    pub fn monotonic(self, realtime_ns: i128) -> Option<Time> {
        u64::try_from(realtime_ns + self.difference_ns)
            .ok()
            .map(Time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_converted_timestamp_is_never_before_its_instant() {
        for _ in 0..1000 {
            let (before, realtime_ns, _) = clock::realtime_ns_between();
            let at = Clocks::read().monotonic(realtime_ns.into()).unwrap();
            // The two clocks round to nanoseconds separately.
            assert!(at.as_ns() + 2 >= before.as_ns());
        }
    }
}
