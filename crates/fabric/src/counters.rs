//! What happened to frames, counted.

/// Frames that were dropped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// No room in the queue.
    pub buffer: u64,
    /// Early, by RED.
    pub early: u64,
    /// Lost on the line, as asked.
    pub loss: u64,
    /// Longer than the link's MTU.
    pub mtu: u64,
}

impl Drops {
    /// All of them.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.buffer + self.early + self.loss + self.mtu
    }

    pub(crate) fn add(&mut self, other: &Drops) {
        self.buffer += other.buffer;
        self.early += other.early;
        self.loss += other.loss;
        self.mtu += other.mtu;
    }
}

/// One direction of a link. `frames_in + duplicated == frames_out + drops.all() + frames_now`, at any instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Offered to the queue.
    pub frames_in: u64,
    /// Bytes of those with FCS.
    pub bytes_in: u64,
    /// Arrived at the other end.
    pub frames_out: u64,
    /// Bytes of those with FCS.
    pub bytes_out: u64,
    /// Dropped.
    pub drops: Drops,
    /// Doubled on the line, as asked.
    pub duplicated: u64,
    /// With a bit turned over, as asked.
    pub corrupted: u64,
    /// Marked with "congestion experienced" (ECN).
    pub marked: u64,
    /// Times that the other end told this one to stop (802.3x).
    pub pauses: u64,
    /// How long it was stopped, ns.
    pub paused_ns: u64,
    /// How long the serialiser was busy, ns.
    pub busy_ns: u64,
    /// Waiting, being sent or on the line.
    pub frames_now: u64,
    /// Waiting or being sent.
    pub queue_bytes_now: u64,
    /// Longest queue since these counters were visited last.
    pub queue_peak_bytes_now: u64,
}

impl ChannelCounters {
    /// Every counter with its name.
    pub fn visit(&self, see: &mut dyn FnMut(&'static str, f64)) {
        let all = [
            ("frames_in", self.frames_in),
            ("bytes_in", self.bytes_in),
            ("frames_out", self.frames_out),
            ("bytes_out", self.bytes_out),
            ("dropped_buffer", self.drops.buffer),
            ("dropped_early", self.drops.early),
            ("dropped_loss", self.drops.loss),
            ("dropped_mtu", self.drops.mtu),
            ("duplicated", self.duplicated),
            ("corrupted", self.corrupted),
            ("marked", self.marked),
            ("pauses", self.pauses),
            ("paused_ns", self.paused_ns),
            ("busy_ns", self.busy_ns),
            ("frames_now", self.frames_now),
            ("queue_bytes_now", self.queue_bytes_now),
            ("queue_peak_bytes_now", self.queue_peak_bytes_now),
        ];
        all.into_iter()
            .for_each(|(name, value)| see(name, value as f64));
    }
}
