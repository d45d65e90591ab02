//! Actions that the pool has asked for and that are not done.

use std::collections::{BTreeMap, VecDeque};

use crate::action::{Action, ActionId, ActionKind};

/// The part of the pool that an action is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    /// A copy or zeroing for the access under this key.
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

/// Actions under way.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    next: u64,
    pending: BTreeMap<ActionId, Pending>,
    queue: VecDeque<Action>,
}

impl Actions {
    /// Asks for an action.
    pub(crate) fn start(&mut self, kind: ActionKind, pending: Pending) {
        let id = ActionId(self.next);
        self.next += 1;
        self.pending.insert(id, pending);
        self.queue.push_back(Action { id, kind });
    }

    /// The next action that the caller does.
    pub(crate) fn poll(&mut self) -> Option<Action> {
        self.queue.pop_front()
    }

    /// The purpose of an action that is done.
    ///
    /// # Panics
    /// If there is no such action: each is answered once.
    pub(crate) fn finish(&mut self, id: ActionId) -> Pending {
        self.pending
            .remove(&id)
            .expect("an action is answered once")
    }

    /// Whether none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}
