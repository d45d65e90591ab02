//! Hosts with several paths to an LU.
mod set;
mod simulation;

use hakaru_wire::scsi::{AccessState, PortGroup};

/// Returns a target port group.
fn group(number: u16, state: AccessState) -> PortGroup {
    PortGroup {
        number,
        state,
        ..PortGroup::default()
    }
}
