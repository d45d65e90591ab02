//! Data: READ, WRITE, VERIFY, WRITE FILEMARKS, ERASE, READ BLOCK LIMITS (SSC-3 sections 5.1 to 5.7,
//! 6.15 and 7.5).
//!
//! A write is executed once all of its data has arrived: the index and the position change, and
//! the bytes go to the store. If they do not arrive there, the next command takes the write back.

use hakaru_tape::timing::Motion;
use hakaru_tape::{BLOCK_BYTES_MAX, Drive, Piece, Transfer};
use hakaru_wire::scsi::{Cdb, CdbError, Sense, StreamCommand};

use super::super::info::{C, CommandInfo, Direction, Request, X};
use super::drive::{idle_drive, number, outcome, request, synchronising};
use super::timeouts;
use crate::context::Device;
use crate::outcome::Outcome;
use crate::program::{Job, Moving, Program, TapeRead, TapeWrite};
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x05, 0, 0, 0, 0, C], Direction::In, execute).harmless(Need::Nothing),
    CommandInfo::new(&[0x08, 0x03, X, X, X, C], Direction::In, execute).harmless(Need::Write).within(timeouts::BYTES),
    CommandInfo::new(&[0x0a, 0x01, X, X, X, C], Direction::Out, execute).with_list(with_list).within(timeouts::BYTES),
    CommandInfo::new(&[0x10, 0x03, X, X, X, C], Direction::None, execute).within(timeouts::BYTES),
    CommandInfo::new(&[0x13, 0x05, X, X, X, C], Direction::None, execute).harmless(Need::Write).within(timeouts::BYTES),
    CommandInfo::new(&[0x19, 0x03, 0, 0, 0, C], Direction::None, execute).within(timeouts::MOTION),
];

fn execute(device: &mut Device<'_>, command: &Request) -> Outcome {
    let lu = command.lu;
    let Cdb::Stream(stream) = command.cdb else {
        command.of_another_family();
    };
    match stream {
        StreamCommand::ReadBlockLimits => read_block_limits(device),
        StreamCommand::Read {
            fixed,
            suppress_incorrect_length,
            length,
        } => read(device, lu, fixed, suppress_incorrect_length, length, true),
        // IMMED: the command ends after the operation nevertheless.
        StreamCommand::Verify { fixed, length, .. } => {
            read(device, lu, fixed, false, length, false)
        }
        StreamCommand::Write { fixed, length } => write(device, lu, fixed, length),
        StreamCommand::WriteFilemarks {
            immediate: true,
            count,
        } => request(device, lu, |drive| drive.write_filemarks(count)),
        StreamCommand::WriteFilemarks { count, .. } => {
            synchronising(device, lu, false, |drive| drive.write_filemarks(count))
        }
        StreamCommand::Erase { immediate, .. } => {
            synchronising(device, lu, immediate, |drive| drive.erase().map(|()| None))
        }
        _ => command.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, command: &Request, list: &[u8]) -> Outcome {
    match command.cdb {
        Cdb::Stream(StreamCommand::Write { fixed, length }) => {
            write_data(device, command.lu, fixed, length, list)
        }
        _ => command.of_another_family(),
    }
}

/// Returns the longest transfer of a command, bytes.
fn transfer_bytes_max(device: &Device<'_>) -> u32 {
    device.transfer_bytes_max.min(BLOCK_BYTES_MAX)
}

/// Executes READ BLOCK LIMITS: blocks of any length from one byte.
fn read_block_limits(device: &mut Device<'_>) -> Outcome {
    let mut data = [0; 6];
    let longest = transfer_bytes_max(device).to_be_bytes();
    data[1..4].copy_from_slice(&longest[1..]);
    data[5] = 1;
    device.answer(&data, u32::MAX)
}

fn too_long() -> Outcome {
    Outcome::check(CdbError::InvalidField { byte: 2, bit: None }.sense())
}

/// Returns the motion in which the bytes of a transfer pass the head, if it takes time.
fn passing(
    drive: &Drive,
    number: u8,
    transfer: &Transfer,
    motion: fn(u64) -> Motion,
) -> Option<Moving> {
    let bytes = transfer.pieces.iter().map(Piece::region_bytes).sum();
    drive.timed.then(|| Moving {
        drive: number,
        motion: motion(bytes),
        ticket: None,
    })
}

/// Executes READ, or VERIFY if the blocks are not to be `returned`.
fn read(
    device: &mut Device<'_>,
    lu: u8,
    fixed: bool,
    suppress: bool,
    length: u32,
    returned: bool,
) -> Outcome {
    let bytes_max = transfer_bytes_max(device);
    let Some(store_lun) = device.units.tape().map(|tape| tape.changer_lun) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let number = number(device, lu);
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    // A read of one block may ask for more than the longest block.
    if fixed
        && drive
            .length_bytes(fixed, length)
            .is_ok_and(|bytes| bytes > bytes_max)
    {
        return too_long();
    }
    let transfer = match drive.read(fixed, suppress, length) {
        Ok(transfer) => transfer,
        Err(condition) => return Outcome::check(condition.sense()),
    };
    let Ok(region) = drive.loaded().map(|cartridge| cartridge.region) else {
        return Outcome::check(Sense::MEDIUM_NOT_PRESENT);
    };
    if transfer.pieces.is_empty() {
        return outcome(Ok(transfer.end));
    }
    let moving = passing(drive, number, &transfer, |bytes| Motion::Read { bytes });
    let program = TapeRead::new(store_lun, region.offset_bytes, transfer, moving, returned);
    let reads_bytes = program.reads_bytes();
    Outcome::program(Job {
        reads_bytes,
        ..Job::new(lu, Program::TapeRead(Box::new(program)))
    })
}

/// Executes WRITE before its data arrives.
fn write(device: &mut Device<'_>, lu: u8, fixed: bool, length: u32) -> Outcome {
    let bytes_max = transfer_bytes_max(device);
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    let writable = drive.writable();
    match writable.and_then(|()| drive.length_bytes(fixed, length)) {
        Err(condition) => Outcome::check(condition.sense()),
        Ok(0) => Outcome::GOOD,
        Ok(length_bytes) if length_bytes > bytes_max => too_long(),
        Ok(length_bytes) => Outcome::Parameters { lu, length_bytes },
    }
}

/// Executes WRITE with its data.
fn write_data(device: &mut Device<'_>, lu: u8, fixed: bool, length: u32, data: &[u8]) -> Outcome {
    let Some(store_lun) = device.units.tape().map(|tape| tape.changer_lun) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let number = number(device, lu);
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    // The initiator has sent fewer bytes than the CDB states, or the block length was changed.
    if drive.length_bytes(fixed, length) != Ok(data.len() as u32) {
        return too_long();
    }
    let transfer = match drive.write(fixed, length) {
        Ok(transfer) => transfer,
        Err(condition) => return Outcome::check(condition.sense()),
    };
    let Ok(region) = drive.loaded().map(|cartridge| cartridge.region) else {
        return Outcome::check(Sense::MEDIUM_NOT_PRESENT);
    };
    if transfer.pieces.is_empty() {
        transfer.ticket.done();
        return outcome(Ok(transfer.end));
    }
    let moving = passing(drive, number, &transfer, |bytes| Motion::Write { bytes });
    let program = TapeWrite::new(store_lun, region.offset_bytes, transfer, data, moving);
    Outcome::program(Job::new(lu, Program::TapeWrite(program)))
}
