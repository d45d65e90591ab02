//! Queue of future events, in order of time, and in order of insertion at the same instant.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hakaru_units::Time;

/// An event. Hosts are identified by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A direction of the wire has sent a segment and can send the next.
    WireFree(Direction),
    /// The oldest segment in transit in this direction arrives.
    Arrives(Direction),
    /// Deadline of a host.
    HostTimer(usize),
    /// Deadline of the target.
    TargetTimer,
    /// Deadline of the array model.
    ArrayTimer,
}

/// Direction of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// From the hosts to the target.
    Up,
    /// From the target to the hosts.
    Down,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
}

impl Events {
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, event)));
    }

    /// Removes and returns the next event, if it is due by `until`.
    pub(crate) fn pop(&mut self, until: Time) -> Option<(Time, Event)> {
        match self.heap.peek() {
            Some(Reverse((at, ..))) if *at <= until => {
                self.heap.pop().map(|Reverse((at, _, event))| (at, event))
            }
            _ => None,
        }
    }
}

/// Instant at which a machine's deadline (`poll_timeout`) is in the queue, so that each deadline is
/// queued only once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer(Option<Time>);

impl Timer {
    /// Queues `event` at `deadline`, unless an earlier deadline of the machine is already queued: a
    /// call of `handle_timeout` before the deadline has no effect.
    pub(crate) fn schedule(
        &mut self,
        deadline: Option<Time>,
        now: Time,
        event: Event,
        events: &mut Events,
    ) {
        let Some(at) = deadline.map(|at| at.max(now)) else {
            return;
        };
        if self.0.is_none_or(|queued| at < queued) {
            self.0 = Some(at);
            events.push(at, event);
        }
    }

    /// Accepts the event queued for `now`. Returns false if an earlier one replaced it.
    pub(crate) fn fire(&mut self, now: Time) -> bool {
        let due = self.0.is_some_and(|queued| queued <= now);
        if due {
            self.0 = None;
        }
        due
    }
}
