//! Target ports.

use hakaru_wire::scsi::AccessState;

/// A target port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Asymmetric access state.
    pub state: AccessState,
    /// Whether the operator has ever changed the state.
    pub changed: bool,
}
