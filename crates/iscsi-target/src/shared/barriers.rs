//! Actions that wait for the end of aborted tasks.
//!
//! A task that the storage executes cannot be recalled. It is marked aborted; the action that must
//! follow its end (the answer to a task management function, the login that replaces its session)
//! waits here, so that an aborted write never changes a block afterwards.

use hakaru_send_queue::Key;
use hakaru_wire::iscsi::Itt;

use crate::id::ConnectionId;

/// The action that follows when the last of some tasks has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterAbort {
    /// A task management function is answered: function complete.
    Answer { connection: ConnectionId, itt: Itt },
    /// The same, and every session ends.
    ColdReset { connection: ConnectionId, itt: Itt },
    /// A command that has aborted others ends.
    FinishTask { task: Key },
    /// A login that replaces an older session is completed.
    BeginSession { connection: ConnectionId },
}

/// An action, and the tasks that must end before it.
#[derive(Debug)]
struct Barrier {
    tasks: Vec<Key>,
    then: AfterAbort,
}

/// All waiting actions.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    waiting: Vec<Barrier>,
}

impl Barriers {
    /// Has an action wait for the end of these tasks.
    pub(crate) fn add(&mut self, tasks: Vec<Key>, then: AfterAbort) {
        self.waiting.push(Barrier { tasks, then });
    }

    /// Whether an action waits.
    pub(crate) fn has(&self, then: AfterAbort) -> bool {
        self.waiting.iter().any(|barrier| barrier.then == then)
    }

    /// Drops an action.
    pub(crate) fn cancel(&mut self, then: AfterAbort) {
        self.waiting.retain(|barrier| barrier.then != then);
    }

    /// A task has ended: returns the actions that waited for nothing else.
    pub(crate) fn end(&mut self, task: Key) -> Vec<AfterAbort> {
        let mut due = Vec::new();
        self.waiting.retain_mut(|barrier| {
            barrier.tasks.retain(|waited| *waited != task);
            if barrier.tasks.is_empty() {
                due.push(barrier.then);
            }
            !barrier.tasks.is_empty()
        });
        due
    }
}
