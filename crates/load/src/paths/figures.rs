//! Counters of the paths of a host.
use hakaru_units::Time;

/// Cumulative counters of the paths of a host. Names and meanings are those of
/// `docs/reference/metrics.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Sessions that ended while the host used them.
    pub path_losses: u64,
    /// Times that a path became unusable, because its session ended or its access state changed.
    pub path_switches: u64,
    /// Times that a path became usable again.
    pub path_returns: u64,
    /// Commands sent again, on the same or another path.
    pub commands_repeated: u64,
    /// Lost paths whose commands were released to other paths. A path whose session returns before
    /// is not among them.
    pub failovers: u64,
    /// Sum over these of the time from the last answer over the path until the release.
    pub failover_ns_sum: u64,
    /// Lost paths whose next session was ready.
    pub failbacks: u64,
    /// Sum over these of the time from the loss until that session was ready.
    pub failback_ns_sum: u64,
    /// Longest time without a completed command while commands were outstanding.
    pub longest_gap_ns: u64,
    /// Longest time without a completed command while commands were outstanding, of those that ended
    /// after the counters were last taken, or that last.
    pub recent_gap_ns: u64,
    /// Number of usable paths.
    pub paths_usable: u64,
    /// Start of the current time without a completed command; `None` without commands.
    idle_since: Option<Time>,
}

impl PathCounters {
    /// Calls `visitor` with the name and value of every counter of the contract. Names that end in
    /// `_now` are gauges.
    pub fn visit(&self, visitor: &mut dyn FnMut(&'static str, f64)) {
        let all = [
            ("path_losses", self.path_losses),
            ("path_switches", self.path_switches),
            ("path_returns", self.path_returns),
            ("commands_repeated", self.commands_repeated),
            ("failovers", self.failovers),
            ("failover_ns_sum", self.failover_ns_sum),
            ("failbacks", self.failbacks),
            ("failback_ns_sum", self.failback_ns_sum),
            ("longest_gap_ns_now", self.longest_gap_ns),
            ("gap_ns_now", self.recent_gap_ns),
            ("paths_usable_now", self.paths_usable),
        ];
        all.into_iter()
            .for_each(|(name, value)| visitor(name, value as f64));
    }

    /// Records that the commands of a lost path were released after this time.
    pub(super) fn add_failover(&mut self, ns: u64) {
        self.failovers += 1;
        self.failover_ns_sum += ns;
    }

    /// Records that a lost path had a new session after this time.
    pub(super) fn add_failback(&mut self, ns: u64) {
        self.failbacks += 1;
        self.failback_ns_sum += ns;
    }

    /// Records that a command was submitted.
    pub(super) fn begin(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }

    /// Records that a command was completed. `left` is whether others are outstanding.
    pub(super) fn end(&mut self, now: Time, left: bool) {
        self.include_gap(now);
        self.idle_since = left.then_some(now);
    }

    /// Returns the counters with the current gap, if it is the longest.
    pub(super) fn until(mut self, now: Time) -> PathCounters {
        self.include_gap(now);
        self
    }

    /// Returns the counters as [`PathCounters::until`], and begins a new interval of the recent gap.
    pub(super) fn take(&mut self, now: Time) -> PathCounters {
        let taken = self.until(now);
        self.recent_gap_ns = 0;
        taken
    }

    fn include_gap(&mut self, now: Time) {
        if let Some(since) = self.idle_since {
            let gap_ns = now.ns_since(since);
            self.longest_gap_ns = self.longest_gap_ns.max(gap_ns);
            self.recent_gap_ns = self.recent_gap_ns.max(gap_ns);
        }
    }
}
