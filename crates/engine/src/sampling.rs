//! Schedule of the samples. Samples are due at the start instant and after every interval, so that
//! all engines of a lab sample at the same instants.
use std::time::Duration;

use hakaru_units::Time;

use crate::failure::Failure;

/// Sampling instants of one engine.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    interval: Duration,
    next: Option<Time>,
    missed: u64,
}

impl Schedule {
    /// Creates a schedule. No sample is due before [`Schedule::start`].
    ///
    /// # Errors
    /// `interval_ms` is not 100 to 60 000.
    pub fn new(interval_ms: u32) -> Result<Schedule, Failure> {
        if !(100..=60_000).contains(&interval_ms) {
            let message = format!("sample_interval_ms is {interval_ms}; it must be 100 to 60000");
            return Err(Failure::usage(message, "correct the configuration"));
        }
        Ok(Schedule::every(Duration::from_millis(interval_ms.into())))
    }

    /// Creates a schedule like [`Schedule::new`], with an interval that was checked and is not
    /// zero.
    pub fn every(interval: Duration) -> Schedule {
        Schedule {
            interval,
            next: None,
            missed: 0,
        }
    }

    /// Returns the number of instants that passed without a sample, because the previous sample was
    /// late.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Makes the first sample due at `at`.
    pub fn start(&mut self, at: Time) {
        self.next = Some(at);
    }

    /// Returns the instant of the next sample.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        self.next
    }

    /// Returns whether a sample is due. If so, the next one is due at the first instant of the grid
    /// after `now`, so that delays neither accumulate nor cause a burst of samples.
    pub fn due(&mut self, now: Time) -> bool {
        let Some(next) = self.next.filter(|next| *next <= now) else {
            return false;
        };
        let interval = self.interval.as_nanos() as u64;
        let passed = now.ns_since(next) / interval + 1;
        self.missed += passed - 1;
        self.next = Some(next + Duration::from_nanos(passed * interval));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stay_on_the_grid_of_the_start_instant_however_late_they_are_taken() {
        let mut schedule = Schedule::new(1000).unwrap();
        assert!(!schedule.due(Time::MAX));
        schedule.start(Time(500));
        assert!(!schedule.due(Time(499)));
        assert!(schedule.due(Time(1_700_000_000)));
        assert_eq!(schedule.next(), Some(Time(2_000_000_500)));
        assert!(!schedule.due(Time(1_900_000_000)));
        assert!(schedule.due(Time(2_000_000_500)));
        // The sample at 1.7 s stands for the missed sample at 1 s.
        assert_eq!(schedule.missed(), 1);
        assert!(schedule.due(Time(5_100_000_000)));
        assert_eq!(schedule.missed(), 3);
        assert_eq!(schedule.next(), Some(Time(6_000_000_500)));
    }
}
