//! Accesses to LUs that wait for the storage, and accesses that it may end early.

use std::collections::VecDeque;

use hakaru_scsi_device::{Background, Io, IoId};
use hakaru_send_queue::{Key, Slab};

use crate::task::Task;

/// Accesses for the storage.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    pub(crate) ready: VecDeque<Io>,
    pub(crate) background: Background,
    /// Accesses of aborted tasks.
    pub(crate) unwanted: VecDeque<IoId>,
}

impl Accesses {
    /// Lists an access that the storage may end early. The shell is not required to poll the list,
    /// so entries whose task has ended are dropped from time to time.
    pub(crate) fn list_unwanted(&mut self, key: Key, tasks: &Slab<Task>) {
        if self.unwanted.len() > 64 + 2 * tasks.len() {
            self.unwanted.retain(|id| tasks.get(id.0).is_some());
        }
        self.unwanted.push_back(IoId(key));
    }
}
