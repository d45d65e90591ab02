//! Pending events in order of time, and in order of creation at the same instant.
//!
//! Most events of one source are created in order: frames on a channel arrive in the order in which
//! they were sent. Each source therefore has a lane, a queue in order of time. The heap has only
//! the first event of each lane, so it stays small even with thousands of frames on a long line.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hakaru_units::Time;

use crate::train::Train;

/// An event of the fabric.
#[derive(Debug)]
pub(crate) enum EventKind {
    /// A train from an interface reaches its channel.
    Enter { port: usize, train: Train },
    /// The serialiser of a channel becomes idle.
    Free { channel: usize },
    /// A train reaches the end of a channel, completely at `complete_at`. At a cut-through switch
    /// only its first bytes have arrived before. A train reported ahead has not arrived yet.
    Arrive {
        channel: usize,
        train: Train,
        complete_at: Time,
    },
    /// A train has arrived completely and enters the queue of `egress`.
    Offer {
        from: usize,
        egress: usize,
        train: Train,
    },
    /// A router's timeout for neighbours that have not answered expires.
    Router { switch: usize },
}

/// Pending events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    lanes: Vec<VecDeque<Event>>,
    /// First event of each lane: instant, sequence number and lane. Stale entries are skipped.
    first: BinaryHeap<Reverse<(Time, u64, usize)>>,
    /// Number of events created.
    sequence: u64,
}

#[derive(Debug)]
struct Event {
    at: Time,
    sequence: u64,
    kind: EventKind,
}

impl Events {
    /// Adds an event to a lane. Events should be added in order of time; an event out of order
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
        // The event is now the first of its lane. The heap entry of the previous first event is
        // stale and is skipped when it reaches the top.
        self.first.push(Reverse((at, sequence, lane)));
    }

    /// Returns the instant of the next event.
    pub(crate) fn next(&self) -> Option<Time> {
        self.first.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes and returns the next event, if it happens at `until` or earlier.
    pub(crate) fn pop_until(&mut self, until: Time) -> Option<(Time, EventKind)> {
        loop {
            let Reverse((at, sequence, lane)) = *self.first.peek()?;
            if at > until {
                return None;
            }
            self.first.pop();
            let events = &mut self.lanes[lane];
            // The entry is stale. An earlier event was added to the lane, and its removal added
            // another entry for this event.
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
    fn events_happen_in_order_regardless_of_lane_and_order_of_creation() {
        let mut events = Events::default();
        let times = [50, 20, 20, 90, 10, 60, 10, 70, 30, 30];
        for (channel, at) in times.iter().enumerate() {
            events.push(channel % 3, Time(*at), EventKind::Free { channel });
        }
        let mut expected: Vec<(u64, usize)> = times.into_iter().zip(0..).collect();
        expected.sort_unstable();
        assert_eq!(events.next(), Some(Time(10)));
        assert!(events.pop_until(Time(9)).is_none());
        let mut seen = Vec::new();
        while let Some((at, EventKind::Free { channel })) = events.pop_until(Time(100)) {
            seen.push((at.as_ns(), channel));
        }
        assert_eq!(seen, expected);
        assert_eq!(events.next(), None);
    }
}
