//! Moves of cartridges: MOVE MEDIUM, POSITION TO ELEMENT, INITIALIZE ELEMENT STATUS; and the state
//! of the changer: TEST UNIT READY, REQUEST SENSE (SMC-3 sections 6.2 to 6.5).

use hakaru_tape::timing::Motion;
use hakaru_tape::{MoveError, TRANSPORT};
use hakaru_wire::scsi::{Cdb, ChangerCommand, Sense, Status};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use super::super::readiness::answer_sense;
use super::super::stream::drive::{ended, moving};
use super::super::stream::timeouts;
use crate::context::Device;
use crate::outcome::{Notice, Outcome};
use crate::reservations::Need;
use crate::verdict::Verdict;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x00, 0, 0, 0, 0, C], Direction::None, execute).harmless(Need::Nothing),
    CommandInfo::new(&[0x03, 0x01, 0, 0, X, C], Direction::In, execute).harmless(Need::Nothing).ports(Ports::Every).passing_attention(),
    CommandInfo::new(&[0x07, 0, 0, 0, 0, C], Direction::None, execute).harmless(Need::Write),
    CommandInfo::new(&[0x2b, 0, X, X, X, X, 0, 0, 0x01, C], Direction::None, execute).harmless(Need::Write),
    CommandInfo::new(&[0x37, 0x01, X, X, 0, 0, X, X, 0, C], Direction::None, execute).harmless(Need::Write),
    CommandInfo::new(&[0xa5, 0, X, X, X, X, X, X, 0, 0, 0x01, C], Direction::None, execute).within(timeouts::MOVE),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::TestUnitReady => Outcome::GOOD,
        Cdb::RequestSense {
            descriptor_format,
            allocation_length,
        } => {
            let attention = device.nexus.take_attention(request.lu);
            let sense = attention.unwrap_or(Sense::NO_SENSE);
            answer_sense(device, sense, descriptor_format, allocation_length)
        }
        // The library always knows what is in its elements.
        Cdb::Changer(ChangerCommand::InitializeElementStatus { .. }) => Outcome::GOOD,
        Cdb::Changer(ChangerCommand::PositionToElement {
            transport,
            destination,
        }) => position(device, transport, destination),
        Cdb::Changer(ChangerCommand::MoveMedium {
            transport,
            source,
            destination,
        }) => move_medium(device, request.lu, transport, source, destination),
        _ => request.of_another_family(),
    }
}

/// Whether this is the address of the transport, or stands for it.
fn is_transport(address: u16) -> bool {
    matches!(address, 0 | TRANSPORT)
}

fn position(device: &Device<'_>, transport: u16, destination: u16) -> Outcome {
    let tape = device.units.tape();
    if is_transport(transport) && tape.is_some_and(|tape| tape.library.has(destination)) {
        Outcome::GOOD
    } else {
        Outcome::check(Sense::INVALID_ELEMENT_ADDRESS)
    }
}

/// Moves a cartridge, unless an initiator prevents its removal from a drive, or a drive still moves
/// data. After a cartridge was loaded, every initiator gets a unit attention condition from the
/// drive, except one whose access list hides the drive: it could never take the condition.
fn move_medium(
    device: &mut Device<'_>,
    lu: u8,
    transport: u16,
    source: u16,
    destination: u16,
) -> Outcome {
    if !is_transport(transport) {
        return Outcome::check(Sense::INVALID_ELEMENT_ADDRESS);
    }
    let Some(tape) = device.units.tape() else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let drive_lun = |address| Some(tape.drive_luns[tape.library.drive_at(address)?]);
    let from = drive_lun(source);
    let prevents = |lun| {
        device
            .units
            .get(lun)
            .is_some_and(|unit| !unit.preventing.is_empty())
    };
    if prevents(lu) || from.is_some_and(prevents) {
        return Outcome::check(Sense::MEDIUM_REMOVAL_PREVENTED);
    }
    let Some(tape) = device.units.tape_mut() else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let threaded = from
        .and_then(|lun| tape.drive(lun)?.loaded().ok())
        .is_some();
    match tape.library.move_medium(source, destination) {
        Ok(moved) => {
            let motions = [
                (moved.from_drive.filter(|_| threaded), Motion::Unload),
                (moved.to_drive, Motion::Load),
            ];
            let moving = motions.into_iter().filter_map(|(drive, motion)| {
                let number = drive?;
                moving(tape.library.drive_mut(number)?, number as u8, motion)
            });
            let moving = moving.collect();
            if let Some(drive) = moved.to_drive {
                let lu = tape.drive_luns[drive];
                let sense = Sense::MEDIUM_MAY_HAVE_CHANGED;
                if device.sees(lu) {
                    device.nexus.attend(lu, sense);
                }
                device.notices.push(Notice::Others { lu, sense });
            }
            ended(device, lu, Ok(None), moved.record, moving)
        }
        Err(MoveError::Busy) => Outcome::End(Verdict::Status(Status::BUSY)),
        Err(MoveError::InvalidAddress) => Outcome::check(Sense::INVALID_ELEMENT_ADDRESS),
        Err(MoveError::SourceEmpty) => Outcome::check(Sense::MEDIUM_SOURCE_ELEMENT_EMPTY),
        Err(MoveError::DestinationFull) => Outcome::check(Sense::MEDIUM_DESTINATION_ELEMENT_FULL),
    }
}
