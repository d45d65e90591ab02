//! Counters of links and switches.

/// Frames that were dropped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Frames for which a queue had no room.
    pub buffer: u64,
    /// Frames dropped early by RED.
    pub early: u64,
    /// Frames lost on the line, as configured.
    pub loss: u64,
    /// Frames longer than the link's MTU.
    pub mtu: u64,
    /// Frames offered while the link was down.
    pub down: u64,
}

impl Drops {
    /// Returns the sum over all causes.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.buffer + self.early + self.loss + self.mtu + self.down
    }

    pub(crate) fn add(&mut self, other: &Drops) {
        self.buffer += other.buffer;
        self.early += other.early;
        self.loss += other.loss;
        self.mtu += other.mtu;
        self.down += other.down;
    }
}

/// Counters of one direction of a link. At any instant
/// `frames_in + duplicated == frames_out + drops.all() + frames_now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Frames offered to the queue.
    pub frames_in: u64,
    /// Bytes of those frames, including FCS.
    pub bytes_in: u64,
    /// Frames that arrived at the other end.
    pub frames_out: u64,
    /// Bytes of those frames, including FCS.
    pub bytes_out: u64,
    /// Dropped frames.
    pub drops: Drops,
    /// Frames duplicated on the line, as configured.
    pub duplicated: u64,
    /// Frames in which a bit was flipped, as configured.
    pub corrupted: u64,
    /// Frames marked "congestion experienced" (ECN).
    pub marked: u64,
    /// Pauses that the other end requested (802.3x).
    pub pauses: u64,
    /// Time during which the direction was paused, ns.
    pub paused_ns: u64,
    /// Time during which the serialiser was busy, ns.
    pub busy_ns: u64,
    /// Frames queued, being sent or on the line.
    pub frames_now: u64,
    /// Bytes queued or being sent.
    pub queue_bytes_now: u64,
    /// Longest queue since the counters were last read, bytes.
    pub queue_peak_bytes_now: u64,
}

impl ChannelCounters {
    /// Calls `visitor` with the name and value of every counter.
    pub fn visit(&self, visitor: &mut dyn FnMut(&'static str, f64)) {
        let all = [
            ("frames_in", self.frames_in),
            ("bytes_in", self.bytes_in),
            ("frames_out", self.frames_out),
            ("bytes_out", self.bytes_out),
            ("dropped_buffer", self.drops.buffer),
            ("dropped_early", self.drops.early),
            ("dropped_loss", self.drops.loss),
            ("dropped_mtu", self.drops.mtu),
            ("dropped_down", self.drops.down),
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
            .for_each(|(name, value)| visitor(name, value as f64));
    }
}

/// Counters of a switch. At any instant
/// `frames_in + copied + originated == frames_out + taken + dropped() + frames_now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Frames received at its ports.
    pub frames_in: u64,
    /// Frames forwarded to its ports.
    pub frames_out: u64,
    /// Extra copies of frames without a known receiver, which leave through several ports.
    pub copied: u64,
    /// Frames originated by its router (ARP and ICMP).
    pub originated: u64,
    /// Frames addressed to its router.
    pub taken: u64,
    /// Frames whose tag the port does not accept.
    pub dropped_vlan: u64,
    /// Frames without an egress port, because the receiver is behind the ingress port, the VLAN has
    /// no other port, or the address is reserved for bridges.
    pub dropped_filtered: u64,
    /// Frames whose time to live has expired.
    pub dropped_ttl: u64,
    /// Frames without a route in its router.
    pub dropped_no_route: u64,
    /// Frames whose next hop did not answer ARP.
    pub dropped_unresolved: u64,
    /// Frames longer than its router may forward.
    pub dropped_mtu: u64,
    /// Frames waiting for an ARP reply.
    pub frames_now: u64,
}

impl SwitchCounters {
    /// Counts `frames` frames that leave through `ports` ports each.
    pub(crate) fn count_forwarded(&mut self, frames: u64, ports: u64) {
        self.frames_out += frames * ports;
        match ports.checked_sub(1) {
            Some(more) => self.copied += frames * more,
            None => self.dropped_filtered += frames,
        }
    }

    /// Returns the number of frames dropped, for all causes.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped_vlan
            + self.dropped_filtered
            + self.dropped_ttl
            + self.dropped_no_route
            + self.dropped_unresolved
            + self.dropped_mtu
    }

    /// Calls `visitor` with the name and value of every counter.
    pub fn visit(&self, visitor: &mut dyn FnMut(&'static str, f64)) {
        let all = [
            ("frames_in", self.frames_in),
            ("frames_out", self.frames_out),
            ("copied", self.copied),
            ("originated", self.originated),
            ("taken", self.taken),
            ("dropped_vlan", self.dropped_vlan),
            ("dropped_filtered", self.dropped_filtered),
            ("dropped_ttl", self.dropped_ttl),
            ("dropped_no_route", self.dropped_no_route),
            ("dropped_unresolved", self.dropped_unresolved),
            ("dropped_mtu", self.dropped_mtu),
            ("frames_now", self.frames_now),
        ];
        all.into_iter()
            .for_each(|(name, value)| visitor(name, value as f64));
    }
}
