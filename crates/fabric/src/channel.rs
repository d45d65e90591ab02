//! One direction of a link: queue, serialiser, line.
use core::time::Duration;

use hakaru_stats::Histogram;
use hakaru_units::Time;
use rand_pcg::Pcg64;

use crate::counters::ChannelCounters;
use crate::line::Line;
use crate::queue::{EgressQueue, Room};
use crate::train::{TAG_BYTES, Train};
use hakaru_contract::fabric::Direction;

/// Maximum duration of a train on the wire, ns (see [`Channel::bound_train`]). The frames of a
/// train reach the other end together, so this bounds the delay of the first of them compared with
/// a real wire. A single frame has no additional delay.
const TRAIN_NS_MAX: u64 = 10_000;
/// Maximum length of a train on a link without a rate.
const TRAIN_BYTES_MAX: u64 = 64 << 10;

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Channel {
    rate_bits_per_s: Option<u64>,
    /// Maximum length of a train. A longer single frame is sent nevertheless.
    train_bytes_max: u64,
    mtu_bytes: u32,
    queue: EgressQueue,
    line: Line,
    /// Number of bytes being sent; `None` if the serialiser is idle.
    sending_bytes: Option<u64>,
    /// Instant at which the last transmission ended.
    freed_at: Time,
    /// Remainder of the last transmission's time: a fraction of a nanosecond with the rate as
    /// denominator.
    remainder: u64,
    /// Number of queues that pause this channel.
    stops: u32,
    /// Instant at which the first of them paused it.
    stopped_at: Time,
    /// Whether the other end may pause this channel (802.3x).
    pub(crate) pause: bool,
    /// Whether the channel starts at a trunk port of a switch, so that its frames have tags.
    pub(crate) is_trunk: bool,
    /// Whether the link is down, so that frames offered to it are lost.
    pub(crate) is_down: bool,
    counters: ChannelCounters,
}

/// A transmission that has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy {
    /// Instant at which the serialiser becomes idle.
    pub(crate) free_at: Time,
    /// Instant at which the first 64 bytes of the first frame will have arrived. `None` if the line
    /// delays frames at random, or carries each frame of the train on its own.
    pub(crate) header_at: Option<Time>,
}

impl Channel {
    pub(crate) fn new(config: &Direction, mtu_bytes: u32, rng: &mut Pcg64) -> Channel {
        Channel {
            rate_bits_per_s: config.rate_bits_per_s,
            train_bytes_max: config.rate_bits_per_s.map_or(TRAIN_BYTES_MAX, |rate| {
                rate / 8 * TRAIN_NS_MAX / 1_000_000_000
            }),
            mtu_bytes,
            queue: EgressQueue::new(&config.queue),
            line: Line::new(config, rng),
            sending_bytes: None,
            freed_at: Time::ZERO,
            remainder: 0,
            stops: 0,
            stopped_at: Time::ZERO,
            pause: config.pause,
            is_trunk: false,
            is_down: false,
            counters: ChannelCounters::default(),
        }
    }

    pub(crate) const fn rate_bits_per_s(&self) -> Option<u64> {
        self.rate_bits_per_s
    }

    /// Returns the delay of the line, without jitter, ns.
    pub(crate) const fn delay_ns(&self) -> u64 {
        self.line.delay_ns()
    }

    /// Bounds the length of this channel's trains. A train leaves this queue and enters the next
    /// one at once. It could overfill a queue that is short or marks early, although single frames
    /// on a real wire would not, because others leave in between.
    pub(crate) fn bound_train(&mut self, bytes: u64) {
        self.train_bytes_max = self.train_bytes_max.min(bytes);
    }

    pub(crate) const fn queue(&self) -> &EgressQueue {
        &self.queue
    }

    /// Offers a train to the queue, which admits as much as `room` allows.
    pub(crate) fn offer(&mut self, now: Time, mut train: Train, room: Room, rng: &mut Pcg64) {
        // Frames from an interface (VLAN 0) stay as they are. Switches insert and remove tags.
        if train.vlan != 0 {
            train.set_tagged(self.is_trunk && train.vlan != 1);
        }
        let frames = u64::from(train.count);
        self.counters.frames_in += frames;
        self.counters.bytes_in += train.bytes();
        if self.is_down {
            self.counters.drops.down += frames;
            return;
        }
        // The MTU includes neither Ethernet header nor FCS. A tag lengthens the frame, not its
        // payload.
        if train.longest_bytes() > self.mtu_bytes + 18 + TAG_BYTES * u32::from(train.is_tagged()) {
            self.counters.drops.mtu += frames;
            return;
        }
        // RED needs the transmission time of a typical frame (500 bytes) to estimate how many would
        // have passed while the queue was empty.
        let serve_ns = self
            .rate_bits_per_s
            .map_or(0.0, |rate| 8e9 * 500.0 / rate as f64);
        let admission = self.queue.take(now, train, room, serve_ns, rng);
        self.counters.marked += u64::from(admission.marked);
        self.counters.drops.add(&admission.drops);
        self.counters.frames_now += u64::from(admission.taken);
    }

