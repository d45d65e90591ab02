//! Conversion of the errors of a job into failures of the engine, each with class, message and
//! hint. The message names the job and the LU.
use std::io;

use hakaru_backup::{Job, JobError, Side, TapeError};
use hakaru_contract::backup::{BackupJob, Lu};
use hakaru_contract::{ConfigError, ErrorClass};
use hakaru_runtime::file::FileOp;

use crate::failure::Failure;
use crate::nexus_failure;

/// Returns the failure of an invalid configuration.
pub fn usage_of(error: &ConfigError) -> Failure {
    Failure::usage(error, &error.hint)
}

/// Returns the job, the side and its LU, such as `vm1, destination (LUN 0 of iqn.… at
/// 192.0.2.1:3260)`.
fn place_of(job: &BackupJob, side: Side) -> String {
    let lu = match side {
        Side::Source => &job.source,
        Side::Destination => &job.destination,
    };
    format!("{}, {} ({})", job.name, side.name(), place(lu))
}

fn place(lu: &Lu) -> String {
    format!("LUN {} of {} at {}", lu.lun, lu.target_name, lu.portal)
}

/// Returns the failure of a portal that cannot be reached.
pub fn of_connect(job: &BackupJob, side: Side, error: &io::Error) -> Failure {
    nexus_failure::of_connect(&place_of(job, side), error)
}

/// Returns the failure of a job whose disk failed a request. The kernel has repeated the request
/// before it reports an error, so the job does not.
pub fn of_device(job: &Job, side: Side, op: FileOp, error: &io::Error) -> Failure {
    let op = match op {
        FileOp::Read => "read",
        FileOp::Write { .. } => "write",
        _ => "flush",
    };
    let config = job.config();
    let mut failure = Failure::peer(
        format_args!("{}: a {op} failed: {error}", place_of(config, side)),
        "see the logs of this machine's kernel and of the array",
    );
    failure.message.push_str(&progress(job));
    failure
}

/// Returns the failure of a job that failed, or whose copy differs from the source. The message
/// states the number of bytes written before.
pub fn of_job(job: &Job, error: &JobError) -> Failure {
    let config = job.config();
    let mut failure = match error {
        JobError::Nexus { side, error } => nexus_failure::of_nexus(&place_of(config, *side), error),
        JobError::Config(error) => Failure::usage(error, &error.hint),
        JobError::ReadOnly => Failure::usage(
            format_args!(
                "{}: the LU is write-protected",
                place_of(config, Side::Destination)
            ),
            "name a destination LU that accepts writes",
        ),
        JobError::Full { offset_bytes } => Failure::peer(
            format_args!(
                "{}: no space left at byte {offset_bytes} of the copy",
                place_of(config, Side::Destination)
            ),
            "enlarge the pool behind the destination, or copy less",
        ),
        JobError::Tape(error) => of_tape(config, error),
        JobError::Mismatch { .. } => Failure::new(
            ErrorClass::Verification,
            format_args!(
                "{} (to {}): {error}",
                config.name,
                place(&config.destination)
            ),
            "the storage or the path damaged data, or something else writes to the same blocks",
        ),
        JobError::Compression(_) => Failure::new(
            ErrorClass::Internal,
            format_args!("{}: {error}", config.name),
            "check that memory is available",
        ),
        JobError::Read { .. } => Failure::peer(
            format_args!("{} (from {}): {error}", config.name, place(&config.source)),
            "see the array's own log",
        ),
        JobError::Write { .. } | JobError::Flush(_) | JobError::ReadBack { .. } => Failure::peer(
            format_args!(
                "{} (to {}): {error}",
                config.name,
                place(&config.destination)
            ),
            "see the array's own log",
        ),
    };
    if !matches!(error, JobError::Mismatch { .. }) {
        failure.message.push_str(&progress(job));
    }
    failure
}

/// Returns the end of a message about a copy that was cut off.
fn progress(job: &Job) -> String {
    match job.counters().written_bytes {
        0 => String::new(),
        written => format!("; {written} bytes of the copy had been written and acknowledged"),
    }
}

/// Returns the failure of a tape drive, its changer or a cartridge.
fn of_tape(job: &BackupJob, error: &TapeError) -> Failure {
    let message = format!("{}: {error}", place_of(job, Side::Destination));
    match error {
        TapeError::NoDrive { .. } => {
            Failure::usage(message, "name a drive of the library, counted from 0")
        }
        TapeError::NoCartridge { .. } => Failure::usage(
            message,
            "name a cartridge of the library, or put this one into a slot",
        ),
        TapeError::InUse { .. } => Failure::usage(
            message,
            "give each drive its own cartridges, or move this one back to a slot",
        ),
        TapeError::NoSlot => Failure::usage(message, "export a cartridge to free a slot"),
        TapeError::NotReady { .. } => Failure::peer(
            message,
            "see the display of the drive, and whether it takes this cartridge",
        ),
        TapeError::Empty => Failure::peer(
            message,
            "something else has taken the cartridge out; see who uses the library",
        ),
        TapeError::WriteProtected { .. } => Failure::usage(
            message,
            "name another cartridge, or move its write-protect tab",
        ),
        TapeError::Full { .. } => Failure::peer(
            message,
            "use larger cartridges, a cartridge for each image, or smaller images",
        ),
        TapeError::Moved { .. } => Failure::peer(
            message,
            "something else has used the drive meanwhile, or it was reset; the copy is not complete",
        ),
        TapeError::Answer { .. } | TapeError::Command { .. } => {
            Failure::peer(message, "see the array's own log")
        }
    }
}
