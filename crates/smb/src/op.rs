//! Operations and their results.
use std::ops::{Deref, Range};
use std::sync::Arc;

use hakaru_units::Time;

use crate::error::OpError;
use crate::wire::{
    Change, Command, CreateRequest, CreateResponse, DirectoryEntry, FileFacts, FileId, Query, Space,
};

/// Number of an operation on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// An operation. In a compound, [`FileId::RELATED`] is the file of the operation before.
#[derive(Clone, Debug)]
pub enum Op {
    /// Opens or creates a file or a folder.
    Create(CreateRequest),
    /// Closes a file.
    Close {
        /// File.
        file: FileId,
    },
    /// Reads part of a file.
    Read {
        /// File.
        file: FileId,
        /// Offset in the file, bytes.
        offset: u64,
        /// Length, bytes.
        length: u32,
        /// Whether the data is returned. Otherwise, only its length is.
        keep: bool,
    },
    /// Writes part of a file.
    Write {
        /// File.
        file: FileId,
        /// Offset in the file, bytes.
        offset: u64,
        /// Data, by reference.
        data: WriteData,
    },
    /// Flushes a file to stable storage.
    Flush {
        /// File.
        file: FileId,
    },
    /// Returns the next entries of a folder.
    List {
        /// Folder.
        file: FileId,
        /// Pattern with `*` and `?`. The server uses the one of the first request.
        pattern: String,
        /// Whether the listing begins again.
        restart: bool,
    },
    /// Returns information about a file or the file system.
    Query {
        /// File.
        file: FileId,
        /// Information.
        query: Query,
    },
    /// Renames, deletes or truncates a file.
    Set {
        /// File.
        file: FileId,
        /// Change.
        change: Change,
    },
    /// Does nothing, at the server.
    Echo,
}

/// Part of a buffer to write.
#[derive(Clone, Debug)]
pub struct WriteData {
    /// Buffer.
    pub buffer: Arc<Vec<u8>>,
    /// Part of it.
    pub range: Range<usize>,
}

impl WriteData {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl From<Vec<u8>> for WriteData {
    fn from(bytes: Vec<u8>) -> WriteData {
        WriteData {
            range: 0..bytes.len(),
            buffer: Arc::new(bytes),
        }
    }
}

impl Op {
    pub(crate) fn command(&self) -> Command {
        match self {
            Op::Create(_) => Command::Create,
            Op::Close { .. } => Command::Close,
            Op::Read { .. } => Command::Read,
            Op::Write { .. } => Command::Write,
            Op::Flush { .. } => Command::Flush,
            Op::List { .. } => Command::QueryDirectory,
            Op::Query { .. } => Command::QueryInfo,
            Op::Set { .. } => Command::SetInfo,
            Op::Echo => Command::Echo,
        }
    }
}

/// Data of a read. It stays in the buffer in which its message was received.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ReadData {
    message: Vec<u8>,
    range: Range<usize>,
}

impl ReadData {
    pub(crate) fn new(message: Vec<u8>, range: Range<usize>) -> ReadData {
        ReadData { message, range }
    }
}

impl Deref for ReadData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.message[self.range.clone()]
    }
}

impl std::fmt::Debug for ReadData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReadData({} bytes)", self.len())
    }
}

/// Result of an operation that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The file is open.
    Created(CreateResponse),
    /// Data was read.
    Read {
        /// Number of bytes; 0 at the end of the file.
        length: u32,
        /// The data, if it was to be kept.
        data: ReadData,
    },
    /// This number of bytes was written.
    Written(u32),
    /// The next entries of a folder, without `.` and `..`.
    Entries {
        /// Entries.
        entries: Vec<DirectoryEntry>,
        /// Whether the listing has ended.
        end: bool,
    },
    /// Facts about a file.
    Facts(FileFacts),
    /// Space of the file system.
    Space(Space),
    /// Close, flush, a change or an echo is done.
    Nothing,
}

/// An operation that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Operation.
    pub id: OpId,
    /// Result.
    pub result: Result<Output, OpError>,
    /// When the operation was submitted.
    pub submitted: Time,
    /// When its request, entirely, was passed to the kernel; `submitted` if it never was.
    pub sent: Time,
    /// When the response was received.
    pub completed: Time,
}
