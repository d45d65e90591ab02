//! When the shell of the `fabric` engine wakes up and begins to write, so that frames reach an interface at their instants.
use std::time::Duration;

use hakaru_units::Time;

/// How long before an instant to begin to write a frame, so that the interface has it then. Each interface has its own: what is behind it, which takes
/// the frame in the same call, differs.
///
/// After a pause the code and data of a write, the kernel's too, have left the caches and are slow to come back: 5 to 50 µs, as the
/// interface's own stamp says, where a frame behind others takes two. What is written after a pause begins its way earlier by the median of what the last of
/// them took: half of them are early, by what they were faster, half late, and the delay on average is the one that was asked for. What follows another
/// closely begins at its instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lead {
    /// What the last writes after a pause took, ns; the oldest is at `next`.
    took: [u64; Lead::KEPT],
    /// How many of those there are.
    known: usize,
    next: usize,
    /// Their median, ns.
    ns: u64,
    /// When something was written to this interface last.
    wrote: Time,
}

impl Lead {
    const KEPT: usize = 31;
    const NS_MAX: u64 = 60_000;
    const PAUSE_NS: u64 = 200_000;

    /// When to begin to write what is due at `due`, as things stand.
    pub(super) fn begin(&self, due: Time) -> Time {
        if self.after_pause(due) {
            Time(due.as_ns().saturating_sub(self.ns))
        } else {
            due
        }
    }

    /// Whether what is written at `at` is the first after a pause.
    pub(super) fn after_pause(&self, at: Time) -> bool {
        at.ns_since(self.wrote) > Self::PAUSE_NS
    }

    /// What is written after a pause should be known so much before it is due.
    pub(super) fn duration(&self) -> Duration {
        Duration::from_nanos(self.ns)
    }

    /// Something was written.
    pub(super) fn wrote(&mut self, at: Time) {
        self.wrote = at;
    }

    /// What was written after a pause took so long to reach the interface.
    pub(super) fn took(&mut self, ns: u64) {
        self.took[self.next] = ns;
        self.next = (self.next + 1) % Self::KEPT;
        self.known = (self.known + 1).min(Self::KEPT);
        let mut sorted = self.took;
        let sorted = &mut sorted[..self.known];
        sorted.sort_unstable();
        self.ns = sorted[self.known / 2].min(Self::NS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_is_the_median_of_the_last_writes_and_for_the_first_frame_after_a_pause() {
        let mut lead = Lead::default();
        lead.took(30_000);
        assert_eq!(lead.duration(), Duration::from_micros(30), "at once");
        lead.took(9_000);
        lead.took(10_000);
        assert_eq!(
            lead.duration(),
            Duration::from_micros(10),
            "one that took long does not last"
        );
        for n in 0..20_000_u64 {
            lead.took(10_000 + n * 7919 % 100 * 100);
        }
        let ns = lead.duration().as_nanos() as u64;
        assert!((13_500..=16_500).contains(&ns), "{ns}");
        lead.wrote(Time(1_000_000));
        assert_eq!(lead.begin(Time(1_100_000)), Time(1_100_000));
        assert_eq!(lead.begin(Time(2_000_000)), Time(2_000_000 - ns));
        for _ in 0..Lead::KEPT {
            lead.took(1_000_000);
        }
        assert_eq!(lead.duration(), Duration::from_nanos(Lead::NS_MAX));
    }
}
