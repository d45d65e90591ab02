//! Waiting requests, in the order in which they are retried.

use std::collections::VecDeque;

use hakaru_units::Time;

use crate::access::in_flight::WaitFor;
use crate::access::request::{Request, RequestId};

/// A request that could not start.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) id: RequestId,
    pub(crate) request: Request,
    pub(crate) reason: WaitFor,
    /// Deadline at which the request fails if there is still no room. `None` if it has not waited
    /// for room yet.
    pub(crate) until: Option<Time>,
}

/// The waiting requests, oldest first.
#[derive(Debug, Default)]
pub(crate) struct WaitingQueue(VecDeque<Waiting>);

impl WaitingQueue {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, waiting: Waiting) {
        self.0.push_back(waiting);
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        self.0.pop_front()
    }

    /// Removes and returns the request `id`, if it waits.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Waiting> {
        let index = self.0.iter().position(|waiting| waiting.id == id)?;
        self.0.remove(index)
    }

    /// Returns when the first request that waits for room fails.
    pub(crate) fn room_deadline(&self) -> Option<Time> {
        let for_room = self.0.iter().filter(|w| w.reason == WaitFor::Room);
        for_room.filter_map(|waiting| waiting.until).min()
    }
}
