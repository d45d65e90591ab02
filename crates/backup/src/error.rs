//! Errors that end a job.
use hakaru_contract::ConfigError;
use hakaru_iscsi_session::{NexusError, TaskError};
use hakaru_wire::scsi::{AdditionalSense, Sense, SenseKey};

use crate::tape::TapeError;

/// One of the two LUs of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The LU that holds the image.
    Source,
    /// The LU that receives the copy.
    Destination,
}

impl Side {
    /// Returns the name of the side in configurations, counters and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Side::Source => "source",
            Side::Destination => "destination",
        }
    }
}

/// An error that ends a job. Offsets on the destination count from the start of the copy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A session was refused or lost, or its LU is unusable.
    #[error("{}: {error}", .side.name())]
    Nexus {
        /// The side of the session.
        side: Side,
        /// The error of the session.
        error: NexusError,
    },
    /// The LUs do not fit the job.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The destination is write-protected.
    #[error("destination: the LU is write-protected")]
    ReadOnly,
    /// The image could not be read.
    #[error(
        "source: the read of {length_bytes} bytes at byte {offset_bytes} of the image failed: {error}"
    )]
    Read {
        /// Offset in the image, bytes.
        offset_bytes: u64,
        /// Length of the read, bytes.
        length_bytes: u32,
        /// The error of the command.
        error: TaskError,
    },
    /// The copy could not be written.
    #[error(
        "destination: the write of {length_bytes} bytes at byte {offset_bytes} of the copy failed: {error}"
    )]
    Write {
        /// Offset in the copy, bytes.
        offset_bytes: u64,
        /// Length of the write, bytes.
        length_bytes: u32,
        /// The error of the command.
        error: TaskError,
    },
    /// The destination's pool has no space left.
    #[error("destination: no space left at byte {offset_bytes} of the copy")]
    Full {
        /// Offset in the copy, bytes.
        offset_bytes: u64,
    },
    /// The destination failed to flush the written data to stable storage.
    #[error("destination: SYNCHRONIZE CACHE failed: {0}")]
    Flush(TaskError),
    /// The copy could not be read back.
    #[error(
        "destination: reading the copy back failed at byte {offset_bytes} of the copy: {error}"
    )]
    ReadBack {
        /// Offset in the copy, bytes.
        offset_bytes: u64,
        /// The error of the command.
        error: TaskError,
    },
    /// The copy differs from the data read from the source.
    #[error(
        "the copy differs from the image in {blocks} blocks, the first at byte {offset_bytes} of the image"
    )]
    Mismatch {
        /// Offset in the image of the first differing block, bytes.
        offset_bytes: u64,
        /// Number of differing blocks.
        blocks: u64,
    },
    /// The tape drive, its changer or the cartridge fails the copy.
    #[error("destination: {0}")]
    Tape(TapeError),
    /// zstd failed.
    #[error("compression: {0}")]
    Compression(String),
}

/// SPACE ALLOCATION FAILED WRITE PROTECT and WRITE PROTECTED (SBC-3 section 4.7.3.6, SPC-4 annex
/// F).
const NO_SPACE: AdditionalSense = AdditionalSense {
    code: 0x27,
    qualifier: 0x07,
};

impl JobError {
    /// Returns the error of a failed write.
    #[must_use]
    pub fn of_write(offset_bytes: u64, length_bytes: u32, error: TaskError) -> JobError {
        match error {
            TaskError::Check(Sense {
                key: SenseKey::DataProtect,
                additional: NO_SPACE,
                ..
            }) => JobError::Full { offset_bytes },
            TaskError::Check(Sense {
                key: SenseKey::DataProtect,
                ..
            }) => JobError::ReadOnly,
            error => JobError::Write {
                offset_bytes,
                length_bytes,
                error,
            },
        }
    }
}
