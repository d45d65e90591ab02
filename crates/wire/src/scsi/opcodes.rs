//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS parameter data
//! (SPC-4 sections 6.35 and 6.36).
use crate::octets::{put_u16, put_u32, u16_at, u32_at};

/// A supported command in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportedCommand<'a> {
    /// CDB USAGE DATA, as long as the CDB: operation code and service action. Every other byte is a
    /// mask of the bits evaluated.
    pub usage: &'a [u8],
    /// Service action, if the command has service actions.
    pub service_action: Option<u16>,
    /// Timeouts of the command.
    pub timeouts: CommandTimeouts,
}

impl SupportedCommand<'_> {
    /// Returns the operation code.
    pub fn opcode(&self) -> u8 {
        self.usage[0]
    }
}

/// Command timeouts descriptor. 0 means "not reported".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTimeouts {
    /// NOMINAL COMMAND PROCESSING TIMEOUT, seconds: maximum time without a fault.
    pub nominal_seconds: u32,
    /// RECOMMENDED COMMAND TIMEOUT, seconds: time after which an initiator may abort the command.
    pub recommended_seconds: u32,
}

impl CommandTimeouts {
    const LENGTH: usize = 12;

    fn emit(self) -> [u8; CommandTimeouts::LENGTH] {
        let mut out = [0; CommandTimeouts::LENGTH];
        put_u16(&mut out, 0, 10);
        put_u32(&mut out, 4, self.nominal_seconds);
        put_u32(&mut out, 8, self.recommended_seconds);
        out
    }
}

/// Writes the answer to "all commands".
pub fn emit_all_commands<'a>(
    commands: impl IntoIterator<Item = SupportedCommand<'a>>,
    timeouts: bool,
) -> Vec<u8> {
    let mut out = vec![0; 4];
    for command in commands {
        let mut descriptor = [0; 8];
        descriptor[0] = command.opcode();
        put_u16(&mut descriptor, 2, command.service_action.unwrap_or(0));
        descriptor[5] = u8::from(timeouts) << 1 | u8::from(command.service_action.is_some());
        put_u16(&mut descriptor, 6, command.usage.len() as u16);
        out.extend_from_slice(&descriptor);
        if timeouts {
            out.extend_from_slice(&command.timeouts.emit());
        }
    }
    let length = (out.len() - 4) as u32;
    put_u32(&mut out, 0, length);
    out
}

/// Writes the answer for one command. `None` means that the command is not supported.
pub fn emit_one_command(command: Option<SupportedCommand<'_>>, timeouts: bool) -> Vec<u8> {
    const NOT_SUPPORTED: u8 = 1;
    const CONFORMS_TO_STANDARD: u8 = 3;
    let Some(command) = command else {
        return vec![0, NOT_SUPPORTED, 0, 0];
    };
    let mut out = vec![
        0,
        u8::from(timeouts) << 7 | CONFORMS_TO_STANDARD,
        0,
        command.usage.len() as u8,
    ];
    out.extend_from_slice(command.usage);
    if timeouts {
        out.extend_from_slice(&command.timeouts.emit());
    }
    out
}

/// Reads the received part of an answer to "all commands" as (operation code, service action, CDB
/// length).
pub fn parse_all_commands(bytes: &[u8]) -> Vec<(u8, Option<u16>, u16)> {
    let Some((head, rest)) = bytes.split_at_checked(4) else {
        return Vec::new();
    };
    let mut rest = &rest[..rest.len().min(u32_at(head, 0) as usize)];
    let mut commands = Vec::new();
    while let Some((descriptor, after)) = rest.split_at_checked(8) {
        let action = (descriptor[5] & 1 != 0).then(|| u16_at(descriptor, 2));
        commands.push((descriptor[0], action, u16_at(descriptor, 6)));
        let timeouts = if descriptor[5] & 2 != 0 {
            CommandTimeouts::LENGTH
        } else {
            0
        };
        rest = after.get(timeouts..).unwrap_or(&[]);
    }
    commands
}

/// Supported task management functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SupportedTaskManagement {
    /// ATS: ABORT TASK.
    pub abort_task: bool,
    /// ATSS: ABORT TASK SET.
    pub abort_task_set: bool,
    /// CTSS: CLEAR TASK SET.
    pub clear_task_set: bool,
    /// LURS: LOGICAL UNIT RESET.
    pub logical_unit_reset: bool,
    /// TRS: TARGET RESET.
    pub target_reset: bool,
}

impl SupportedTaskManagement {
    /// Writes 4 bytes, or 16 in the extended form, without timeouts.
    pub fn emit(&self, extended: bool) -> Vec<u8> {
        let functions = u8::from(self.abort_task) << 7
            | u8::from(self.abort_task_set) << 6
            | u8::from(self.clear_task_set) << 4
            | u8::from(self.logical_unit_reset) << 3
            | u8::from(self.target_reset) << 1;
        let mut out = vec![functions, 0, 0, 0];
        if extended {
            out[3] = 12;
            out.resize(16, 0);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_CAPACITY_16: SupportedCommand<'static> = SupportedCommand {
        usage: &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 4],
        service_action: Some(0x10),
        timeouts: CommandTimeouts {
            nominal_seconds: 1,
            recommended_seconds: 30,
        },
    };

    #[test]
    fn commands_are_laid_out_as_in_spc() {
        let all = emit_all_commands([READ_CAPACITY_16], true);
        assert_eq!(
            all,
            [
                0, 0, 0, 20, 0x9e, 0, 0, 0x10, 0, 3, 0, 16, 0, 10, 0, 0, 0, 0, 0, 1, 0, 0, 0, 30
            ]
        );
        assert_eq!(parse_all_commands(&all), [(0x9e, Some(0x10), 16)]);
        let bytes = emit_one_command(Some(READ_CAPACITY_16), false);
        assert_eq!(bytes[..6], [0, 3, 0, 16, 0x9e, 0x10]);
        assert_eq!(emit_one_command(None, true), [0, 1, 0, 0]);
    }

    #[test]
    fn functions_are_laid_out_as_in_spc() {
        let all = SupportedTaskManagement {
            abort_task: true,
            abort_task_set: true,
            clear_task_set: true,
            logical_unit_reset: true,
            target_reset: true,
        };
        assert_eq!(all.emit(false), [0xda, 0, 0, 0]);
        assert_eq!(all.emit(true).len(), 16);
    }
}
