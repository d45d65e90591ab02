//! Access of a command to its drive.

use hakaru_tape::{Condition, Drive};
use hakaru_wire::scsi::{Sense, Status};

use crate::context::Device;
use crate::outcome::Outcome;
use crate::verdict::Verdict;

/// Returns the drive of an LU after the end of its last transfer, or the outcome of a command that
/// cannot be executed now.
pub(super) fn idle_drive<'a>(device: &'a mut Device<'_>, lu: u8) -> Result<&'a mut Drive, Outcome> {
    let tape = device.units.tape_mut();
    let Some(drive) = tape.and_then(|tape| tape.drive_mut(lu)) else {
        return Err(Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED));
    };
    if drive.is_busy() {
        return Err(Outcome::End(Verdict::Status(Status::BUSY)));
    }
    drive.settle();
    Ok(drive)
}

/// Executes a request that moves no data.
pub(super) fn request(
    device: &mut Device<'_>,
    lu: u8,
    execute: impl FnOnce(&mut Drive) -> Result<Option<Condition>, Condition>,
) -> Outcome {
    match idle_drive(device, lu).map(execute) {
        Ok(result) => outcome(result),
        Err(outcome) => outcome,
    }
}

/// Returns the outcome of a request. A condition may also end a request that was done.
pub(super) fn outcome(result: Result<Option<Condition>, Condition>) -> Outcome {
    match result {
        Ok(None) => Outcome::GOOD,
        Ok(Some(condition)) | Err(condition) => Outcome::check(condition.sense()),
    }
}
