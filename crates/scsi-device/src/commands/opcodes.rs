//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4 sections 6.35 and 6.36): the table of commands.
//!
//! A test holds the table to what [`hakaru_wire::scsi::Cdb`] reads. A command that an LU does not have is reported as not supported by that LU.

use hakaru_wire::scsi::{
    CdbError, CommandTimeouts, ReportedCommands, Sense, SupportedCommand, SupportedTaskManagement,
    emit_all_commands, emit_one_command,
};

use crate::context::Device;
use crate::outcome::Outcome;
use crate::unit::LogicalUnit;

/// Which LUs have a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Every,
    Removable,
    Thin,
    Sanitize,
    Atomic,
}

/// A line of the table: CDB usage data, service action, and which LUs have it.
struct Line(&'static [u8], Option<u16>, Of);

/// NACA, which is looked at in every CONTROL byte.
const C: u8 = 0x04;
const X: u8 = 0xff;

/// Ascending. Usage data has ones where a bit is looked at (SPC-4 section 6.35.3).
#[rustfmt::skip]
const TABLE: &[Line] = &[
    Line(&[0x00, 0, 0, 0, 0, C], None, Of::Every),
    Line(&[0x03, 0x01, 0, 0, X, C], None, Of::Every),
    Line(&[0x08, 0x1f, X, X, X, C], None, Of::Every),
    Line(&[0x0a, 0x1f, X, X, X, C], None, Of::Every),
    Line(&[0x12, 0x01, X, X, X, C], None, Of::Every),
    Line(&[0x15, 0x11, 0, 0, X, C], None, Of::Every),
    Line(&[0x16, 0, 0, 0, 0, C], None, Of::Every),
    Line(&[0x17, 0, 0, 0, 0, C], None, Of::Every),
    Line(&[0x1a, 0x08, X, X, X, C], None, Of::Every),
    Line(&[0x1b, 0x01, 0, 0, 0xf7, C], None, Of::Every),
    Line(&[0x1e, 0, 0, 0, 0x03, C], None, Of::Removable),
    Line(&[0x25, 0, X, X, X, X, 0, 0, 0x01, C], None, Of::Every),
    Line(&[0x28, 0xf8, X, X, X, X, 0, X, X, C], None, Of::Every),
    Line(&[0x2a, 0xf8, X, X, X, X, 0, X, X, C], None, Of::Every),
    Line(&[0x2e, 0xf2, X, X, X, X, 0, X, X, C], None, Of::Every),
    Line(&[0x2f, 0xf6, X, X, X, X, 0, X, X, C], None, Of::Every),
    Line(&[0x34, 0x02, X, X, X, X, 0, X, X, C], None, Of::Every),
    Line(&[0x35, 0x02, X, X, X, X, 0, X, X, C], None, Of::Every),
    Line(&[0x37, 0, 0x1f, 0, 0, 0, 0, X, X, C], None, Of::Every),
    Line(&[0x41, 0xf8, X, X, X, X, 0, X, X, C], None, Of::Every),
    Line(&[0x42, 0x01, 0, 0, 0, 0, 0, X, X, C], None, Of::Thin),
    Line(&[0x48, 0xe1, 0, 0, 0, 0, 0, X, X, C], Some(0x01), Of::Sanitize),
    Line(&[0x48, 0xe2, 0, 0, 0, 0, 0, X, X, C], Some(0x02), Of::Sanitize),
    Line(&[0x48, 0xe3, 0, 0, 0, 0, 0, X, X, C], Some(0x03), Of::Sanitize),
    Line(&[0x48, 0xff, 0, 0, 0, 0, 0, X, X, C], Some(0x1f), Of::Sanitize),
    Line(&[0x4d, 0x01, X, X, 0, X, X, X, X, C], None, Of::Every),
    Line(&[0x55, 0x11, 0, 0, 0, 0, 0, X, X, C], None, Of::Every),
    Line(&[0x56, 0, 0, 0, 0, 0, 0, 0, 0, C], None, Of::Every),
    Line(&[0x57, 0, 0, 0, 0, 0, 0, 0, 0, C], None, Of::Every),
    Line(&[0x5a, 0x18, X, X, 0, 0, 0, X, X, C], None, Of::Every),
    Line(&[0x5e, 0x00, 0, 0, 0, 0, 0, X, X, C], Some(0x00), Of::Every),
    Line(&[0x5e, 0x01, 0, 0, 0, 0, 0, X, X, C], Some(0x01), Of::Every),
    Line(&[0x5e, 0x02, 0, 0, 0, 0, 0, X, X, C], Some(0x02), Of::Every),
    Line(&[0x5e, 0x03, 0, 0, 0, 0, 0, X, X, C], Some(0x03), Of::Every),
    Line(&[0x5f, 0x00, 0, 0, 0, X, X, X, X, C], Some(0x00), Of::Every),
    Line(&[0x5f, 0x01, X, 0, 0, X, X, X, X, C], Some(0x01), Of::Every),
    Line(&[0x5f, 0x02, X, 0, 0, X, X, X, X, C], Some(0x02), Of::Every),
    Line(&[0x5f, 0x03, 0, 0, 0, X, X, X, X, C], Some(0x03), Of::Every),
    Line(&[0x5f, 0x04, X, 0, 0, X, X, X, X, C], Some(0x04), Of::Every),
    Line(&[0x5f, 0x05, X, 0, 0, X, X, X, X, C], Some(0x05), Of::Every),
    Line(&[0x5f, 0x06, 0, 0, 0, X, X, X, X, C], Some(0x06), Of::Every),
    Line(&[0x5f, 0x07, 0, 0, 0, X, X, X, X, C], Some(0x07), Of::Every),
    Line(&[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, X, X, X, X, 0, C], Some(0x00), Of::Every),
    Line(&[0x84, 0x00, X, 0, 0, 0, 0, 0, 0, 0, X, X, X, X, 0, C], Some(0x00), Of::Every),
    Line(&[0x84, 0x03, X, 0, 0, 0, 0, 0, 0, 0, X, X, X, X, 0, C], Some(0x03), Of::Every),
    Line(&[0x84, 0x04, X, 0, 0, 0, 0, 0, 0, 0, X, X, X, X, 0, C], Some(0x04), Of::Every),
    Line(&[0x88, 0xf8, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0x89, 0xf8, X, X, X, X, X, X, X, X, 0, 0, 0, X, 0, C], None, Of::Every),
    Line(&[0x8a, 0xf8, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0x8b, 0xf8, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0x8e, 0xf2, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0x8f, 0xf6, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0x90, 0x02, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0x91, 0x02, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0x93, 0xf9, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0x9c, 0xf8, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], None, Of::Atomic),
    Line(&[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, X, X, X, X, 0, C], Some(0x10), Of::Every),
    Line(&[0x9e, 0x12, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Some(0x12), Of::Every),
    Line(&[0xa0, 0, X, 0, 0, 0, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0xa3, 0xea, 0, 0, 0, 0, X, X, X, X, 0, C], Some(0x0a), Of::Every),
    Line(&[0xa3, 0x0c, 0x87, X, X, X, X, X, X, X, 0, C], Some(0x0c), Of::Every),
    Line(&[0xa3, 0x0d, 0x80, 0, 0, 0, X, X, X, X, 0, C], Some(0x0d), Of::Every),
    Line(&[0xa8, 0xf8, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0xaa, 0xf8, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0xae, 0xf2, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0xaf, 0xf6, X, X, X, X, X, X, X, X, 0, C], None, Of::Every),
    Line(&[0xb7, 0x1f, 0, 0, 0, 0, X, X, X, X, 0, C], None, Of::Every),
];

impl Line {
    fn opcode(&self) -> u8 {
        self.0[0]
    }

    fn is_of(&self, unit: &LogicalUnit) -> bool {
        match self.2 {
            Of::Every => true,
            Of::Removable => unit.description.removable,
            Of::Thin => unit.description.thin.is_some(),
            Of::Sanitize => unit.description.sanitize,
            Of::Atomic => unit.description.atomic_bytes > 0,
        }
    }

    fn command(&self) -> SupportedCommand<'static> {
        SupportedCommand {
            usage: self.0,
            service_action: self.1,
            // What a store of ours takes at the worst, and what Linux gives a disk before it aborts.
            timeouts: CommandTimeouts {
                nominal_seconds: 1,
                recommended_seconds: 30,
            },
        }
    }
}

pub(super) fn report_supported_opcodes(
    device: &mut Device<'_>,
    lu: u8,
    commands: ReportedCommands,
    timeouts: bool,
    allocation_length: u32,
) -> Outcome {
    let Some(unit) = device.units.get(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let lines = || TABLE.iter().filter(|line| line.is_of(unit));
    let one = |opcode: u8, action: Option<u16>| {
        let found = lines().find(|line| line.opcode() == opcode && line.1 == action);
        emit_one_command(found.map(Line::command), timeouts)
    };
    let has_actions = |opcode: u8| {
        let mut of_opcode = TABLE.iter().filter(|line| line.opcode() == opcode);
        of_opcode.next().map(|line| line.1.is_some())
    };
    let data = match commands {
        ReportedCommands::All => emit_all_commands(lines().map(Line::command), timeouts),
        // SPC-4 table 200: with service actions the option asks for the wrong thing, and without them the next one does.
        ReportedCommands::Opcode(opcode) if has_actions(opcode) == Some(true) => {
            return invalid_option();
        }
        ReportedCommands::Opcode(opcode) => one(opcode, None),
        ReportedCommands::ServiceAction(opcode, _) if has_actions(opcode) == Some(false) => {
            return invalid_option();
        }
        ReportedCommands::ServiceAction(opcode, action) => one(opcode, Some(action)),
        ReportedCommands::Either(opcode, action) => one(
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

#[cfg(test)]
mod tests {
    use super::*;
    use hakaru_wire::scsi::Cdb;

    fn known(opcode: u8, action: u8) -> bool {
        let mut cdb = [0; 16];
        cdb[..2].copy_from_slice(&[opcode, action]);
        !matches!(
            Cdb::parse(&cdb),
            Err(CdbError::UnsupportedOpcode(_)) | Err(CdbError::InvalidField { byte: 1, .. })
        )
    }

    #[test]
    fn the_table_names_the_commands_that_are_read_and_no_others() {
        for opcode in 0..=u8::MAX {
            let lines = || TABLE.iter().filter(|line| line.opcode() == opcode);
            match lines().next() {
                None => assert!(
                    (0..32).all(|action| !known(opcode, action)),
                    "{opcode:#04x} is read but is not in TABLE"
                ),
                Some(Line(_, None, _)) => assert!(known(opcode, 0), "{opcode:#04x}"),
                Some(_) => {
                    for Line(usage, action, _) in lines() {
                        let action = action.expect("all or none have one") as u8;
                        assert_eq!(usage[1] & 0x1f, action & usage[1], "{opcode:#04x}");
                        assert!(known(opcode, action), "{opcode:#04x} {action:#04x}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_table_ascends_and_its_usage_data_is_as_long_as_the_cdb() {
        for pair in TABLE.windows(2) {
            assert!((pair[0].opcode(), pair[0].1) < (pair[1].opcode(), pair[1].1));
        }
        for Line(usage, ..) in TABLE {
            let length = [6, 10, 10, 0, 16, 12][usize::from(usage[0] >> 5)];
            assert_eq!(usage.len(), length, "{:#04x}", usage[0]);
        }
    }
}
