//! Latencies of reads and of writes, recorded separately.
use crate::latency::Latency;

/// Latencies of one engine's requests, separate for reads and writes. There is one per engine, not
/// one per VM, because a histogram takes up to 270 KB.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Latencies of reads.
    pub read: Latency,
    /// Latencies of writes.
    pub write: Latency,
}

impl Latencies {
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
