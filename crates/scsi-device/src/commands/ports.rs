//! REPORT and SET TARGET PORT GROUPS: the asymmetric access states of ports (SPC-4 sections 5.15,
//! 6.37 and 6.45).
//!
//! Each portal is a target port. The operator changes the states of port groups (implicit access),
//! and so may initiators if the LU allows it (explicit access). A change by a command takes effect
//! at once; one by the operator may have a transition.

use hakaru_wire::scsi::{
    AccessState, Cdb, FieldPointer, PortGroup, Sense, emit_port_groups, parse_port_states,
};

use super::info::{Availability, C, CommandInfo, Direction, Ports, Request, X};
use crate::context::Device;
use crate::outcome::{Notice, Outcome};
use crate::port::PortChange;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0xa3, 0xea, 0, 0, 0, 0, X, X, X, X, 0, C], Direction::In, execute).action(0x0a).harmless(Need::Nothing).ports(Ports::Every),
    CommandInfo::new(&[0xa4, 0x0a, 0, 0, 0, 0, X, X, X, X, 0, C], Direction::Out, execute).action(0x0a).of(Availability::ExplicitAccess).ports(Ports::Every).with_list(with_list),
];

/// Longest parameter list, bytes: a state for each of the groups that a target may have.
const LIST_BYTES_MAX: u32 = 4 + 4 * 256;

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::ReportTargetPortGroups {
            extended_header,
            allocation_length,
        } => report_target_port_groups(device, extended_header, allocation_length),
        Cdb::SetTargetPortGroups {
            parameter_list_length: 0,
        } => Outcome::GOOD,
        Cdb::SetTargetPortGroups {
            parameter_list_length: length_bytes,
        } if length_bytes <= LIST_BYTES_MAX => Outcome::Parameters {
            lu: request.lu,
            length_bytes,
        },
        Cdb::SetTargetPortGroups { .. } => Outcome::check(Sense::PARAMETER_LIST_LENGTH_ERROR),
        _ => request.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, request: &Request, list: &[u8]) -> Outcome {
    match request.cdb {
        Cdb::SetTargetPortGroups { .. } => set_target_port_groups(device, list),
        _ => request.of_another_family(),
    }
}

pub(super) fn report_target_port_groups(
    device: &mut Device<'_>,
    extended_header: bool,
    allocation_length: u32,
) -> Outcome {
    let groups = device.ports.groups().iter().enumerate();
    let groups = groups.map(|(index, group)| PortGroup {
        number: number(index),
        state: group.state,
        preferred: group.preferred,
        status: group.change as u8,
        ports: device.ports.members(index).map(number).collect(),
    });
    let groups: Vec<PortGroup> = groups.collect();
    let seconds = extended_header.then_some(device.transition_seconds);
    let data = emit_port_groups(&groups, seconds);
    device.answer(&data, allocation_length)
}

/// Returns the number of a port or group in SCSI, which counts from 1.
pub(super) fn number(index: usize) -> u16 {
    u16::try_from(index + 1).expect("there are at most 256 ports")
}

/// Sets the states of a list in its order, all of them or none. Every other nexus gets a unit
/// attention condition on every LU if a state has changed. The list is refused while the operator
/// changes the state of one of its groups, because the end of that change would undo it.
fn set_target_port_groups(device: &mut Device<'_>, list: &[u8]) -> Outcome {
    let Ok(states) = parse_port_states(list) else {
        return Outcome::check(Sense::PARAMETER_LIST_LENGTH_ERROR);
    };
    let groups = device.ports.groups();
    let mut new_states: Vec<AccessState> = groups.iter().map(|group| group.state).collect();
    let mut in_transition = false;
    for (position, (number, code)) in states.into_iter().enumerate() {
        let at = 4 + 4 * position;
        let group = usize::from(number).checked_sub(1);
        let Some(group) = group.filter(|group| *group < groups.len()) else {
            return refuse(at + 2);
        };
        match AccessState::from_code(code) {
            None | Some(AccessState::Transitioning) => return refuse(at),
            Some(state) => {
                in_transition |= groups[group].state == AccessState::Transitioning;
                new_states[group] = state;
            }
        }
    }
    if in_transition {
        return Outcome::check(Sense::ASYMMETRIC_ACCESS_STATE_TRANSITION);
    }
    let mut changed = false;
    for (group, state) in new_states.into_iter().enumerate() {
        changed |= device.ports.set_state(group, state, PortChange::Command);
    }
    if !changed {
        return Outcome::GOOD;
    }
    let sense = Sense::ASYMMETRIC_ACCESS_STATE_CHANGED;
    let units = device.units.numbers();
    let notices = units.map(|lu| Notice::Others { lu, sense });
    device.notices.extend(notices);
    Outcome::GOOD
}

/// Refuses the byte of a parameter list.
fn refuse(byte: usize) -> Outcome {
    Outcome::check(
        Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
            in_cdb: false,
            byte: byte as u16,
            bit: None,
        }),
    )
}
