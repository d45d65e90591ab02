//! Changes of the states of port groups that are in progress.

use hakaru_units::Time;
use hakaru_wire::scsi::AccessState;

/// A change of a group's state that is in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition {
    /// Position of the group.
    pub(crate) group: usize,
    /// State at the end.
    pub(crate) state: AccessState,
    /// Time of the end.
    pub(crate) at: Time,
}
