//! RESERVE and RELEASE (6, 10) (SPC-2 section 7.21).

use hakaru_wire::scsi::{Cdb, Sense, Status};

use super::super::info::{C, CommandInfo, Direction, Request};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;
use crate::verdict::Verdict;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x16, 0, 0, 0, 0, C], Direction::None, execute).unreserved(),
    CommandInfo::new(&[0x56, 0, 0, 0, 0, 0, 0, 0, 0, C], Direction::None, execute).unreserved(),
    CommandInfo::new(&[0x17, 0, 0, 0, 0, C], Direction::None, execute).harmless(Need::Nothing),
    CommandInfo::new(&[0x57, 0, 0, 0, 0, 0, 0, 0, 0, C], Direction::None, execute).harmless(Need::Nothing),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::Reserve => reserve(device, lu),
        Cdb::Release => release(device, lu),
        _ => request.of_another_family(),
    }
}

/// Executes RESERVE (6, 10).
pub(crate) fn reserve(device: &mut Device<'_>, lu: u8) -> Outcome {
    let nexus = &device.nexus.nexus;
    let unit = device.units.get_mut(lu);
    outcome(unit.map(|unit| unit.reservations.reserve(nexus)))
}

/// Executes RELEASE (6, 10).
pub(crate) fn release(device: &mut Device<'_>, lu: u8) -> Outcome {
    let nexus = &device.nexus.nexus;
    let unit = device.units.get_mut(lu);
    outcome(unit.map(|unit| unit.reservations.release(nexus)))
}

fn outcome(granted: Option<bool>) -> Outcome {
    match granted {
        Some(true) => Outcome::GOOD,
        Some(false) => Outcome::End(Verdict::Status(Status::RESERVATION_CONFLICT)),
        None => Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
    }
}
