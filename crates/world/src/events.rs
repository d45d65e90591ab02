//! The queue of what will happen, in order of time and, at one instant, in the order it was caused.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hakaru_units::Time;

/// What happens. VMs are named by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A direction of the wire has sent a segment and can take the next.
    WireFree(Direction),
    /// The oldest segment on its way in this direction arrives.
    Arrives(Direction),
    /// A VM asked to be called.
    VmTimer(usize),
    /// The target asked to be called.
    TargetTimer,
    /// The array model asked to be called.
    ArrayTimer,
}

/// Of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// From the VMs to the target.
    Up,
    /// From the target to the VMs.
    Down,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    made: u64,
}

impl Events {
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.made += 1;
        self.heap.push(Reverse((at, self.made, event)));
    }

    /// The next event if it happens by `until`.
    pub(crate) fn pop(&mut self, until: Time) -> Option<(Time, Event)> {
        match self.heap.peek() {
            Some(Reverse((at, ..))) if *at <= until => {
                self.heap.pop().map(|Reverse((at, _, event))| (at, event))
            }
            _ => None,
        }
    }
}

/// When a machine that asks to be called (`poll_timeout`) is in the queue, so that it is not there
/// again and again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer(Option<Time>);

impl Timer {
    /// Queues `event` at `wanted` unless the machine will be called by then anyway: an early call
    /// does no harm.
    pub(crate) fn want(
        &mut self,
        wanted: Option<Time>,
        now: Time,
        event: Event,
        events: &mut Events,
    ) {
        let Some(at) = wanted.map(|at| at.max(now)) else {
            return;
        };
        if self.0.is_none_or(|queued| at < queued) {
            self.0 = Some(at);
            events.push(at, event);
        }
    }

    /// The event queued for `now` has come. False if a sooner one came before it.
    pub(crate) fn fire(&mut self, now: Time) -> bool {
        let due = self.0.is_some_and(|queued| queued <= now);
        if due {
            self.0 = None;
        }
        due
    }
}
