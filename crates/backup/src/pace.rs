//! A job's rate limit: a token bucket, kept as the instant at which the next bytes may go (GCRA,
//! ITU-T I.371).
use std::time::Duration;

use hakaru_units::Time;

/// How far a job that fell behind may catch up. Long enough that a late wake-up costs no
/// throughput, short enough to be no burst to speak of.
const SLACK: Duration = Duration::from_millis(10);

/// Lets bytes go at a rate. In any span of time `t` at most rate × (t + 10 ms) and one block more
/// go.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    bytes_per_s: u64,
    due: Time,
}

impl Pace {
    /// Of `bytes_per_s`, at least 1; the first bytes may go at once.
    #[must_use]
    pub fn new(bytes_per_s: u64) -> Pace {
        Pace {
            bytes_per_s,
            due: Time::ZERO,
        }
    }

    /// When the next bytes may go.
    #[must_use]
    pub fn due(&self) -> Time {
        self.due
    }

    /// Lets `bytes` go if they may.
    pub fn take(&mut self, now: Time, bytes: u64) -> bool {
        if now < self.due {
            return false;
        }
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        let begun = self
            .due
            .max(Time(now.as_ns().saturating_sub(SLACK.as_nanos() as u64)));
        self.due = begun + Duration::from_nanos(ns as u64);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_looks_whenever_told_gets_exactly_the_rate() {
        let mut pace = Pace::new(125_000_000);
        let start = Time(7_000_000_000);
        let (mut now, mut bytes) = (start, 0);
        while now.ns_since(start) < 1_000_000_000 {
            while pace.take(now, 262_144) {
                bytes += 262_144;
            }
            now = pace.due();
        }
        // The rate, the slack that the first block may catch up, and that block.
        let most = 125_000_000 + 1_250_000 + 262_144;
        assert!((125_000_000..=most).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_late_reader_catches_up_ten_milliseconds_and_no_more() {
        let mut pace = Pace::new(1_000_000);
        assert!(pace.take(Time(1_000_000_000), 1000));
        // Six seconds later: 10 ms of it, and the block that is due now.
        let now = Time(7_000_000_000);
        let mut taken = 0;
        while pace.take(now, 1000) {
            taken += 1;
        }
        assert_eq!(taken, 11);
    }
}
