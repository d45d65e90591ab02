//! Why a job cannot go on, or its copy is no copy.
use hakaru_contract::ConfigError;
use hakaru_iscsi_session::{NexusError, TaskError};
use hakaru_wire::scsi::{AdditionalSense, Sense, SenseKey};

/// One of the two LUs of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The LU that holds the image.
    Source,
    /// The LU that takes the copy.
    Destination,
}

impl Side {
    /// Its name in configurations, counters and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Side::Source => "source",
            Side::Destination => "destination",
        }
    }
}

/// Why a job cannot go on. Offsets on the destination count from where the copy begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A session was refused or lost, or its LU cannot be used.
    #[error("{}: {error}", .side.name())]
    Nexus {
        /// Whose.
        side: Side,
        /// How.
        error: NexusError,
    },
    /// The LUs do not fit the job.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The destination takes no writes.
    #[error("destination: it is write-protected")]
    ReadOnly,
    /// The image could not be read.
    #[error(
        "source: the read of {length_bytes} bytes at byte {offset_bytes} of the image failed: {error}"
    )]
    Read {
        /// Where in the image.
        offset_bytes: u64,
        /// How much.
        length_bytes: u32,
        /// How.
        error: TaskError,
    },
    /// The copy could not be written.
    #[error(
        "destination: the write of {length_bytes} bytes at byte {offset_bytes} of the copy failed: {error}"
    )]
    Write {
        /// Where in the copy.
        offset_bytes: u64,
        /// How much.
        length_bytes: u32,
        /// How.
        error: TaskError,
    },
    /// The destination's pool has no space left.
    #[error("destination: it has no space left, at byte {offset_bytes} of the copy")]
    Full {
        /// Where in the copy.
        offset_bytes: u64,
    },
    /// What was written could not be brought to stable storage.
    #[error("destination: SYNCHRONIZE CACHE failed: {0}")]
    Flush(TaskError),
    /// The copy could not be read back.
    #[error("destination: reading the copy back failed at its byte {offset_bytes}: {error}")]
    ReadBack {
        /// Where in the copy.
        offset_bytes: u64,
        /// How.
        error: TaskError,
    },
    /// The copy is not what was read.
    #[error(
        "the copy differs from what was read in {blocks} blocks, the first at byte {offset_bytes} of the image"
    )]
    Mismatch {
        /// Where in the image the first of them begins.
        offset_bytes: u64,
        /// How many.
        blocks: u64,
    },
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
    /// Of a write that failed.
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
