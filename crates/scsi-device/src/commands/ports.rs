//! REPORT TARGET PORT GROUPS, which reports the asymmetric access states of ports (SPC-4 sections
//! 5.15 and 6.37).
//!
//! Each portal is a target port and its own port group. Only the operator changes their states:
//! access is implicit (TPGS 01b), and SET TARGET PORT GROUPS is not supported.

use hakaru_wire::scsi::{Cdb, PortGroup, emit_port_groups};

use super::info::{C, CommandInfo, Direction, Ports, Request, X};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0xa3, 0xea, 0, 0, 0, 0, X, X, X, X, 0, C], Direction::In, execute).action(0x0a).harmless(Need::Nothing).ports(Ports::Every),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::ReportTargetPortGroups {
            extended_header,
            allocation_length,
        } => report_target_port_groups(device, extended_header, allocation_length),
        _ => request.of_another_family(),
    }
}

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
    // A change takes effect at once, so the transition time is 0.
    let data = emit_port_groups(&groups, extended_header.then_some(0));
    device.answer(&data, allocation_length)
}
