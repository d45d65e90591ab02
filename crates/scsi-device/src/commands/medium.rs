//! The medium of a removable LU: PREVENT ALLOW MEDIUM REMOVAL, and the part of START STOP UNIT that
//! ejects and loads (SBC-3 sections 5.14 and 5.25).

use hakaru_wire::scsi::{Cdb, Sense};

use super::info::{Availability, C, CommandInfo, Direction, Request};
use crate::context::Device;
use crate::outcome::{Notice, Outcome};
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x1e, 0, 0, 0, 0x03, C], Direction::None, execute).of(Availability::Removable).reserved_by_field(prevent_need),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::PreventAllowMediumRemoval { prevent } => prevent_allow(device, lu, prevent),
        _ => request.of_another_family(),
    }
}

/// Returns the access that the command needs. ALLOW needs none (SPC-4 table 66).
fn prevent_need(cdb: &Cdb) -> Need {
    match cdb {
        Cdb::PreventAllowMediumRemoval { prevent: 0 } => Need::Nothing,
        _ => Need::Write,
    }
}

pub(super) fn prevent_allow(device: &mut Device<'_>, lu: u8, prevent: u8) -> Outcome {
    const ALLOW: u8 = 0;
    const PREVENT: u8 = 1;
    let nexus = &device.nexus.nexus;
    let Some(unit) = device.units.get_mut(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    if !unit.description.removable {
        return Outcome::check(Sense::INVALID_COMMAND_OPERATION_CODE);
    }
    match prevent {
        ALLOW => unit.preventing.retain(|preventing| preventing != nexus),
        PREVENT if unit.preventing.contains(nexus) => {}
        PREVENT => unit.preventing.push(nexus.clone()),
        _ => {
            let field = hakaru_wire::scsi::CdbError::InvalidField {
                byte: 4,
                bit: Some(1),
            };
            return Outcome::check(field.sense());
        }
    }
    Outcome::GOOD
}

/// Loads or ejects the medium (LOEJ), unless an initiator prevents its removal.
pub(super) fn load_or_eject(device: &mut Device<'_>, lu: u8, load: bool) -> Outcome {
    match device.units.get(lu) {
        None => Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
        Some(unit) if !unit.preventing.is_empty() => {
            Outcome::check(Sense::MEDIUM_REMOVAL_PREVENTED)
        }
        Some(_) if load => self::load(device, lu),
        Some(_) => eject(device, lu),
    }
}

/// Ejects the medium. An LU with a cache is flushed first.
fn eject(device: &mut Device<'_>, lu: u8) -> Outcome {
    let Some(unit) = device.units.get_mut(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let flush = unit.description.write_cache && !unit.ejected;
    unit.ejected = true;
    if flush {
        Outcome::Flush { lu }
    } else {
        Outcome::GOOD
    }
}

/// Loads the medium. The other initiators get a unit attention condition.
fn load(device: &mut Device<'_>, lu: u8) -> Outcome {
    let Some(unit) = device.units.get_mut(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    if unit.ejected {
        let sense = Sense::MEDIUM_MAY_HAVE_CHANGED;
        device.notices.push(Notice::Others { lu, sense });
    }
    unit.ejected = false;
    unit.stopped = false;
    Outcome::GOOD
}
