//! Rate limit of a job: a token bucket, kept as the instant at which the next bytes may be sent
//! (GCRA, ITU-T I.371).
use std::time::Duration;

use hakaru_units::Time;

/// Longest delay that a late reader may catch up. It is long enough that a late wake-up costs no
/// throughput, and short enough that the burst is negligible.
const SLACK: Duration = Duration::from_millis(10);

/// A rate limit. In any interval `t`, at most rate × (t + 10 ms) plus one block are admitted.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    bytes_per_s: u64,
    due: Time,
}

impl Pace {
    /// Creates a limit of `bytes_per_s`, at least 1. The first bytes are admitted at once.
    #[must_use]
    pub fn new(bytes_per_s: u64) -> Pace {
        Pace {
            bytes_per_s,
            due: Time::ZERO,
        }
    }

    /// Returns when the next bytes are admitted.
    #[must_use]
    pub fn due(&self) -> Time {
        self.due
    }

    /// Admits `bytes`, or returns false if it is too early.
    pub fn take(&mut self, now: Time, bytes: u64) -> bool {
        if now < self.due {
            return false;
        }
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        let start = self
            .due
            .max(Time(now.as_ns().saturating_sub(SLACK.as_nanos() as u64)));
        self.due = start + Duration::from_nanos(ns as u64);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_polls_at_every_deadline_gets_exactly_the_rate() {
        let mut pace = Pace::new(125_000_000);
        let start = Time(7_000_000_000);
        let (mut now, mut bytes) = (start, 0);
        while now.ns_since(start) < 1_000_000_000 {
            while pace.take(now, 262_144) {
                bytes += 262_144;
            }
            now = pace.due();
        }
        // The rate, the slack that the first block may catch up, and the block itself.
        let bytes_max = 125_000_000 + 1_250_000 + 262_144;
        assert!((125_000_000..=bytes_max).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_late_reader_catches_up_ten_milliseconds_and_no_more() {
        let mut pace = Pace::new(1_000_000);
        assert!(pace.take(Time(1_000_000_000), 1000));
        // Six seconds later, 10 ms of them may be caught up, and a block is due.
        let now = Time(7_000_000_000);
        let mut taken = 0;
        while pace.take(now, 1000) {
            taken += 1;
        }
        assert_eq!(taken, 11);
    }
}
