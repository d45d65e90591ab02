//! Histograms of the current interval and of the entire measuring phase.
use crate::Histogram;

/// Latencies of one kind of request, for the current interval and for the measuring phase.
///
/// A duration is recorded once, into the interval. Intervals are merged into the total when they
/// are taken. The total is therefore the sum of the intervals, and the hot path touches one
/// histogram.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    interval: Histogram,
    total: Histogram,
    recent_ns: u64,
}

/// Weight of the exponential mean [`Latency::recent_ns`], in durations.
const RECENT: u64 = 64;

impl Latency {
    /// Creates an empty record.
    #[must_use]
    pub fn new() -> Latency {
        Latency::default()
    }

    /// Records one duration.
    pub fn record_ns(&mut self, duration_ns: u64) {
        self.interval.record_ns(duration_ns);
        self.recent_ns = match self.recent_ns {
            0 => duration_ns,
            recent => recent - recent / RECENT + duration_ns / RECENT,
        };
    }

    /// Records a duration that belongs to the measuring phase, although its last interval was taken.
    pub fn record_after_phase_ns(&mut self, duration_ns: u64) {
        self.total.record_ns(duration_ns);
    }

    /// Returns the exponentially weighted mean of about the last 64 durations, ns. 0 before the
    /// first.
    #[must_use]
    pub fn recent_ns(&self) -> u64 {
        self.recent_ns
    }

    /// Ends the interval and passes its histogram to `read`. The counts are added to the total if
    /// `measured` is set, else dropped.
    pub fn take_interval<R>(&mut self, measured: bool, read: impl FnOnce(&Histogram) -> R) -> R {
        let result = read(&self.interval);
        if measured && !self.interval.is_empty() {
            self.total.merge(&self.interval);
        }
        self.interval.clear();
        result
    }

    /// Returns the sum of all measured intervals that were taken.
    #[must_use]
    pub fn total(&self) -> &Histogram {
        &self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_is_the_sum_of_the_measured_intervals() {
        let mut latency = Latency::new();
        latency.record_ns(1);
        latency.take_interval(false, |h| assert_eq!(h.count(), 1));
        let mut sum = Histogram::new();
        for interval in 1..=5u64 {
            (0..interval * 10).for_each(|i| latency.record_ns(i * 1_000));
            latency.take_interval(true, |h| sum.merge(h));
        }
        assert_eq!(latency.total(), &sum);
        assert_eq!(sum.count(), 150);
    }

    #[test]
    fn the_recent_mean_follows_within_a_few_times_64_durations() {
        let mut latency = Latency::new();
        assert_eq!(latency.recent_ns(), 0);
        latency.record_ns(1_000_000);
        assert_eq!(latency.recent_ns(), 1_000_000);
        (0..640).for_each(|_| latency.record_ns(100_000));
        assert!(
            (100_000..102_000).contains(&latency.recent_ns()),
            "{}",
            latency.recent_ns()
        );
    }

    #[test]
    fn a_duration_after_the_phase_is_in_the_total_only() {
        let mut latency = Latency::new();
        latency.record_ns(5);
        latency.take_interval(true, |_| ());
        latency.record_after_phase_ns(7);
        latency.take_interval(false, |h| assert!(h.is_empty()));
        assert_eq!(latency.total().count(), 2);
    }

    #[test]
    fn an_interval_begins_empty() {
        let mut latency = Latency::new();
        latency.record_ns(5);
        latency.take_interval(true, |_| ());
        latency.take_interval(true, |h| assert!(h.is_empty()));
        assert_eq!(latency.total().count(), 1);
    }
}
