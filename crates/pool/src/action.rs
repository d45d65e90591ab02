//! Actions that a pool requests from its caller, and events that it reports.

use crate::commit::metadata::Batch;
use crate::place::GroupId;
use crate::place::Place;

/// Identifies an [`Action`] until [`crate::Pool::handle_action_done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub(crate) u64);

impl ActionId {
    /// Returns the number, which is unique in the life of a pool.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// An operation to carry out, in any order and concurrently with other actions, reads and writes.
#[derive(Debug)]
pub struct Action {
    /// Identifier for `handle_action_done`.
    pub id: ActionId,
    /// The operation.
    pub kind: ActionKind,
}

/// The operation of an [`Action`].
#[derive(Debug)]
pub enum ActionKind {
    /// Copy one page.
    Copy {
        /// Source.
        from: Place,
        /// Destination.
        to: Place,
        /// Length, bytes.
        length_bytes: u32,
    },
    /// Make a range read as zeros.
    Zero {
        /// Start of the range.
        place: Place,
        /// Length, bytes.
        length_bytes: u32,
    },
    /// Make a range read as zeros, and deallocate it if possible.
    Discard {
        /// Start of the range.
        place: Place,
        /// Length, bytes: whole pages.
        length_bytes: u64,
    },
    /// Flush everything written, copied, zeroed or discarded in these groups to stable storage.
    /// Concurrent operations may be excluded.
    Sync {
        /// The groups, at least one.
        groups: Vec<GroupId>,
    },
    /// Pass this batch to [`crate::commit::metadata::Store::commit`]. At most one is in progress.
    Commit(Box<Batch>),
}

/// Reason why an action failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionFailure {
    /// The file system behind a group is full.
    NoSpace,
    /// Any other error.
    Io,
}

/// An event to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Use has reached the soft threshold: UNIT ATTENTION, THIN PROVISIONING SOFT THRESHOLD
    /// REACHED.
    ThresholdCrossed,
    /// Use has fallen 2 percentage points below the threshold, which is armed again.
    ThresholdCleared,
    /// A sync or a commit failed. Only reads are served until the pool is opened again.
    ReadOnly,
}
