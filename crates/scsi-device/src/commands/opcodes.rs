//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4 sections
//! 6.35 and 6.36), which report the table of commands.
//!
//! A test checks that the table contains exactly the commands that [`hakaru_wire::scsi::Cdb`]
//! parses. A command that an LU does not support is reported as not supported.

use hakaru_wire::scsi::{
    Cdb, CdbError, ReportedCommands, Sense, SupportedTaskManagement, emit_all_commands,
    emit_one_command,
};

use super::info::{C, CommandInfo, Direction, Request, Sanitizing, X};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0xa3, 0x0c, 0x87, X, X, X, X, X, X, X, 0, C], Direction::In, execute).action(0x0c).harmless(Need::Write).sanitizing(Sanitizing::Allowed),
    CommandInfo::new(&[0xa3, 0x0d, 0x80, 0, 0, 0, X, X, X, X, 0, C], Direction::In, execute).action(0x0d).harmless(Need::Write).sanitizing(Sanitizing::Allowed),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::ReportSupportedOpcodes {
            commands,
            timeouts,
            allocation_length,
        } => report_supported_opcodes(device, request, commands, timeouts, allocation_length),
        Cdb::ReportSupportedTaskManagement {
            extended,
            allocation_length,
        } => report_supported_task_management(device, extended, allocation_length),
        _ => request.of_another_family(),
    }
}

pub(super) fn report_supported_opcodes(
    device: &mut Device<'_>,
    request: &Request,
    commands: ReportedCommands,
    timeouts: bool,
    allocation_length: u32,
) -> Outcome {
    let Some(unit) = device.units.get(request.lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let rows = || {
        request
            .table
            .iter()
            .filter(|row| row.availability.includes(unit))
    };
    let emit_one = |opcode: u8, action: Option<u16>| {
        let row = rows().find(|row| row.opcode() == opcode && row.service_action == action);
        emit_one_command(row.map(|row| row.supported()), timeouts)
    };
    let has_actions = |opcode: u8| {
        let mut opcode_rows = request.table.iter().filter(|row| row.opcode() == opcode);
        opcode_rows.next().map(|row| row.service_action.is_some())
    };
    let data = match commands {
        ReportedCommands::All => emit_all_commands(rows().map(|row| row.supported()), timeouts),
        // SPC-4 table 200: this option is invalid for an operation code with service actions. The
        // next option is invalid for one without.
        ReportedCommands::Opcode(opcode) if has_actions(opcode) == Some(true) => {
            return invalid_option();
        }
        ReportedCommands::Opcode(opcode) => emit_one(opcode, None),
        ReportedCommands::ServiceAction(opcode, _) if has_actions(opcode) == Some(false) => {
            return invalid_option();
        }
        ReportedCommands::ServiceAction(opcode, action) => emit_one(opcode, Some(action)),
        ReportedCommands::Either(opcode, action) => emit_one(
            opcode,
            has_actions(opcode).unwrap_or(false).then_some(action),
        ),
    };
    device.answer(&data, allocation_length)
}

fn invalid_option() -> Outcome {
    Outcome::check(
        CdbError::InvalidField {
            byte: 2,
            bit: Some(2),
        }
        .sense(),
    )
}

pub(super) fn report_supported_task_management(
    device: &mut Device<'_>,
    extended: bool,
    allocation_length: u32,
) -> Outcome {
    let functions = SupportedTaskManagement {
        abort_task: true,
        abort_task_set: true,
        clear_task_set: true,
        logical_unit_reset: true,
        target_reset: true,
    };
    device.answer(&functions.emit(extended), allocation_length)
}