    /// Starts the next transmission if a frame is queued and the channel is neither busy nor
    /// paused. Calls `arrive` with each train that will arrive, and the instant.
    pub(crate) fn start(
        &mut self,
        now: Time,
        rng: &mut Pcg64,
        arrive: &mut dyn FnMut(Time, Train),
    ) -> Option<Busy> {
        if self.sending_bytes.is_some() || self.stops > 0 {
            return None;
        }
        let train = self.queue.next(self.train_bytes_max)?;
        let bytes = train.bytes();
        let first_wire = u64::from(train.longest_bytes()) + 20;
        let (train_ns, frame_ns) = (self.serialise(train.wire_bytes()), self.ns_of(first_wire));
        let free_at = now + Duration::from_nanos(train_ns);
        self.sending_bytes = Some(bytes);
        self.counters.busy_ns += train_ns;
        // The gap after the last frame keeps the serialiser busy, but the frame is complete before.
        let gap_ns = self.ns_of(20);
        let header_at = self.line.passes_whole(&train).then(|| {
            now + Duration::from_nanos(self.ns_of(64).min(frame_ns))
                + Duration::from_nanos(self.line.delay_ns())
        });
        let first = now + Duration::from_nanos(frame_ns.saturating_sub(gap_ns));
        let last = now + Duration::from_nanos(train_ns.saturating_sub(gap_ns));
        let impaired = self.line.pass(train, first, frame_ns, last, rng, arrive);
        self.counters.drops.loss += impaired.lost;
        self.counters.duplicated += impaired.duplicated;
        self.counters.corrupted += impaired.corrupted;
        self.counters.frames_now = self.counters.frames_now + impaired.duplicated - impaired.lost;
        Some(Busy { free_at, header_at })
    }

    /// Ends the current transmission.
    pub(crate) fn end_transmission(&mut self, now: Time) {
        if let Some(bytes) = self.sending_bytes.take() {
            self.queue.sent(now, bytes);
            self.freed_at = now;
        }
    }

    pub(crate) const fn freed_at(&self) -> Time {
        self.freed_at
    }

    /// Records that frames have reached the other end.
    pub(crate) fn arrived(&mut self, train: &Train) {
        self.counters.frames_out += u64::from(train.count);
        self.counters.bytes_out += train.bytes();
        self.counters.frames_now -= u64::from(train.count);
    }

    /// Pauses this channel on behalf of a queue at its other end.
    pub(crate) fn stop(&mut self, now: Time) {
        if self.stops == 0 {
            self.counters.pauses += 1;
            self.stopped_at = now;
        }
        self.stops += 1;
    }

    /// Ends the pause on behalf of one queue at its other end.
    pub(crate) fn resume(&mut self, now: Time) {
        self.stops -= 1;
        if self.stops == 0 {
            self.counters.paused_ns += now.ns_since(self.stopped_at);
        }
    }

    /// Returns the counters as of `now`, and resets the peak of the queue.
    pub(crate) fn counters(&mut self, now: Time) -> ChannelCounters {
        let stopped = if self.stops > 0 {
            now.ns_since(self.stopped_at)
        } else {
            0
        };
        ChannelCounters {
            queue_bytes_now: self.queue.bytes(),
            queue_peak_bytes_now: self.queue.take_peak(),
            paused_ns: self.counters.paused_ns + stopped,
            ..self.counters
        }
    }

    /// Returns the queue depths that frames met since the last call. `None` if no frame arrived.
    pub(crate) fn take_depths(&mut self) -> Option<Histogram> {
        self.queue.take_depths()
    }

    /// Returns the queue depths of all completed intervals.
    pub(crate) fn depths(&self) -> Option<&Histogram> {
        self.queue.depths()
    }

    /// Returns the time of the next transmission, ns. Carries the remainder over, so that the rate
    /// is exact in the long run.
    fn serialise(&mut self, wire_bytes: u64) -> u64 {
        let Some(rate) = self.rate_bits_per_s else {
            return 0;
        };
        let total = u128::from(wire_bytes) * 8_000_000_000 + u128::from(self.remainder);
        self.remainder = (total % u128::from(rate)) as u64;
        (total / u128::from(rate)) as u64
    }

    /// Returns the transmission time of a number of bytes, rounded down, ns.
    fn ns_of(&self, wire_bytes: u64) -> u64 {
        self.rate_bits_per_s
            .map_or(0, |rate| wire_bytes * 8_000_000_000 / rate)
    }
}
