//! Actions that the pool has requested and that are not complete.

use std::collections::{BTreeMap, VecDeque};

use crate::action::{Action, ActionId, ActionKind};

/// The part of the pool that requested an action.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    /// A copy or zeroing for the access with this key.
    Access {
        key: usize,
        index: usize,
    },
    RoundSync,
    RoundCommit,
    Discard {
        index: usize,
    },
    RecycleSync,
}

/// Actions in progress.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    next: u64,
    pending: BTreeMap<ActionId, Pending>,
    queue: VecDeque<Action>,
}

impl Actions {
    /// Requests an action.
    pub(crate) fn start(&mut self, kind: ActionKind, pending: Pending) {
        let id = ActionId(self.next);
        self.next += 1;
        self.pending.insert(id, pending);
        self.queue.push_back(Action { id, kind });
    }

    /// Returns the next action for the caller.
    pub(crate) fn poll(&mut self) -> Option<Action> {
        self.queue.pop_front()
    }

    /// Removes a completed action and returns its purpose.
    ///
    /// # Panics
    /// If no action `id` is in progress. Each action completes exactly once.
    pub(crate) fn finish(&mut self, id: ActionId) -> Pending {
        self.pending
            .remove(&id)
            .expect("each action completes once")
    }

    /// Returns whether no action is in progress.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}
