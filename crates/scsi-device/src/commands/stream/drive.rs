//! Access of a command to its drive.

use hakaru_tape::timing::Motion;
use hakaru_tape::{Condition, Continued, Drive, Record};
use hakaru_wire::scsi::{Sense, Status};

use crate::context::Device;
use crate::outcome::Outcome;
use crate::program::{Job, Moving, Program, TapeWrite};
use crate::verdict::Verdict;

/// Returns the drive of an LU after the end of its last transfer, or the outcome of a command that
/// cannot be executed now: a transfer ends soon (BUSY), a motion that continues after its command
/// does not (NOT READY). One command reports data that was lost after its command was aborted.
pub(super) fn idle_drive<'a>(device: &'a mut Device<'_>, lu: u8) -> Result<&'a mut Drive, Outcome> {
    let tape = device.units.tape_mut();
    let Some(drive) = tape.and_then(|tape| tape.drive_mut(lu)) else {
        return Err(Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED));
    };
    if drive.is_busy() {
        return Err(match drive.continued() {
            Some(motion) => Outcome::check(continuing(motion)),
            None => Outcome::End(Verdict::Status(Status::BUSY)),
        });
    }
    drive.settle();
    if drive.take_loss() {
        return Err(Outcome::check(Sense::WRITE_ERROR.as_deferred()));
    }
    Ok(drive)
}

/// Returns the sense data of a drive whose motion continues after its command.
pub(super) fn continuing(motion: Continued) -> Sense {
    match motion {
        Continued::Positioning => Sense::OPERATION_IN_PROGRESS,
        Continued::Loading => Sense::BECOMING_READY,
    }
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

/// Executes a request that moves no data, and makes durable what the drive has written. With
/// `immediate`, the command then ends, and the motion of the tape continues.
pub(super) fn synchronising(
    device: &mut Device<'_>,
    lu: u8,
    immediate: bool,
    execute: impl FnOnce(&mut Drive) -> Result<Option<Condition>, Condition>,
) -> Outcome {
    let number = number(device, lu);
    let executed = idle_drive(device, lu).map(|drive| {
        let before = drive.place_bytes();
        let result = execute(drive);
        let to = drive.place_bytes();
        let motion = match (drive.loaded(), to == before) {
            (Err(_), _) => None,
            (Ok(_), true) => Some(Motion::Flush),
            (Ok(_), false) => Some(Motion::Locate { to }),
        };
        let record = drive.synchronise();
        let moving = motion.and_then(|motion| moving(drive, number, motion));
        if immediate && moving.is_some() {
            drive.continue_as(Continued::Positioning);
        }
        (result, record, moving)
    });
    match executed {
        Ok((result, record, moving)) => {
            let moving = moving.into_iter().collect();
            ended_when(device, lu, result, record, moving, immediate)
        }
        Err(outcome) => outcome,
    }
}

/// Returns the number of the drive behind an LU, from 0.
pub(super) fn number(device: &Device<'_>, lu: u8) -> u8 {
    let number = device.units.tape().and_then(|tape| tape.number(lu));
    number.map_or(0, |number| number as u8)
}

/// Returns a motion of a drive that moves no data, if its motions take time.
pub(crate) fn moving(drive: &mut Drive, number: u8, motion: Motion) -> Option<Moving> {
    drive.timed.then(|| Moving {
        drive: number,
        motion,
        ticket: Some(drive.hold()),
    })
}

/// Returns the outcome of a request after which records are to be written, and motions take time.
pub(crate) fn ended(
    device: &Device<'_>,
    lu: u8,
    result: Result<Option<Condition>, Condition>,
    records: impl IntoIterator<Item = Record>,
    moving: Vec<Moving>,
) -> Outcome {
    ended_when(device, lu, result, records, moving, false)
}

/// Returns the outcome as [`ended`]. With `immediate`, motions continue after the command.
pub(super) fn ended_when(
    device: &Device<'_>,
    lu: u8,
    result: Result<Option<Condition>, Condition>,
    records: impl IntoIterator<Item = Record>,
    moving: Vec<Moving>,
    immediate: bool,
) -> Outcome {
    let Some(store_lun) = device.units.tape().map(|tape| tape.changer_lun) else {
        return outcome(result);
    };
    let mut records = records.into_iter().peekable();
    if records.peek().is_none() && moving.is_empty() {
        return outcome(result);
    }
    let end = result.unwrap_or_else(Some);
    let program = TapeWrite::synchronising(store_lun, records, moving, end, immediate);
    Outcome::program(Job::new(lu, Program::TapeWrite(program)))
}

/// Returns the outcome of a request. A condition may also end a request that was done.
pub(super) fn outcome(result: Result<Option<Condition>, Condition>) -> Outcome {
    match result {
        Ok(None) => Outcome::GOOD,
        Ok(Some(condition)) | Err(condition) => Outcome::check(condition.sense()),
    }
}
