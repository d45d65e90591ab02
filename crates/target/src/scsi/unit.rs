//! The state of an LU: TEST UNIT READY, START STOP UNIT, REQUEST SENSE (SPC-4 sections 6.39 and 6.47, SBC-3 section 5.25).

use hakaru_wire::scsi::{CdbError, Sense, StartStopUnit};

use super::{Device, Outcome};

pub(super) fn test_unit_ready(device: &Device<'_>, lu: u8) -> Outcome {
    if is_stopped(device, lu) {
        Outcome::check(Sense::INITIALIZING_COMMAND_REQUIRED)
    } else {
        Outcome::GOOD
    }
}

fn is_stopped(device: &Device<'_>, lu: u8) -> bool {
    device.units.get(lu).is_some_and(|unit| unit.stopped)
}

/// Stops or starts the LU, for every initiator. A stop flushes unless NO_FLUSH. There is no medium to eject, and there are no power
/// conditions besides active.
pub(super) fn start_stop_unit(device: &mut Device<'_>, lu: u8, request: StartStopUnit) -> Outcome {
    const START_VALID: u8 = 0;
    const ACTIVE: u8 = 1;
    let start = match request.power_condition {
        START_VALID if request.load_eject => {
            return Outcome::check(
                CdbError::InvalidField {
                    byte: 4,
                    bit: Some(1),
                }
                .sense(),
            );
        }
        START_VALID => request.start,
        ACTIVE => true,
        _ => {
            return Outcome::check(
                CdbError::InvalidField {
                    byte: 4,
                    bit: Some(7),
                }
                .sense(),
            );
        }
    };
    let Some(unit) = device.units.get_mut(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    unit.stopped = !start;
    if unit.stopped && unit.description.write_cache && !request.no_flush {
        Outcome::Flush { lu }
    } else {
        Outcome::GOOD
    }
}

/// Sense data as parameter data: a unit attention condition, which ends with it, or that the LU is stopped, or nothing. (The sense data
/// of a command that failed went with its status.)
pub(super) fn request_sense(
    device: &mut Device<'_>,
    lu: u8,
    descriptor_format: bool,
    allocation_length: u8,
) -> Outcome {
    let sense = match device.session.take_attention(lu) {
        Some(attention) => attention,
        None if is_stopped(device, lu) => Sense::INITIALIZING_COMMAND_REQUIRED,
        None => Sense::NO_SENSE,
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
