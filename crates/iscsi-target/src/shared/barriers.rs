//! Actions that wait for the end of aborted tasks.
//!
//! A task that the storage executes cannot be recalled, so it is marked as aborted. The action that
//! must follow its end (the answer to a task management function, the login that replaces its
//! session) waits here, so that an aborted write never changes a block after the action.

use hakaru_send_queue::Key;
use hakaru_wire::iscsi::Itt;

use crate::id::ConnectionId;

/// An action that follows the end of the last of a set of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterAbort {
    /// Answers a task management function with Function complete.
    Answer { connection: ConnectionId, itt: Itt },
    /// Answers TARGET COLD RESET with Function complete and ends every session.
    ColdReset { connection: ConnectionId, itt: Itt },
    /// Ends a command that has aborted others.
    FinishTask { task: Key },
    /// Completes a login that replaces an older session.
    BeginSession { connection: ConnectionId },
}

/// An action, and the tasks that must end before it.
#[derive(Debug)]
struct Barrier {
    tasks: Vec<Key>,
    action: AfterAbort,
}

/// All waiting actions.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    waiting: Vec<Barrier>,
}

impl Barriers {
    /// Makes an action wait for the end of these tasks.
    pub(crate) fn add(&mut self, tasks: Vec<Key>, action: AfterAbort) {
        self.waiting.push(Barrier { tasks, action });
    }

    /// Whether this action waits.
    pub(crate) fn has(&self, action: AfterAbort) -> bool {
        self.waiting.iter().any(|barrier| barrier.action == action)
    }

    /// Returns the number of task management functions of a connection whose answers wait.
    pub(crate) fn answers_to(&self, peer: ConnectionId) -> usize {
        let is_answer = |barrier: &&Barrier| match barrier.action {
            AfterAbort::Answer { connection, .. } | AfterAbort::ColdReset { connection, .. } => {
                connection == peer
            }
            AfterAbort::FinishTask { .. } | AfterAbort::BeginSession { .. } => false,
        };
        self.waiting.iter().filter(is_answer).count()
    }

    /// Drops an action.
    pub(crate) fn cancel(&mut self, action: AfterAbort) {
        self.waiting.retain(|barrier| barrier.action != action);
    }

    /// Removes a task that has ended. Returns the actions that waited only for this task.
    pub(crate) fn end(&mut self, task: Key) -> Vec<AfterAbort> {
        let mut due = Vec::new();
        self.waiting.retain_mut(|barrier| {
            barrier.tasks.retain(|waited| *waited != task);
            if barrier.tasks.is_empty() {
                due.push(barrier.action);
            }
            !barrier.tasks.is_empty()
        });
        due
    }
}
