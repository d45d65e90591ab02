//! A resource of a flash drive that serves in order of arrival: its controller, its interface, a
//! channel.
use hakaru_units::Time;

/// A resource that serves one piece of work at a time, in order of arrival.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    pub(super) free_at: Time,
    busy_ns: u64,
}

impl Line {
    /// Queues work that takes `ns`. Returns its end.
    pub(super) fn serve(&mut self, now: Time, ns: u64) -> Time {
        self.busy_ns += ns;
        self.free_at = Time(self.free_at.max(now).0 + ns);
        self.free_at
    }

    /// Returns the time spent serving until `now`, ns.
    pub(super) fn busy_until(&self, now: Time) -> u64 {
        self.busy_ns - self.free_at.ns_since(now)
    }
}
