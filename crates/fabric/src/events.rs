//! What is going to happen, in the order of time; at one instant in the order in which it was made.
//!
//! Most events follow one another: what one channel carries arrives in the order in which it was sent. So each source has a lane, a
//! queue in order of time, and the heap holds the first of each lane only: with thousands of frames on a long line it stays small.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hakaru_units::Time;

use crate::fabric::What;

/// Events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    lanes: Vec<VecDeque<Event>>,
    /// When the first event of a lane happens, and the lane.
    first: BinaryHeap<Reverse<(Time, u64, usize)>>,
    sequence: u64,
}

#[derive(Debug)]
struct Event {
    at: Time,
    sequence: u64,
    what: What,
}

impl Events {
    /// `lane`: where events mostly come in order; one that does not takes longer.
    pub(crate) fn push(&mut self, lane: usize, at: Time, what: What) {
        self.sequence += 1;
        let sequence = self.sequence;
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, VecDeque::new);
        }
        let events = &mut self.lanes[lane];
        let event = Event { at, sequence, what };
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
        // It is the lane's first now. What the heap says of the one that was is passed over when it comes up.
        self.first.push(Reverse((at, sequence, lane)));
    }

    /// When the next one happens.
    pub(crate) fn next(&self) -> Option<Time> {
        self.first.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next one, if it happens at `until` or before.
    pub(crate) fn pop_until(&mut self, until: Time) -> Option<(Time, What)> {
        loop {
            let Reverse((at, sequence, lane)) = *self.first.peek()?;
            if at > until {
                return None;
            }
            self.first.pop();
            let events = &mut self.lanes[lane];
            // Another came before it, which put it into the heap a second time when it happened itself.
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
            return Some((at, event.what));
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
            events.push(channel % 3, Time(*at), What::Free { channel });
        }
        let mut wanted: Vec<(u64, usize)> = times.into_iter().zip(0..).collect();
        wanted.sort_unstable();
        assert_eq!(events.next(), Some(Time(10)));
        assert!(events.pop_until(Time(9)).is_none());
        let mut seen = Vec::new();
        while let Some((at, What::Free { channel })) = events.pop_until(Time(100)) {
            seen.push((at.as_ns(), channel));
        }
        assert_eq!(seen, wanted);
        assert_eq!(events.next(), None);
    }
}
