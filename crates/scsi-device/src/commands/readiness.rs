//! The state of an LU: TEST UNIT READY, START STOP UNIT, REQUEST SENSE (SPC-4 sections 6.39 and
//! 6.47, SBC-3 section 5.25).

use hakaru_wire::scsi::{Cdb, CdbError, Sense, StartStopUnit};

use super::info::{C, CommandInfo, Direction, Ports, Request, Sanitizing, X};
use super::medium;
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x00, 0, 0, 0, 0, C], Direction::None, execute).harmless(Need::Nothing),
    CommandInfo::new(&[0x03, 0x01, 0, 0, X, C], Direction::In, execute).harmless(Need::Nothing).ports(Ports::Every).sanitizing(Sanitizing::Allowed).passing_attention().without_unit(without_unit),
    CommandInfo::new(&[0x1b, 0x01, 0, 0, 0xf7, C], Direction::None, execute).reserved_by_field(start_stop_need),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::TestUnitReady => test_unit_ready(device, lu),
        Cdb::StartStopUnit(start_stop) => start_stop_unit(device, lu, start_stop),
        Cdb::RequestSense {
            descriptor_format,
            allocation_length,
        } => request_sense(device, lu, descriptor_format, allocation_length),
        _ => request.of_another_family(),
    }
}

fn without_unit(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::RequestSense {
            descriptor_format,
            allocation_length,
        } => {
            let sense = Sense::LOGICAL_UNIT_NOT_SUPPORTED;
            answer_sense(device, sense, descriptor_format, allocation_length)
        }
        _ => request.of_another_family(),
    }
}

/// Returns the access that the command needs. START needs none, and every other request needs full
/// access (SBC-3 table 13).
fn start_stop_need(cdb: &Cdb) -> Need {
    match cdb {
        Cdb::StartStopUnit(StartStopUnit {
            start: true,
            power_condition: 0,
            ..
        }) => Need::Nothing,
        _ => Need::Write,
    }
}

pub(super) fn test_unit_ready(device: &Device<'_>, lu: u8) -> Outcome {
    match not_ready(device, lu) {
        Some(sense) => Outcome::check(sense),
        None => Outcome::GOOD,
    }
}

fn not_ready(device: &Device<'_>, lu: u8) -> Option<Sense> {
    let unit = device.units.get(lu)?;
    unit.occupied().or_else(|| unit.ready().err())
}

/// Stops or starts the LU, or ejects or loads its medium, for every initiator. A stop flushes
/// unless NO_FLUSH. The only power condition is active. If the request names a power condition, the
/// LU stays active, and START and LOEJ are ignored (SBC-3 section 5.25).
pub(super) fn start_stop_unit(device: &mut Device<'_>, lu: u8, request: StartStopUnit) -> Outcome {
    const START_VALID: u8 = 0;
    if request.power_condition != START_VALID {
        return Outcome::GOOD;
    }
    let Some(unit) = device.units.get_mut(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    if request.load_eject && !unit.description.removable {
        let field = CdbError::InvalidField {
            byte: 4,
            bit: Some(1),
        };
        return Outcome::check(field.sense());
    }
    if request.load_eject {
        return medium::load_or_eject(device, lu, request.start);
    }
    // A drive with a removable medium starts by itself when the medium is accessed, so it is ready
    // while a medium is loaded.
    unit.stopped = !request.start && !unit.description.removable;
    if !request.start && unit.description.write_cache && !request.no_flush {
        Outcome::Flush { lu }
    } else {
        Outcome::GOOD
    }
}

/// Executes REQUEST SENSE. It returns and ends a unit attention condition, or returns the reason
/// why the LU is not ready, or NO SENSE. (The sense data of a failed command was sent with its
/// status.)
pub(super) fn request_sense(
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

pub(super) fn answer_sense(
    device: &mut Device<'_>,
    sense: Sense,
    descriptor_format: bool,
    allocation_length: u8,
) -> Outcome {
    if descriptor_format {
        let mut data = Vec::new();
        sense.emit_descriptor(&mut data);
        device.answer(&data, allocation_length.into())
    } else {
        device.answer(&sense.emit_fixed(), allocation_length.into())
    }
}
