//! Changes of port states that are in progress.

use hakaru_units::Time;
use hakaru_wire::scsi::AccessState;

/// A change of a port's state that is in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition {
    pub(crate) portal: usize,
    /// State at the end.
    pub(crate) state: AccessState,
    /// Time of the end.
    pub(crate) at: Time,
}
