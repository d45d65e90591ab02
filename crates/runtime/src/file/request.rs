//! Requests to files and their completions.
use std::io;

use rustix::fs::FallocateFlags;

use super::handle::{Extent, FileHandle};

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Fill the buffer from the file.
    Read,
    /// Write the entire buffer to the file.
    Write {
        /// Complete only when the data is on stable storage.
        durable: bool,
    },
    /// Put all completed writes on stable storage. The buffer is unused.
    Sync,
    /// Deallocate the range, which then reads as zeros. The buffer is unused. `Unsupported` if the
    /// file system (or device) has no holes; the caller then writes zeros.
    Punch {
        /// Length of the range, at least 1.
        length_bytes: u64,
    },
    /// Make the range read as zeros and keep (or allocate) its space. The buffer is unused.
    /// `Unsupported` as for `Punch`.
    Zero {
        /// Length of the range, at least 1.
        length_bytes: u64,
    },
    /// List the allocated parts of the range: see [`FileHandle::extents`]. The buffer is unused.
    Extents {
        /// Length of the range, at least 1.
        length_bytes: u64,
        /// Maximum number of extents to list.
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

/// A request to a file.
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
    /// Data of the transfer, which is as long as the buffer. With `O_DIRECT`, its address and
    /// length and the offset are multiples of [`FileHandle::block_bytes`].
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
    /// Extents listed by [`FileOp::Extents`]; empty for other operations.
    pub extents: Vec<Extent>,
    /// Success, or the error. `UnexpectedEof` if the file ends within the range of a read.
    pub result: io::Result<()>,
}
