//! When the shell of the `fabric` engine wakes up and begins to write, so that frames reach an interface at their instants.
use std::time::Duration;

use hakaru_units::Time;

/// How long before an instant to wake up, so that it is met: a kernel wakes a sleeper some 20 to 100 µs late.
///
/// Awake before its time the engine spins, so it does this only after a sleep of at least [`Sleep::LONG`] times that: it costs a tenth of
/// a core at most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sleep {
    /// About the 95th percentile of how late it woke, ns.
    early_ns: u64,
    /// When it wanted to wake up.
    wanted: Option<Time>,
}

impl Sleep {
    const EARLY_NS_MAX: u64 = 100_000;
    const LONG: u64 = 10;
    const STEP_NS: i64 = 200;

    /// When to wake up so as to be ready at `deadline`.
    pub(super) fn wake_for(&mut self, now: Time, deadline: Time) -> Time {
        let ahead = deadline.ns_since(now);
        self.wanted = None;
        if ahead > Self::LONG * self.early_ns {
            let wake = Time(deadline.as_ns() - self.early_ns);
            self.wanted = Some(wake);
            return wake;
        }
        if ahead <= self.early_ns {
            now
        } else {
            deadline
        }
    }

    /// It woke up with nothing else to do.
    pub(super) fn woke(&mut self, now: Time) {
        if let Some(wanted) = self.wanted.take().filter(|wanted| *wanted <= now) {
            // A step up nineteen times as long as the step down settles where one in twenty is later.
            let late = now.ns_since(wanted) > self.early_ns;
            let step = if late {
                19 * Self::STEP_NS
            } else {
                -Self::STEP_NS
            };
            self.early_ns = self
                .early_ns
                .saturating_add_signed(step)
                .min(Self::EARLY_NS_MAX);
        }
    }
}

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
    fn a_sleeper_wakes_early_enough_for_nineteen_of_twenty_instants() {
        let mut sleep = Sleep::default();
        let mut met = 0;
        for n in 1..=4000_u64 {
            let (now, deadline) = (Time(n * 10_000_000), Time(n * 10_000_000 + 5_000_000));
            let wake = sleep.wake_for(now, deadline);
            // Late by 0 to 49.9 µs, evenly.
            let woke = Time(wake.as_ns() + n * 7919 % 500 * 100);
            met += u64::from(n > 2000 && woke <= deadline);
            sleep.woke(woke);
        }
        assert!((1800..=1960).contains(&met), "{met} of 2000");
    }

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
