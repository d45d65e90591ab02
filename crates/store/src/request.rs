//! Requests of the stores to the shell, and its answers.
use std::io;
use std::ops::Range;

use hakaru_pool::ActionId;
use hakaru_pool::metadata::Batch;
use hakaru_scsi_device::{Extent, IoId};

/// An open file of the shell: the file of an LU or of a pool's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Identifies a [`FileRequest`] until its [`FileDone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRequestId(pub usize);

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Fill the range of the buffer.
    Read,
    /// Write the range of the buffer.
    Write {
        /// Forced unit access: on stable storage before it completes.
        durable: bool,
    },
    /// Flush all earlier writes to stable storage.
    Sync,
    /// Deallocate a range, which then reads as zeros. `Unsupported` if the file system lacks holes.
    Punch {
        /// Bytes, at least 1.
        length_bytes: u64,
    },
    /// Zero a range, which stays or becomes allocated. `Unsupported` as for `Punch`.
    Zero {
        /// Bytes, at least 1.
        length_bytes: u64,
    },
    /// List the extents of a range, each with whether it is allocated; neighbours differ. Reads
    /// only metadata.
    Extents {
        /// Bytes, at least 1.
        length_bytes: u64,
        /// Maximum number of extents listed.
        extents_max: usize,
    },
}

/// A request to a file.
#[derive(Debug)]
pub struct FileRequest {
    /// Identifier, repeated in [`FileDone`].
    pub id: FileRequestId,
    /// The file.
    pub file: FileId,
    /// The operation.
    pub op: FileOp,
    /// Offset in the file, bytes.
    pub offset_bytes: u64,
    /// Buffer of which `range` is read or written; empty for other operations.
    pub bytes: Vec<u8>,
    /// The part of the buffer that is transferred.
    pub range: Range<usize>,
    /// Whether it may be carried out within the call if that does not block.
    pub at_once: bool,
}

/// A completed request to a file.
#[derive(Debug)]
pub struct FileDone {
    /// Identifier of the request.
    pub id: FileRequestId,
    /// Operation of the request.
    pub op: FileOp,
    /// Buffer of the request, filled by a successful read.
    pub bytes: Vec<u8>,
    /// Extents, for [`FileOp::Extents`]; otherwise empty.
    pub extents: Vec<(Extent, bool)>,
    /// Success of the entire operation, or the error.
    pub result: io::Result<()>,
}

/// A batch for [`hakaru_pool::metadata::Store::commit`]. A pool has at most one in flight.
#[derive(Debug)]
pub struct CommitRequest {
    /// Number of the pool.
    pub pool: usize,
    /// Action, repeated in [`Committed`].
    pub action: ActionId,
    /// The batch.
    pub batch: Box<Batch>,
}

/// A completed commit.
#[derive(Debug)]
pub struct Committed {
    /// Number of the pool.
    pub pool: usize,
    /// Action of the request.
    pub action: ActionId,
    /// Success if the batch is on stable storage. On an error it is unknown whether it is.
    pub result: Result<(), String>,
    /// Whether the space for metadata is almost exhausted.
    pub metadata_is_low: bool,
}

/// A request to the shell.
#[derive(Debug)]
pub enum Request {
    /// Read or change a file.
    File(FileRequest),
    /// Commit metadata of a pool.
    Commit(CommitRequest),
    /// Store an LU's reservations, so that they survive a restart.
    Keep {
        /// Access, passed to [`crate::Storage::handle_kept`].
        io: IoId,
        /// The LU.
        lun: u8,
        /// New record, which replaces the stored one.
        record: Vec<u8>,
    },
}
