//! The cartridge in the drive: TEST UNIT READY, REQUEST SENSE, LOAD UNLOAD (SSC-3 section 7.2).

use hakaru_tape::timing::Motion;
use hakaru_tape::{Alert, Continued};
use hakaru_wire::scsi::{Cdb, CdbError, Sense, StreamCommand};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use super::super::readiness::answer_sense;
use super::drive::{continuing, ended_when, idle_drive, moving, number, request};
use super::timeouts;
use crate::context::Device;
use crate::outcome::{Notice, Outcome};
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x00, 0, 0, 0, 0, C], Direction::None, execute).harmless(Need::Nothing),
    CommandInfo::new(&[0x03, 0x01, 0, 0, X, C], Direction::In, execute).harmless(Need::Nothing).ports(Ports::Every).passing_attention(),
    CommandInfo::new(&[0x1b, 0x01, 0, 0, 0x0f, C], Direction::None, execute).harmless(Need::Write).within(timeouts::MOTION),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::TestUnitReady => test_unit_ready(device, lu),
        Cdb::RequestSense {
            descriptor_format,
            allocation_length,
        } => request_sense(device, lu, descriptor_format, allocation_length),
        Cdb::Stream(StreamCommand::LoadUnload {
            immediate,
            load,
            end_of_tape,
            ..
        }) => load_unload(device, lu, immediate, load, end_of_tape),
        _ => request.of_another_family(),
    }
}

fn test_unit_ready(device: &mut Device<'_>, lu: u8) -> Outcome {
    request(device, lu, |drive| drive.loaded().map(|_| None))
}

fn not_ready(device: &Device<'_>, lu: u8) -> Option<Sense> {
    let drive = device.units.tape()?.drive(lu)?;
    match drive.continued() {
        Some(motion) => Some(continuing(motion)),
        None => Some(drive.loaded().err()?.sense()),
    }
}

/// Returns and ends a unit attention condition, or returns the reason why the drive is not ready,
/// or NO SENSE. (The sense data of a failed command was sent with its status.)
fn request_sense(
    device: &mut Device<'_>,
    lu: u8,
    descriptor_format: bool,
    allocation_length: u8,
) -> Outcome {
    let sense = match device.nexus.take_attention(lu) {
        Some(attention) => attention,
        None => not_ready(device, lu).unwrap_or(Sense::NO_SENSE),
    };
    answer_sense(device, sense, descriptor_format, allocation_length)
}

/// Loads the cartridge or ejects it, unless an initiator prevents its removal. After a load, the
/// other initiators get a unit attention condition. There is no tape to wind, so RETEN changes
/// nothing.
fn load_unload(
    device: &mut Device<'_>,
    lu: u8,
    immediate: bool,
    load: bool,
    end_of_tape: bool,
) -> Outcome {
    if load && end_of_tape {
        let bit = Some(2);
        return Outcome::check(CdbError::InvalidField { byte: 4, bit }.sense());
    }
    let prevented = device
        .units
        .get(lu)
        .is_some_and(|unit| !unit.preventing.is_empty());
    if !load && prevented {
        if let Some(drive) = device.units.tape_mut().and_then(|tape| tape.drive_mut(lu)) {
            drive.alerts.raise(Alert::NoRemoval);
        }
        return Outcome::check(Sense::MEDIUM_REMOVAL_PREVENTED);
    }
    let number = number(device, lu);
    let executed = idle_drive(device, lu).map(|drive| {
        let before = drive.loaded().is_ok();
        let executed = drive.load_or_unload(load);
        let record = drive.synchronise();
        let motion = match (executed, before) {
            (Ok(_), true) if load => Some(Motion::Locate { to: 0 }),
            (Ok(_), true) => Some(Motion::Unload),
            (Ok(true), false) => Some(Motion::Load),
            _ => None,
        };
        let moving = motion.and_then(|motion| moving(drive, number, motion));
        if immediate && moving.is_some() {
            let loading = motion == Some(Motion::Load);
            drive.continue_as(if loading {
                Continued::Loading
            } else {
                Continued::Positioning
            });
        }
        (executed, record, moving)
    });
    let (loaded, record, moving) = match executed {
        Ok((Ok(loaded), record, moving)) => (loaded, record, moving),
        Ok((Err(condition), ..)) => return Outcome::check(condition.sense()),
        Err(outcome) => return outcome,
    };
    if loaded {
        let sense = Sense::MEDIUM_MAY_HAVE_CHANGED;
        device.notices.push(Notice::Others { lu, sense });
    }
    let moving = moving.into_iter().collect();
    ended_when(device, lu, Ok(None), record, moving, immediate)
}
