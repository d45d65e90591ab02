//! Actions that a pool asks its caller for, and events that it reports.

use crate::commit::metadata::Batch;
use crate::place::GroupId;
use crate::place::Place;

/// Names an [`Action`] until [`crate::Pool::handle_action_done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub(crate) u64);

impl ActionId {
    /// As a number; never the same twice in the life of a pool.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// Something to do, in any order with other actions, reads and writes, and beside them.
#[derive(Debug)]
pub struct Action {
    /// For `handle_action_done`.
    pub id: ActionId,
    /// The operation.
    pub kind: ActionKind,
}

/// An operation.
#[derive(Debug)]
pub enum ActionKind {
    /// Copy one page.
    Copy {
        /// From here.
        from: Place,
        /// To here.
        to: Place,
        /// Bytes.
        length_bytes: u32,
    },
    /// Make this range read as zeros.
    Zero {
        /// From here on.
        place: Place,
        /// Bytes.
        length_bytes: u32,
    },
    /// Make this range read as zeros and give its space back to whatever is below, where that can
    /// be done.
    Discard {
        /// From here on.
        place: Place,
        /// Bytes: whole pages.
        length_bytes: u64,
    },
    /// Put all that was written to, copied to, zeroed or discarded in these groups on stable
    /// storage. What is done beside this may be left out.
    Sync {
        /// The groups, at least one.
        groups: Vec<GroupId>,
    },
    /// Hand this to [`crate::commit::metadata::Store::commit`]. There is never more than one at a
    /// time.
    Commit(Box<Batch>),
}

/// Why an action failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionFailure {
    /// The file system behind a group is full.
    NoSpace,
    /// Anything else.
    Io,
}

/// Something to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Use has reached the soft threshold: UNIT ATTENTION, THIN PROVISIONING SOFT THRESHOLD
    /// REACHED.
    ThresholdCrossed,
    /// Use has fallen 2 percent points below the threshold, which is armed again.
    ThresholdCleared,
    /// A sync or a commit failed. Reads are served; everything else is refused until the pool is
    /// opened again.
    ReadOnly,
}
