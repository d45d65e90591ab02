//! Writes that wait for write budget, by session.
//!
//! A write waits because its session has used its own share, or because the budget of the target is
//! used up. Sessions of the first kind must not keep others waiting. The sessions take turns, and
//! the writes of a session keep their order.

use std::collections::VecDeque;

use hakaru_send_queue::Key;

use crate::id::ConnectionId;

/// Writes that wait for write budget. May name tasks and connections that have ended.
#[derive(Debug, Default)]
pub(crate) struct BudgetQueue {
    /// One queue per session with waiting writes, never empty. The session whose turn is next comes
    /// first.
    sessions: VecDeque<(ConnectionId, VecDeque<Key>)>,
    /// The budget of the target had no room for the last write that was tried. New writes must wait
    /// until it has, or a large write could wait for ever.
    pub(crate) is_short: bool,
}

impl BudgetQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Whether a new write of a session must wait for others.
    pub(crate) fn precedes(&self, session: ConnectionId) -> bool {
        self.is_short || self.sessions.iter().any(|(waiting, _)| *waiting == session)
    }

    /// Appends a write to its session's queue.
    pub(crate) fn push(&mut self, session: ConnectionId, write: Key) {
        let mut sessions = self.sessions.iter_mut();
        match sessions.find(|(waiting, _)| *waiting == session) {
            Some((_, queue)) => queue.push_back(write),
            None => self.sessions.push_back((session, VecDeque::from([write]))),
        }
    }

    /// Returns the first write of the session at `place` in the order of turns.
    pub(crate) fn first_at(&self, place: usize) -> Option<Key> {
        self.sessions.get(place)?.1.front().copied()
    }

    /// Removes the first write of the session at `place`, whose next turn comes after those of all
    /// others.
    pub(crate) fn leave(&mut self, place: usize) {
        if let Some((session, mut queue)) = self.sessions.remove(place) {
            queue.pop_front();
            if !queue.is_empty() {
                self.sessions.push_back((session, queue));
            }
        }
    }
}
