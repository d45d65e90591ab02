//! REPORT TARGET PORT GROUPS, and what a port lets through in each asymmetric access state (SPC-4 sections 5.15 and 6.37).
//!
//! Each portal is a target port and a group of its own. Their states change by the operator's word only ([`crate::Target::set_port_state`]): access is
//! implicit (TPGS 01b), and there is no SET TARGET PORT GROUPS.

use hakaru_wire::scsi::{AccessState, Cdb, PortGroup, Sense, emit_port_groups};

use crate::context::Device;
use crate::outcome::Outcome;

pub(super) fn report_target_port_groups(
    device: &mut Device<'_>,
    extended_header: bool,
    allocation_length: u32,
) -> Outcome {
    const ALTERED_BY_IMPLICIT_BEHAVIOUR: u8 = 2;
    let groups = device
        .ports
        .iter()
        .zip(1..)
        .map(|(port, number)| PortGroup {
            number,
            state: port.state,
            preferred: false,
            status: if port.changed {
                ALTERED_BY_IMPLICIT_BEHAVIOUR
            } else {
                0
            },
            ports: vec![number],
        });
    let groups: Vec<PortGroup> = groups.collect();
    // A change takes effect at once: no transition time.
    let data = emit_port_groups(&groups, extended_header.then_some(0));
    device.answer(&data, allocation_length)
}

/// Why a port in this state does not let a command through.
pub(super) fn refusal(state: AccessState, cdb: &Cdb) -> Option<Sense> {
    if matches!(
        state,
        AccessState::ActiveOptimized | AccessState::ActiveNonOptimized
    ) {
        return None;
    }
    // Allowed in every state (SPC-4 section 5.15.2.4.1).
    let always = matches!(
        cdb,
        Cdb::Inquiry { .. }
            | Cdb::ReportLuns { .. }
            | Cdb::ReportTargetPortGroups { .. }
            | Cdb::RequestSense { .. }
    );
    let in_standby = matches!(
        cdb,
        Cdb::LogSense(_)
            | Cdb::ModeSelect(_)
            | Cdb::ModeSense(_)
            | Cdb::PersistentReserveIn { .. }
            | Cdb::PersistentReserveOut(_)
    );
    match state {
        AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => None,
        _ if always => None,
        AccessState::Standby if in_standby => None,
        AccessState::Standby => Some(Sense::TARGET_PORT_IN_STANDBY_STATE),
        AccessState::Unavailable => Some(Sense::TARGET_PORT_IN_UNAVAILABLE_STATE),
        AccessState::Transitioning => Some(Sense::ASYMMETRIC_ACCESS_STATE_TRANSITION),
    }
}
