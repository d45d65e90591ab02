//! Target ports.

use hakaru_wire::scsi::AccessState;

/// A target port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Asymmetric access state.
    pub state: AccessState,
    /// The cause of the last change of the state.
    pub change: PortChange,
}

/// The cause of a change of a port's state: STATUS CODE of REPORT TARGET PORT GROUPS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PortChange {
    /// The state has never changed.
    #[default]
    Never = 0,
    /// SET TARGET PORT GROUPS.
    Command = 1,
    /// The operator.
    Device = 2,
}
