//! Units and virtual time.
//!
//! A core never reads a clock: its callers pass a [`Time`], in nanoseconds from an origin that the
//! caller chooses. The origin is that of `CLOCK_MONOTONIC` in an engine and 0 at the start of a
//! simulation.
#![forbid(unsafe_code)]

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes in a KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

/// An instant, in nanoseconds from the caller's origin. Saturates after 584 years.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// The latest instant, which never occurs.
    pub const MAX: Time = Time(u64::MAX);

    /// Returns the instant `s` seconds after the origin. `s` is finite and not negative.
    #[must_use]
    pub fn from_secs_f64(s: f64) -> Time {
        debug_assert!(s.is_finite() && s >= 0.0);
        Time((s * 1e9).round() as u64)
    }

    /// Returns the number of nanoseconds from the origin.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns the number of seconds from the origin.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time from `earlier` to `self`. Zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the number of nanoseconds from `earlier` to `self`. 0 if `earlier` is later.
    #[must_use]
    pub const fn ns_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(d.as_nanos() as u64))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9}s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_a_later_instant_is_zero() {
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
    }

    #[test]
    fn adding_past_the_end_of_time_saturates() {
        assert_eq!(Time(u64::MAX - 1) + Duration::from_secs(1), Time::MAX);
    }
}
