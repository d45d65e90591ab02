//! Conversion of the kernel's timestamps.
use hakaru_units::Time;
use rustix::time::{ClockId, clock_gettime};

use crate::wait::clock;

/// Difference of `CLOCK_MONOTONIC` and `CLOCK_REALTIME`, the clock of the kernel's timestamps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    /// `CLOCK_MONOTONIC` minus `CLOCK_REALTIME`.
    difference_ns: i128,
    /// Instant at which the clocks were read.
    pub(super) now: Time,
}

impl Clocks {
    /// Reads both clocks.
    pub(crate) fn read() -> Clocks {
        let (now, real) = (clock::now(), clock_gettime(ClockId::Realtime));
        let real = i128::from(real.tv_sec) * 1_000_000_000 + i128::from(real.tv_nsec);
        Clocks {
            difference_ns: i128::from(now.as_ns()) - real,
            now,
        }
    }

    /// Converts a timestamp. `None` if it precedes the start of the monotonic clock.
    pub(crate) fn monotonic(self, realtime_ns: i128) -> Option<Time> {
        u64::try_from(realtime_ns + self.difference_ns)
            .ok()
            .map(Time)
    }
}
