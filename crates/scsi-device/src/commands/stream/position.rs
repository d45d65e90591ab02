//! The position: REWIND, SPACE, LOCATE, READ POSITION (SSC-3 sections 7.1, 7.4, 7.8, 7.9).

use hakaru_tape::Drive;
use hakaru_wire::scsi::{Cdb, CdbError, PositionForm, SpaceCode, StreamCommand};

use super::super::info::{C, CommandInfo, Direction, Request, X};
use super::drive::{idle_drive, synchronising};
use super::timeouts;
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x01, 0x01, 0, 0, 0, C], Direction::None, execute).harmless(Need::Write).within(timeouts::MOTION),
    CommandInfo::new(&[0x11, 0x07, X, X, X, C], Direction::None, execute).harmless(Need::Write).within(timeouts::MOTION),
    CommandInfo::new(&[0x2b, 0x07, 0, X, X, X, X, 0, X, C], Direction::None, execute).harmless(Need::Write).within(timeouts::MOTION),
    CommandInfo::new(&[0x34, 0x1f, 0, 0, 0, 0, 0, X, X, C], Direction::In, execute).harmless(Need::Write),
    CommandInfo::new(&[0x91, 0x0f, 0, 0, X, X, X, X, X, X, X, X, 0, 0, 0, C], Direction::None, execute).harmless(Need::Write).within(timeouts::MOTION),
    CommandInfo::new(&[0x92, 0x1b, 0, X, X, X, X, X, X, X, X, X, 0, 0, 0, C], Direction::None, execute).harmless(Need::Write).within(timeouts::MOTION),
];

fn execute(device: &mut Device<'_>, command: &Request) -> Outcome {
    let lu = command.lu;
    let Cdb::Stream(stream) = command.cdb else {
        command.of_another_family();
    };
    match stream {
        StreamCommand::Rewind { immediate } => {
            synchronising(device, lu, immediate, |drive| drive.rewind().map(|()| None))
        }
        StreamCommand::Space { code, count } => synchronising(device, lu, false, |drive| {
            let result = match code {
                SpaceCode::Blocks => drive.space_blocks(count),
                SpaceCode::Filemarks => drive.space_filemarks(count),
                SpaceCode::EndOfData => drive.space_to_end(),
            };
            result.map(|()| None)
        }),
        StreamCommand::Locate {
            immediate,
            partition,
            object,
        } => locate(device, lu, immediate, partition, |drive| {
            drive.locate(object)
        }),
        StreamCommand::LocateFile {
            immediate,
            partition,
            file,
        } => locate(device, lu, immediate, partition, |drive| {
            drive.locate_file(file)
        }),
        StreamCommand::ReadPosition {
            form,
            allocation_length,
        } => read_position(device, lu, form, allocation_length),
        _ => command.of_another_family(),
    }
}

/// Executes LOCATE. A cartridge has one partition, number 0.
fn locate(
    device: &mut Device<'_>,
    lu: u8,
    immediate: bool,
    partition: Option<u8>,
    execute: impl FnOnce(&mut Drive) -> Result<(), hakaru_tape::Condition>,
) -> Outcome {
    if partition.is_some_and(|partition| partition != 0) {
        let bit = Some(1);
        return Outcome::check(CdbError::InvalidField { byte: 1, bit }.sense());
    }
    synchronising(device, lu, immediate, |drive| execute(drive).map(|()| None))
}

/// BOP and EOP of READ POSITION.
const BEGINNING: u8 = 0x80;
const END: u8 = 0x40;
/// PERR of the short form: the position does not fit its fields.
const OVERFLOW: u8 = 0x02;

/// Executes READ POSITION. Written data is in the store when its command ends, so the buffer of
/// the drive counts as empty: the first and the last object are the same.
fn read_position(
    device: &mut Device<'_>,
    lu: u8,
    form: PositionForm,
    allocation_length: u16,
) -> Outcome {
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    let cartridge = match drive.loaded() {
        Ok(cartridge) => cartridge,
        Err(condition) => return Outcome::check(condition.sense()),
    };
    let position = drive.position();
    let at_end = position == cartridge.medium.end() && cartridge.is_past_early_warning();
    let flags = if position == 0 { BEGINNING } else { 0 } | if at_end { END } else { 0 };
    match form {
        PositionForm::Short | PositionForm::ShortVendor => {
            let mut data = [0; 20];
            data[0] = flags;
            match u32::try_from(position) {
                Ok(position) => {
                    data[4..8].copy_from_slice(&position.to_be_bytes());
                    data[8..12].copy_from_slice(&position.to_be_bytes());
                }
                Err(_) => data[0] |= OVERFLOW,
            }
            device.answer(&data, u32::MAX)
        }
        PositionForm::Long => {
            let mut data = [0; 32];
            data[0] = flags;
            data[8..16].copy_from_slice(&position.to_be_bytes());
            let file = cartridge.medium.marks_before(position);
            data[16..24].copy_from_slice(&file.to_be_bytes());
            device.answer(&data, u32::MAX)
        }
        PositionForm::Extended => {
            let mut data = [0; 32];
            data[0] = flags;
            data[3] = 0x1c;
            data[8..16].copy_from_slice(&position.to_be_bytes());
            data[16..24].copy_from_slice(&position.to_be_bytes());
            device.answer(&data, allocation_length.into())
        }
    }
}
