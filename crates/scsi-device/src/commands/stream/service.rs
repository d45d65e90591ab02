//! Diagnostics, buffers and log of a drive: SEND DIAGNOSTIC, RECEIVE DIAGNOSTIC RESULTS, READ
//! BUFFER, LOG SELECT (SPC-4 sections 6.42, 6.30, 6.20, 6.7), and ALLOW OVERWRITE (SSC-4 section
//! 7.1).
//!
//! The drive has neither tests other than the default one nor buffers to read, so what these
//! commands report is that there is nothing. A program that dumps a drive then ends.

use hakaru_wire::scsi::{Cdb, CdbError, PageControl, Sense, TapeService};

use super::super::identify::vendor;
use super::super::info::{C, CommandInfo, Direction, Request, X};
use super::drive::{idle_drive, request};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x1c, 0x01, X, X, X, C], Direction::In, execute).harmless(Need::Write),
    CommandInfo::new(&[0x1d, 0xe4, 0, X, X, C], Direction::None, execute).harmless(Need::Write),
    CommandInfo::new(&[0x3c, 0x1f, X, X, X, X, X, X, X, C], Direction::In, execute).harmless(Need::Write),
    CommandInfo::new(&[0x4c, 0x03, X, X, 0, 0, 0, X, X, C], Direction::None, execute).harmless(Need::Write),
    CommandInfo::new(&[0x82, 0, 0x0f, X, X, X, X, X, X, X, X, X, 0, 0, 0, C], Direction::None, execute),
];

fn execute(device: &mut Device<'_>, command: &Request) -> Outcome {
    let lu = command.lu;
    let Cdb::TapeService(service) = command.cdb else {
        command.of_another_family();
    };
    match service {
        TapeService::ReceiveDiagnostic {
            page,
            allocation_length,
        } => receive_diagnostic(device, page, allocation_length),
        TapeService::SendDiagnostic {
            code,
            parameter_list_length,
            ..
        } => send_diagnostic(device, lu, code, parameter_list_length),
        TapeService::ReadBuffer {
            mode,
            buffer,
            offset,
            allocation_length,
        } => read_buffer(device, lu, (mode, buffer), offset, allocation_length),
        TapeService::LogSelect {
            reset,
            save,
            control,
            page,
            subpage,
            parameter_list_length,
        } => {
            if save {
                return invalid(1, Some(0));
            }
            if parameter_list_length > 0 {
                return invalid(7, None);
            }
            log_select(device, lu, reset, control, (page, subpage))
        }
        TapeService::AllowOverwrite {
            allowed,
            partition,
            object,
        } => allow_overwrite(device, lu, allowed, partition, object),
        TapeService::WriteAttribute { .. } => command.of_another_family(),
    }
}

fn invalid(byte: u16, bit: Option<u8>) -> Outcome {
    Outcome::check(CdbError::InvalidField { byte, bit }.sense())
}

/// The only diagnostic page: the list of pages.
const SUPPORTED_PAGES: u8 = 0x00;

/// Answers RECEIVE DIAGNOSTIC RESULTS. SEND DIAGNOSTIC leaves no results, so a page is needed.
fn receive_diagnostic(
    device: &mut Device<'_>,
    page: Option<u8>,
    allocation_length: u16,
) -> Outcome {
    match page {
        Some(SUPPORTED_PAGES) => {
            let data = [SUPPORTED_PAGES, 0, 0, 1, SUPPORTED_PAGES];
            device.answer(&data, allocation_length.into())
        }
        Some(_) => invalid(2, None),
        None => invalid(1, Some(0)),
    }
}

/// Executes SEND DIAGNOSTIC: the default self-test, which succeeds, or nothing. Other self-tests
/// and pages are not supported.
fn send_diagnostic(device: &mut Device<'_>, lu: u8, code: u8, length_bytes: u16) -> Outcome {
    if code != 0 {
        return invalid(1, Some(7));
    }
    if length_bytes > 0 {
        return invalid(3, None);
    }
    request(device, lu, |_| Ok(None))
}

/// MODE of READ BUFFER.
mod mode {
    pub(super) const DESCRIPTOR: u8 = 0x03;
    pub(super) const ECHO_DESCRIPTOR: u8 = 0x0b;
    pub(super) const ERROR_HISTORY: u8 = 0x1c;
}

/// Buffer of the error history that lists the others.
const DIRECTORY: u8 = 0x00;

/// Executes READ BUFFER. A descriptor of zeros says that there is no such buffer.
fn read_buffer(
    device: &mut Device<'_>,
    lu: u8,
    (mode, buffer): (u8, u8),
    offset: u32,
    allocation_length: u32,
) -> Outcome {
    match (mode, buffer) {
        (mode::DESCRIPTOR | mode::ECHO_DESCRIPTOR, _) => device.answer(&[0; 4], allocation_length),
        (mode::ERROR_HISTORY, DIRECTORY) if offset == 0 => {
            let mut data = [0; 32];
            data[..8].fill(b' ');
            let vendor = device.units.get(lu).map_or("", vendor);
            for (to, from) in data[..8].iter_mut().zip(vendor.bytes()) {
                *to = from;
            }
            device.answer(&data, allocation_length)
        }
        (mode::ERROR_HISTORY, DIRECTORY) => invalid(3, None),
        (mode::ERROR_HISTORY, _) => invalid(2, None),
        _ => invalid(1, Some(4)),
    }
}

/// Executes LOG SELECT without a parameter list: resets the cumulative values, which are those of
/// pages 02h, 03h and 0Ch, all together. There are no thresholds.
fn log_select(
    device: &mut Device<'_>,
    lu: u8,
    reset: bool,
    control: PageControl,
    page: (u8, u8),
) -> Outcome {
    // 01b and 11b.
    let cumulative = matches!(control, PageControl::Changeable | PageControl::Saved);
    if !reset && !cumulative {
        return invalid(2, Some(7));
    }
    match page {
        (0, 0) => {}
        (_, 0) => return invalid(2, Some(5)),
        _ => return invalid(3, None),
    }
    request(device, lu, |drive| {
        drive.reset_log();
        Ok(None)
    })
}

/// Executes ALLOW OVERWRITE. A drive without append-only mode writes at every position, so the
/// command changes nothing. It checks that the initiator knows the position.
fn allow_overwrite(
    device: &mut Device<'_>,
    lu: u8,
    allowed: u8,
    partition: u8,
    object: u64,
) -> Outcome {
    const FROM_POSITION: u8 = 1;
    const AT_MOST: u8 = 2;
    if allowed > AT_MOST {
        return invalid(2, Some(3));
    }
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    if let Err(condition) = drive.loaded() {
        return Outcome::check(condition.sense());
    }
    if allowed == FROM_POSITION {
        if partition != 0 {
            return invalid(3, None);
        }
        if object != drive.position() {
            return Outcome::check(Sense::SEQUENTIAL_POSITIONING_ERROR);
        }
    }
    Outcome::GOOD
}
