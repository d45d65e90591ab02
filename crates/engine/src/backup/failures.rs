//! Failures of a job as failures of the engine: class, message with the job and the LU, hint.
use std::io;

use hakaru_backup::{Job, JobError, Side};
use hakaru_contract::backup::{BackupJob, Lu};
use hakaru_contract::{ConfigError, ErrorClass};

use crate::failure::Failure;
use crate::nexus_failure;

/// The configuration is invalid.
pub fn usage_of(error: &ConfigError) -> Failure {
    Failure::usage(error, &error.hint)
}

/// `vm1, destination (LUN 0 of iqn.… at 192.0.2.1:3260)`.
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

/// A portal cannot be reached.
pub fn of_connect(job: &BackupJob, side: Side, error: &io::Error) -> Failure {
    nexus_failure::of_connect(&place_of(job, side), error)
}

/// The job failed, or its copy differs from the source. The message states how much had been
/// written.
pub fn of_job(job: &Job, error: &JobError) -> Failure {
    let config = job.config();
    let mut failure = match error {
        JobError::Nexus { side, error } => nexus_failure::of_nexus(&place_of(config, *side), error),
        JobError::Config(error) => Failure::usage(error, &error.hint),
        JobError::ReadOnly => Failure::usage(
            format_args!(
                "{}: it is write-protected",
                place_of(config, Side::Destination)
            ),
            "name a destination LU that takes writes",
        ),
        JobError::Full { offset_bytes } => Failure::peer(
            format_args!(
                "{}: no space left at byte {offset_bytes} of the copy",
                place_of(config, Side::Destination)
            ),
            "enlarge the pool behind the destination, or copy less",
        ),
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
            "is there memory left?",
        ),
        JobError::Read { .. } => Failure::peer(
            format_args!("{} (from {}): {error}", config.name, place(&config.source)),
            "look at the array's own log",
        ),
        JobError::Write { .. } | JobError::Flush(_) | JobError::ReadBack { .. } => Failure::peer(
            format_args!(
                "{} (to {}): {error}",
                config.name,
                place(&config.destination)
            ),
            "look at the array's own log",
        ),
    };
    let written = job.counters().written_bytes;
    if written > 0 && !matches!(error, JobError::Mismatch { .. }) {
        let progress = format!("; {written} bytes of the copy had been written and acknowledged");
        failure.message.push_str(&progress);
    }
    failure
}
