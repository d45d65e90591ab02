//! RESERVE and RELEASE (6, 10) (SPC-2 section 7.21).

use hakaru_wire::scsi::{Sense, Status};

use crate::context::Device;
use crate::outcome::Outcome;
use crate::verdict::Verdict;

/// RESERVE(6) and (10).
pub(crate) fn reserve(device: &mut Device<'_>, lu: u8) -> Outcome {
    let nexus = &device.nexus.nexus;
    let unit = device.units.get_mut(lu);
    settled(unit.map(|unit| unit.reservations.reserve(nexus)))
}

/// RELEASE(6) and (10).
pub(crate) fn release(device: &mut Device<'_>, lu: u8) -> Outcome {
    let nexus = &device.nexus.nexus;
    let unit = device.units.get_mut(lu);
    settled(unit.map(|unit| unit.reservations.release(nexus)))
}

fn settled(granted: Option<bool>) -> Outcome {
    match granted {
        Some(true) => Outcome::GOOD,
        Some(false) => Outcome::End(Verdict::Status(Status::RESERVATION_CONFLICT)),
        None => Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
    }
}
