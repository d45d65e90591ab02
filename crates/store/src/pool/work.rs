//! A pool's own work under way.
use hakaru_pool::{ActionFailure, ActionId, Place};

/// An action that has not ended.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) id: ActionId,
    pub(super) step: Step,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Reading the page that is copied.
    CopyRead {
        from: Place,
        to: Place,
        length: usize,
    },
    /// Writing the copy.
    CopyWrite { to: Place, bytes: Vec<u8> },
    /// Making a range read as zeros.
    Clear(Clear),
    /// Syncing groups: how many are left, and the first failure.
    Sync {
        left: usize,
        failure: Option<ActionFailure>,
    },
}

/// A range that is to read as zeros, from its beginning on.
#[derive(Debug)]
pub(super) struct Clear {
    pub(super) place: Place,
    pub(super) length_bytes: u64,
    pub(super) method: ClearMethod,
    /// Bytes that the request under way covers.
    pub(super) step_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClearMethod {
    Punch,
    Zero,
    /// Write zeros: the file system has neither.
    Write,
}
