//! Pending events in order of time, and in order of creation at the same instant.
//!
//! Most events of one source are created in order: frames on a channel arrive in the order in which
//! they were sent. Each source therefore has a lane, a queue in order of time, and the heap has
//! only the first event of each lane: with thousands of frames on a long line it stays small.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hakaru_units::Time;

use crate::train::Train;

/// An event of the fabric.
#[derive(Debug)]
pub(crate) enum EventKind {
    /// A train from an interface reaches its channel.
    Enter { port: usize, train: Train },
    /// The serialiser of a channel is idle again.
    Free { channel: usize },
    /// A train reaches the end of a channel. In front of a cut-through switch only its first bytes
    /// have arrived; the rest follows until `complete_at`.
    Arrive {
        channel: usize,
        train: Train,
        complete_at: Time,
    },
    /// A train is complete and may be forwarded.
    Offer {
        from: usize,
        egress: usize,
        train: Train,
    },
    /// A router stops waiting for neighbours that have not answered.
    Router { switch: usize },
}

/// Pending events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    lanes: Vec<VecDeque<Event>>,
    /// Instant of the first event of each lane, and the lane.
    first: BinaryHeap<Reverse<(Time, u64, usize)>>,
    sequence: u64,
}

#[derive(Debug)]
struct Event {
    at: Time,
    sequence: u64,
    kind: EventKind,
}

impl Events {
    /// Adds an event. Events of one `lane` should be added in order of time; an event out of order
    /// costs a search of the lane.
    pub(crate) fn push(&mut self, lane: usize, at: Time, kind: EventKind) {
        self.sequence += 1;
        let sequence = self.sequence;
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, VecDeque::new);
        }
        let events = &mut self.lanes[lane];
        let event = Event { at, sequence, kind };
        if events.back().is_some_and(|back| at < back.at) {
            let place = events.partition_point(|other| other.at <= at);
            events.insert(place, event);
            if place > 0 {
                return;
            }
        } else {
            events.push_back(event);
            if events.len() > 1 {
                return;
            }
        }
        // The event is now the first of its lane. The heap entry of the former first is skipped
        // when it reaches the top.
        self.first.push(Reverse((at, sequence, lane)));
    }

    /// Returns the instant of the next event.
    pub(crate) fn next(&self) -> Option<Time> {
        self.first.peek().map(|Reverse((at, ..))| *at)
    }

    /// Returns the next event if it happens at `until` or before.
    pub(crate) fn pop_until(&mut self, until: Time) -> Option<(Time, EventKind)> {
        loop {
            let Reverse((at, sequence, lane)) = *self.first.peek()?;
            if at > until {
                return None;
            }
            self.first.pop();
            let events = &mut self.lanes[lane];
            // The entry is stale: an earlier event was added to the lane, and its removal added a
            // second entry for this event.
            if events
                .front()
                .is_none_or(|event| event.sequence != sequence)
            {
                continue;
            }
            let event = events.pop_front()?;
            if let Some(next) = events.front() {
                self.first.push(Reverse((next.at, next.sequence, lane)));
            }
            return Some((at, event.kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_in_order_whatever_the_lane_and_the_order_of_making() {
        let mut events = Events::default();
        let times = [50, 20, 20, 90, 10, 60, 10, 70, 30, 30];
        for (channel, at) in times.iter().enumerate() {
            events.push(channel % 3, Time(*at), EventKind::Free { channel });
        }
        let mut wanted: Vec<(u64, usize)> = times.into_iter().zip(0..).collect();
        wanted.sort_unstable();
        assert_eq!(events.next(), Some(Time(10)));
        assert!(events.pop_until(Time(9)).is_none());
        let mut seen = Vec::new();
        while let Some((at, EventKind::Free { channel })) = events.pop_until(Time(100)) {
            seen.push((at.as_ns(), channel));
        }
        assert_eq!(seen, wanted);
        assert_eq!(events.next(), None);
    }
}
