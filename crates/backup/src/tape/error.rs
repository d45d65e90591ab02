//! Errors of tape drives and changers.
use std::time::Duration;

use hakaru_iscsi_session::TaskError;
use hakaru_wire::scsi::{AdditionalSense, Sense, SenseKey};

/// MEDIUM NOT PRESENT, whatever the qualifier (SPC-4 annex F).
const NO_MEDIUM: u8 = 0x3a;

/// Reason why a tape cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// The changer has no such drive.
    #[error("the changer has {drives} drives, and no number {drive}")]
    NoDrive {
        /// Number of the drive, from 0.
        drive: u16,
        /// Drives that the changer reports.
        drives: usize,
    },
    /// No element of the changer holds the cartridge.
    #[error("the library has no cartridge {barcode}")]
    NoCartridge {
        /// The barcode.
        barcode: String,
    },
    /// The cartridge is in another drive.
    #[error("cartridge {barcode} is in another drive")]
    InUse {
        /// The barcode.
        barcode: String,
    },
    /// The drive holds another cartridge, and no slot is free for it.
    #[error("no slot is free for the cartridge in the drive")]
    NoSlot,
    /// The drive did not become ready.
    #[error("the drive was not ready within {} s", after.as_secs())]
    NotReady {
        /// Time that it had.
        after: Duration,
    },
    /// The drive is empty.
    #[error("no cartridge is in the drive")]
    Empty,
    /// The cartridge may not be written.
    #[error("cartridge {barcode} is write-protected")]
    WriteProtected {
        /// The barcode.
        barcode: String,
    },
    /// The end of the tape was reached.
    #[error("cartridge {barcode} is full at byte {offset_bytes} of the copy")]
    Full {
        /// The barcode.
        barcode: String,
        /// Offset in the copy, bytes.
        offset_bytes: u64,
    },
    /// The tape is not where the commands of the job have left it.
    #[error("the tape is at object {actual}, not at {expected}")]
    Moved {
        /// Object at which it should be.
        expected: u64,
        /// Object at which it is.
        actual: u64,
    },
    /// An answer is too short or contradicts itself.
    #[error("{command} was answered with unusable data")]
    Answer {
        /// Name of the command.
        command: &'static str,
    },
    /// Another command failed.
    #[error("{command} failed: {error}")]
    Command {
        /// Name of the command.
        command: &'static str,
        /// Error of the command.
        error: TaskError,
    },
}

impl TapeError {
    /// Returns the error of a failed command to the drive or its changer.
    #[must_use]
    pub fn of_command(command: &'static str, barcode: &str, error: TaskError) -> TapeError {
        match error {
            TaskError::Check(Sense {
                key: SenseKey::NotReady,
                additional:
                    AdditionalSense {
                        code: NO_MEDIUM, ..
                    },
                ..
            }) => TapeError::Empty,
            TaskError::Check(Sense {
                key: SenseKey::DataProtect,
                ..
            }) => TapeError::WriteProtected {
                barcode: barcode.to_owned(),
            },
            error => TapeError::Command { command, error },
        }
    }
}

/// Returns whether a write or a filemark has ended with the early warning of the end of the tape:
/// it is done (SSC-3 section 4.2.4).
#[must_use]
pub fn is_early_warning(error: &TaskError) -> bool {
    let TaskError::Check(sense) = error else {
        return false;
    };
    sense.key == SenseKey::NoSense && sense.stream.end_of_medium && !sense.deferred
}
