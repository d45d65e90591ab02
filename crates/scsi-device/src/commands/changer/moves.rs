//! Moves of cartridges: MOVE MEDIUM, EXCHANGE MEDIUM, POSITION TO ELEMENT, INITIALIZE ELEMENT STATUS,
//! OPEN/CLOSE IMPORT/EXPORT ELEMENT; and the state of the changer: TEST UNIT READY, REQUEST SENSE
//! (SMC-3 section 6).

use hakaru_tape::timing::Motion;
use hakaru_tape::{Library, MoveError, Moved, Role, TRANSPORT};
use hakaru_wire::scsi::{Cdb, ChangerCommand, FieldPointer, Sense, Status};

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
    CommandInfo::new(&[0x1b, 0, X, X, 0x1f, C], Direction::None, execute),
    CommandInfo::new(&[0x2b, 0, X, X, X, X, 0, 0, 0x01, C], Direction::None, execute).harmless(Need::Write),
    CommandInfo::new(&[0x37, 0x01, X, X, 0, 0, X, X, 0, C], Direction::None, execute).harmless(Need::Write),
    CommandInfo::new(&[0xa5, 0, X, X, X, X, X, X, 0, 0, 0x01, C], Direction::None, execute).within(timeouts::MOVE),
    CommandInfo::new(&[0xa6, 0, X, X, X, X, X, X, X, X, 0x03, C], Direction::None, execute).within(timeouts::MOVE),
    CommandInfo::new(&[0xe7, 0x01, X, X, 0, 0, X, X, 0, C], Direction::None, execute).harmless(Need::Write),
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
        Cdb::Changer(ChangerCommand::InitializeElementStatus { range }) => {
            initialize(device, range)
        }
        Cdb::Changer(ChangerCommand::OpenCloseImportExport { address, open }) => {
            open_close(device, request.lu, address, open)
        }
        Cdb::Changer(ChangerCommand::PositionToElement {
            transport,
            destination,
        }) => position(device, transport, destination),
        Cdb::Changer(ChangerCommand::MoveMedium {
            transport,
            source,
            destination,
        }) => move_with(device, request.lu, transport, &[source], |library| {
            library.move_medium(source, destination)
        }),
        Cdb::Changer(ChangerCommand::ExchangeMedium {
            transport,
            source,
            first_destination,
            second_destination,
        }) => {
            let sources = [source, first_destination];
            move_with(device, request.lu, transport, &sources, |library| {
                library.exchange_medium(source, first_destination, second_destination)
            })
        }
        _ => request.of_another_family(),
    }
}

/// Whether this is the address of the transport, or stands for it.
fn is_transport(address: u16) -> bool {
    matches!(address, 0 | TRANSPORT)
}

/// Returns the sense data of an address of the CDB that no element has.
fn invalid_address(byte: u16) -> Sense {
    at_fault(Sense::INVALID_ELEMENT_ADDRESS, byte)
}

/// Returns sense data that point to an address of the CDB.
fn at_fault(sense: Sense, byte: u16) -> Sense {
    sense.with_field(FieldPointer {
        in_cdb: true,
        byte,
        bit: None,
    })
}

/// Executes INITIALIZE ELEMENT STATUS. The library always knows what is in its elements.
fn initialize(device: &Device<'_>, range: Option<(u16, u16)>) -> Outcome {
    let tape = device.units.tape();
    let is_valid = |start| tape.is_some_and(|tape| tape.library.has(start));
    match range {
        Some((start, _)) if !is_valid(start) => Outcome::check(invalid_address(2)),
        _ => Outcome::GOOD,
    }
}

fn position(device: &Device<'_>, transport: u16, destination: u16) -> Outcome {
    let tape = device.units.tape();
    if !is_transport(transport) {
        Outcome::check(invalid_address(2))
    } else if tape.is_some_and(|tape| tape.library.has(destination)) {
        Outcome::GOOD
    } else {
        Outcome::check(invalid_address(4))
    }
}

