//! Requests to files and their completions.
use std::io;

use rustix::fs::FallocateFlags;

use super::handle::{Extent, FileHandle};

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Fill the buffer from the file.
    Read,
    /// Write the whole buffer to the file.
    Write {
        /// Complete only when the data is on stable storage.
        durable: bool,
    },
    /// Put all completed writes on stable storage. The buffer is unused.
    Sync,
    /// Deallocate the range, which then reads as zeros. The buffer is unused. `Unsupported` if the
    /// file system (or device) has no holes; the caller then writes zeros.
    Punch {
        /// Bytes, at least 1.
        length_bytes: u64,
    },
    /// Make the range read as zeros and keep (or allocate) its space. The buffer is unused.
    /// `Unsupported` as for `Punch`.
    Zero {
        /// Bytes, at least 1.
        length_bytes: u64,
    },
    /// List the allocated parts of the range: see [`FileHandle::extents`]. The buffer is unused.
    Extents {
        /// Bytes, at least 1.
        length_bytes: u64,
        /// Maximum number of extents in the answer.
        extents_max: usize,
    },
}

impl FileOp {
    /// Returns the flags and length for `fallocate`; `None` if the operation does not use it.
    pub(super) fn fallocate(self) -> Option<(FallocateFlags, u64)> {
        match self {
            FileOp::Punch { length_bytes } => Some((
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                length_bytes,
            )),
            FileOp::Zero { length_bytes } => Some((
                FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                length_bytes,
            )),
            _ => None,
        }
    }
}

/// A request.
#[derive(Debug)]
pub struct FileRequest<B> {
    /// Chosen by the caller and returned in [`FileDone`].
    pub id: u64,
    /// File.
    pub file: FileHandle,
    /// Operation.
    pub op: FileOp,
    /// First byte.
    pub offset_bytes: u64,
    /// Data; its length is that of the transfer. With `O_DIRECT` address, length and offset are
    /// multiples of the device's block.
    pub buffer: B,
}

/// A finished request.
#[derive(Debug)]
pub struct FileDone<B> {
    /// Id of the request.
    pub id: u64,
    /// Operation of the request.
    pub op: FileOp,
    /// Buffer of the request, filled by a successful read.
    pub buffer: B,
    /// The answer to [`FileOp::Extents`]; else empty.
    pub extents: Vec<Extent>,
    /// Success, or the error. A file that ends within the range is `UnexpectedEof`.
    pub result: io::Result<()>,
}
