//! A pool's own work in progress.
use hakaru_pool::{ActionFailure, ActionId, Place};

/// An action that has not ended.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) id: ActionId,
    pub(super) step: Step,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Reads the page to copy.
    CopyRead {
        from: Place,
        to: Place,
        length: usize,
    },
    /// Writes the copy.
    CopyWrite { to: Place, bytes: Vec<u8> },
    /// Makes a range read as zeros.
    Clear(Clear),
    /// Syncs groups. Holds the number of syncs in flight and the first failure.
    Sync {
        left: usize,
        failure: Option<ActionFailure>,
    },
}

/// Remainder of a range to clear.
#[derive(Debug)]
pub(super) struct Clear {
    pub(super) place: Place,
    pub(super) length_bytes: u64,
    pub(super) method: ClearMethod,
    /// Bytes that the request in flight covers.
    pub(super) step_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClearMethod {
    Punch,
    Zero,
    /// Writes zeros: the file system supports neither holes nor zeroing.
    Write,
}