/// Whether an initiator prevents the removal of a medium from an LU.
fn prevents(device: &Device<'_>, lun: u8) -> bool {
    let unit = device.units.get(lun);
    unit.is_some_and(|unit| !unit.preventing.is_empty())
}

/// Opens or closes an import and export slot, unless an initiator prevents that it is opened. When it
/// is closed, the other initiators learn that an operator may have changed its contents.
fn open_close(device: &mut Device<'_>, lu: u8, address: u16, open: bool) -> Outcome {
    let prevented = open && prevents(device, lu);
    let Some(tape) = device.units.tape_mut() else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    if !tape.library.is_import_export(address) {
        return Outcome::check(invalid_address(2));
    }
    if prevented {
        return Outcome::check(Sense::MEDIUM_REMOVAL_PREVENTED);
    }
    if tape.library.set_open(address, open) == Some(true) && !open {
        let sense = Sense::IMPORT_OR_EXPORT_ELEMENT_ACCESSED;
        device.notices.push(Notice::Others { lu, sense });
    }
    Outcome::GOOD
}

/// Moves cartridges away from `sources`, unless an initiator prevents their removal from a drive, or a
/// drive still moves data. After a cartridge was loaded, every initiator gets a unit attention
/// condition from the drive, except one whose access list hides the drive: it could never take the
/// condition.
fn move_with(
    device: &mut Device<'_>,
    lu: u8,
    transport: u16,
    sources: &[u16],
    execute: impl FnOnce(&mut Library) -> Result<Moved, MoveError>,
) -> Outcome {
    if !is_transport(transport) {
        return Outcome::check(invalid_address(2));
    }
    let Some(tape) = device.units.tape() else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let drive_lun = |address: &u16| Some(tape.drive_luns[tape.library.drive_at(*address)?]);
    let mut drives = sources.iter().filter_map(drive_lun);
    if prevents(device, lu) || drives.any(|lun| prevents(device, lun)) {
        return Outcome::check(Sense::MEDIUM_REMOVAL_PREVENTED);
    }
    let Some(tape) = device.units.tape_mut() else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let moved = match execute(&mut tape.library) {
        Ok(moved) => moved,
        Err(error) => return refusal(error),
    };
    let unloads = moved.unloaded.iter().map(|drive| (*drive, Motion::Unload));
    let loads = moved.loaded.iter().map(|drive| (*drive, Motion::Load));
    let moving = unloads.chain(loads).filter_map(|(number, motion)| {
        moving(tape.library.drive_mut(number)?, number as u8, motion)
    });
    let moving = moving.collect();
    let luns: Vec<u8> = moved
        .loaded
        .iter()
        .map(|drive| tape.drive_luns[*drive])
        .collect();
    for lu in luns {
        let sense = Sense::MEDIUM_MAY_HAVE_CHANGED;
        if device.sees(lu) {
            device.nexus.attend(lu, sense);
        }
        device.notices.push(Notice::Others { lu, sense });
    }
    ended(device, lu, Ok(None), moved.records, moving)
}

/// Returns the outcome of moves that were refused. The sense data point to the address at fault.
fn refusal(error: MoveError) -> Outcome {
    let byte_of = |role| match role {
        Role::Source => 4,
        Role::Destination => 6,
        Role::SecondDestination => 8,
    };
    let (sense, role) = match error {
        MoveError::Busy => return Outcome::End(Verdict::Status(Status::BUSY)),
        MoveError::Open => return Outcome::check(Sense::A_DOOR_IS_OPEN),
        MoveError::InvalidAddress(role) => (Sense::INVALID_ELEMENT_ADDRESS, role),
        MoveError::Empty(role) => (Sense::MEDIUM_SOURCE_ELEMENT_EMPTY, role),
        MoveError::Full(role) => (Sense::MEDIUM_DESTINATION_ELEMENT_FULL, role),
    };
    Outcome::check(at_fault(sense, byte_of(role)))
}
