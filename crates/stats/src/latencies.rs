//! Latencies of reads and of writes, recorded separately.
use crate::latency::Latency;

/// Latencies of one engine's requests, separate for reads and writes. There is one per engine and
/// one per group of VMs, not one per VM, because a histogram takes up to 270 KB.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Latencies of reads.
    pub read: Latency,
    /// Latencies of writes.
    pub write: Latency,
    /// Latencies of the requests of each group, by the position of the group.
    pub groups: Vec<GroupLatencies>,
}

/// Latencies of the requests of one group of VMs.
#[derive(Clone, Debug, Default)]
pub struct GroupLatencies {
    /// Latencies of reads.
    pub read: Latency,
    /// Latencies of writes.
    pub write: Latency,
}

impl Latencies {
    /// Returns the latencies of a group.
    pub fn group_mut(&mut self, group: u8) -> &mut GroupLatencies {
        let group = usize::from(group);
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, GroupLatencies::default);
        }
        &mut self.groups[group]
    }

    /// Returns the recent latency of reads or of writes, whichever is lower, ns. 0 before the first
    /// request.
    #[must_use]
    pub fn recent_ns(&self) -> u64 {
        match (self.read.recent_ns(), self.write.recent_ns()) {
            (0, other) | (other, 0) => other,
            (read, write) => read.min(write),
        }
    }
}
