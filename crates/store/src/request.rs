//! Requests of the stores to the shell, and its answers.
use std::io;
use std::ops::Range;

use hakaru_pool::ActionId;
use hakaru_pool::metadata::Batch;
use hakaru_scsi_device::{Extent, IoId};

/// An open file of the shell: an LU's, or a group's of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Names a [`FileRequest`] until its [`FileDone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRequestId(pub usize);

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Fill the range of the buffer.
    Read,
    /// Write the range of the buffer.
    Write {
        /// On stable storage before it is done.
        durable: bool,
    },
    /// Put everything written before on stable storage.
    Sync,
    /// Make a range read as zeros and give its space back. `Unsupported` where there are no holes.
    Punch {
        /// Bytes, at least 1.
        length_bytes: u64,
    },
    /// Make a range read as zeros that keeps or takes its space. `Unsupported` as for `Punch`.
    Zero {
        /// Bytes, at least 1.
        length_bytes: u64,
    },
    /// List the extents of a range, each with whether it takes space; neighbours differ. A look at
    /// metadata.
    Extents {
        /// Bytes, at least 1.
        length_bytes: u64,
        /// Most extents that are listed.
        extents_max: usize,
    },
}

/// A request to a file.
#[derive(Debug)]
pub struct FileRequest {
    /// Comes back in [`FileDone`].
    pub id: FileRequestId,
    /// The file.
    pub file: FileId,
    /// The operation.
    pub op: FileOp,
    /// First byte of the file.
    pub offset_bytes: u64,
    /// The caller's buffer, of which `range` is read or written; empty for other operations.
    pub bytes: Vec<u8>,
    /// The part of the buffer that moves.
    pub range: Range<usize>,
    /// May be done within the call if that needs no waiting.
    pub at_once: bool,
}

/// A finished request to a file.
#[derive(Debug)]
pub struct FileDone {
    /// The request's.
    pub id: FileRequestId,
    /// The request's.
    pub op: FileOp,
    /// The request's, filled if it was a read that succeeded.
    pub bytes: Vec<u8>,
    /// Of [`FileOp::Extents`]; else empty.
    pub extents: Vec<(Extent, bool)>,
    /// All of it was done, or the error.
    pub result: io::Result<()>,
}

/// A batch for [`hakaru_pool::metadata::Store::commit`]. A pool has never more than one under way.
#[derive(Debug)]
pub struct CommitRequest {
    /// The pool.
    pub pool: usize,
    /// Comes back in [`Committed`].
    pub action: ActionId,
    /// The batch.
    pub batch: Box<Batch>,
}

/// A commit that is over.
#[derive(Debug)]
pub struct Committed {
    /// The pool.
    pub pool: usize,
    /// The request's.
    pub action: ActionId,
    /// Whether the batch is on stable storage, or why that is not known.
    pub result: Result<(), String>,
    /// The space for metadata is nearly used up.
    pub metadata_is_low: bool,
}

/// Something that the shell does.
#[derive(Debug)]
pub enum Request {
    /// Move or change bytes of a file.
    File(FileRequest),
    /// Commit metadata of a pool.
    Commit(CommitRequest),
    /// Keep an LU's reservations over a restart.
    Keep {
        /// For [`crate::Storage::handle_kept`].
        io: IoId,
        /// The LU.
        lun: u8,
        /// In place of what was kept before.
        record: Vec<u8>,
    },
}
