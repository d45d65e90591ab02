//! Frames that enter the queue of a channel, and frames that its serialiser sends.
use hakaru_units::Time;

use super::{Fabric, Sink};
use crate::channel::Busy;
use crate::events::EventKind;
use crate::queue::Room;
use crate::train::Train;
use hakaru_contract::fabric::Forwarding;

/// Minimum time after the previous train on a channel for a train to be reported ahead through a
/// switch, ns. Under load, reporting ahead would double the events without benefit.
const ALONE_NS: u64 = 100_000;

impl Fabric {
    /// Handles a train from an interface that reaches the queue of its channel.
    pub(super) fn entered(&mut self, now: Time, port: usize, train: Train) {
        let port = &mut self.ports[port];
        port.entering_bytes -= train.bytes();
        let channel = port.ingress;
        self.channels[channel].offer(now, train, Room::Unlimited, &mut self.rng);
        self.start(now, channel);
    }

    /// Starts the next transmission of a channel, if it can send now.
    pub(super) fn start(&mut self, now: Time, channel: usize) {
        // Without a rate a transmission takes no time, and the next one starts at once.
        while let Some(busy) = self.send(now, channel) {
            if self.channels[channel].rate_bits_per_s().is_some() {
                self.schedule(busy.free_at, EventKind::Free { channel });
                return;
            }
            self.channels[channel].end_transmission(now);
        }
    }

    /// Sends the next train of a channel, if it can send now, and schedules the arrivals.
    fn send(&mut self, now: Time, channel: usize) -> Option<Busy> {
        let mut arrivals = core::mem::take(&mut self.arrivals);
        let busy = self.channels[channel].start(now, &mut self.rng, &mut |at, train| {
            arrivals.push((at, train))
        });
        let cuts_through = matches!(self.sinks[channel], Sink::Switch { switch, .. }
            if self.switches[switch].forwarding == Forwarding::CutThrough);
        let to_interface = matches!(self.sinks[channel], Sink::Port(_));
        let single = arrivals.len() == 1;
        for (complete_at, train) in arrivals.drain(..) {
            let is_alone = complete_at.ns_since(self.last_arrivals[channel]) > ALONE_NS;
            self.last_arrivals[channel] = complete_at;
            let at = match busy {
                Some(Busy {
                    header_at: Some(header_at),
                    ..
                }) if cuts_through && single => header_at.min(complete_at),
                _ if to_interface || is_alone && !cuts_through => {
                    Time(complete_at.as_ns().saturating_sub(self.ahead_ns))
                }
                _ => complete_at,
            };
            let kind = EventKind::Arrive {
                channel,
                train,
                complete_at,
            };
            self.schedule(at, kind);
        }
        self.arrivals = arrivals;
        busy
    }

    /// Adds an event to the lane of its source.
    pub(super) fn schedule(&mut self, at: Time, kind: EventKind) {
        let lane = match kind {
            EventKind::Enter { port, .. } => 3 * self.channels.len() + port,
            EventKind::Free { channel } => 3 * channel,
            EventKind::Arrive { channel, .. } => 3 * channel + 1,
            EventKind::Offer { from, .. } => 3 * from + 2,
            EventKind::Router { switch } => 3 * self.channels.len() + self.ports.len() + switch,
        };
        self.events.push(lane, at, kind);
    }

    /// Handles the end of a transmission.
    pub(super) fn freed(&mut self, now: Time, channel: usize) {
        self.channels[channel].end_transmission(now);
        self.start(now, channel);
        self.resume_senders(now, channel);
    }

    /// Resumes the channels that this channel's queue has paused, if the queue is down to a quarter
    /// of its limit.
    fn resume_senders(&mut self, now: Time, channel: usize) {
        if self.stopped_by[channel].is_empty() {
            return;
        }
        let low = self.limit_bytes(channel) / 4;
        if self.channels[channel].queue().bytes() <= low {
            for stopped in core::mem::take(&mut self.stopped_by[channel]) {
                self.channels[stopped].resume(now);
                self.start(now, stopped);
                self.resume_senders(now, stopped);
            }
        }
    }
}
