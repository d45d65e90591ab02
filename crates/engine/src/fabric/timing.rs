//! Lead times of the `fabric` engine. A write begins by the lead time before the frame is due, so
//! that the frame reaches the interface on time.
use std::time::Duration;

use hakaru_units::Time;

/// Lead time of one interface. Interfaces differ, because the receiver behind an interface
/// processes the frame within the same call.
///
/// After a pause, the code and data of a write, including those of the kernel, have left the
/// caches. The write then takes 5 to 50 µs (measured with the interface's own time stamps), while a
/// frame that follows others takes 2 µs. The first write after a pause therefore begins earlier, by
/// the median duration of the last such writes. Half of the frames are early, half are late, and
/// the mean delay is the configured one. A frame that closely follows another is written at its due
/// instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lead {
    /// Durations of the last writes after a pause, ns; the oldest is at `next`.
    durations: [u64; Lead::DURATIONS],
    /// Number of durations recorded.
    known: usize,
    next: usize,
    /// Median of the durations, ns.
    ns: u64,
    /// Instant of the last write to this interface.
    last_write: Time,
}

impl Lead {
    /// Number of durations of which the median is taken.
    const DURATIONS: usize = 31;
    /// Longest lead time, ns.
    const NS_MAX: u64 = 60_000;
    /// Shortest time without a write that counts as a pause, ns.
    const PAUSE_NS: u64 = 200_000;

    /// Returns the instant at which to begin writing a frame that is due at `due`.
    pub(super) fn begin(&self, due: Time) -> Time {
        if self.after_pause(due) {
            Time(due.as_ns().saturating_sub(self.ns))
        } else {
            due
        }
    }

    /// Returns whether a write at `at` is the first after a pause.
    pub(super) fn after_pause(&self, at: Time) -> bool {
        at.ns_since(self.last_write) > Self::PAUSE_NS
    }

    /// Returns the lead time of a write after a pause.
    pub(super) fn duration(&self) -> Duration {
        Duration::from_nanos(self.ns)
    }

    /// Records the instant of a write.
    pub(super) fn record_write(&mut self, at: Time) {
        self.last_write = at;
    }

    /// Records the time that a write after a pause took to reach the interface, ns.
    pub(super) fn record_duration(&mut self, ns: u64) {
        self.durations[self.next] = ns;
        self.next = (self.next + 1) % Self::DURATIONS;
        self.known = (self.known + 1).min(Self::DURATIONS);
        let mut sorted = self.durations;
        let sorted = &mut sorted[..self.known];
        sorted.sort_unstable();
        self.ns = sorted[self.known / 2].min(Self::NS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_is_the_median_of_the_last_writes_and_applies_to_the_first_frame_after_a_pause() {
        let mut lead = Lead::default();
        lead.record_duration(30_000);
        assert_eq!(lead.duration(), Duration::from_micros(30), "at once");
        lead.record_duration(9_000);
        lead.record_duration(10_000);
        assert_eq!(
            lead.duration(),
            Duration::from_micros(10),
            "one slow write does not move the median"
        );
        for n in 0..20_000_u64 {
            lead.record_duration(10_000 + n * 7919 % 100 * 100);
        }
        let ns = lead.duration().as_nanos() as u64;
        assert!((13_500..=16_500).contains(&ns), "{ns}");
        lead.record_write(Time(1_000_000));
        assert_eq!(lead.begin(Time(1_100_000)), Time(1_100_000));
        assert_eq!(lead.begin(Time(2_000_000)), Time(2_000_000 - ns));
        for _ in 0..Lead::DURATIONS {
            lead.record_duration(1_000_000);
        }
        assert_eq!(lead.duration(), Duration::from_nanos(Lead::NS_MAX));
    }
}
