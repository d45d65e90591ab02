//! Operations of a load, which a transport carries out, and their completions.
//!
//! This is the seam between the load and the ways to a file server. A transport needs no knowledge
//! of trees: paths, offsets and lengths are in the operation.
use std::sync::Arc;

use hakaru_units::Time;

use crate::forest::FileId;

/// Identifies an operation of a tool; numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub u64);

/// An operation to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Number, to be repeated in the completion.
    pub id: OperationId,
    /// Tool that waits for it. A tool has one operation in flight, and at most one open file.
    pub tool: u32,
    /// File that the step is about.
    pub file: FileId,
    /// Path below the directory or share, with `/` between names: of a folder in a lookup or a
    /// listing, else of a file.
    pub path: Arc<str>,
    /// Kind of operation.
    pub action: Action,
}

/// Kind of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look up a folder. The folders of a path follow each other, from the tree's root down.
    Lookup {
        /// Level of the folder, from 1.
        level: u32,
    },
    /// List the folder that was looked up last. The completion has the number of its entries.
    List,
    /// Open the file. The completion of an open for reading has the size of the file, bytes.
    Open {
        /// Purpose.
        mode: OpenMode,
    },
    /// Read from the open file.
    Read {
        /// Place, bytes.
        offset: u64,
        /// Bytes, at least 1.
        length: u32,
    },
    /// Write to the open file; [`crate::Tool::fill`] has the data.
    Write {
        /// Place, bytes.
        offset: u64,
        /// Bytes, at least 1.
        length: u32,
    },
    /// Flush the open file to stable storage.
    Flush,
    /// Close the open file.
    Close,
    /// Create an empty file, which must not exist, and close it.
    Create,
    /// Read the attributes of a file.
    Stat,
    /// Rename the file, in its folder.
    Rename {
        /// New path.
        to: Arc<str>,
    },
    /// Delete the file.
    Delete,
}

/// Purpose of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Read it.
    Read,
    /// Write all of it: an existing file is cut to length 0, a missing one is created.
    Write,
}

/// End of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Number of the operation.
    pub id: OperationId,
    /// Instant at which the transport began it.
    pub started: Time,
    /// Instant at which its outcome was known.
    pub ended: Time,
    /// Outcome.
    pub outcome: Outcome,
}

/// Outcome of an operation: bytes read or written, the size of an opened file, the entries of a
/// listed folder, otherwise 0; or the reason of a failure.
pub type Outcome = Result<u64, String>;

/// Things that have a duration: operations by kind, and whole files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// Lookup of a folder.
    Lookup,
    /// Listing of a folder.
    List,
    /// Open.
    Open,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Close.
    Close,
    /// Create.
    Create,
    /// Stat.
    Stat,
    /// Rename.
    Rename,
    /// Delete.
    Delete,
    /// Walk to a file and reading it, from the first lookup to the end of the close.
    FileRead,
    /// Walk to a file and writing it.
    FileWrite,
    /// Walk to a folder and all operations of the metadata profile; of a user, any operation other
    /// than reading or writing a file, with its walk.
    Step,
    /// Time by which an operation of a user began late, although the user had no other one.
    Delay,
}

impl Measured {
    /// All of them, in the order of their values.
    pub const ALL: [Measured; 15] = [
        Measured::Lookup,
        Measured::List,
        Measured::Open,
        Measured::Read,
        Measured::Write,
        Measured::Flush,
        Measured::Close,
        Measured::Create,
        Measured::Stat,
        Measured::Rename,
        Measured::Delete,
        Measured::FileRead,
        Measured::FileWrite,
        Measured::Step,
        Measured::Delay,
    ];

    /// Returns the name of its histogram.
    #[must_use]
    pub fn histogram(self) -> &'static str {
        match self {
            Measured::Lookup => "lookup_latency_ns",
            Measured::List => "list_latency_ns",
            Measured::Open => "open_latency_ns",
            Measured::Read => "read_latency_ns",
            Measured::Write => "write_latency_ns",
            Measured::Flush => "flush_latency_ns",
            Measured::Close => "close_latency_ns",
            Measured::Create => "create_latency_ns",
            Measured::Stat => "stat_latency_ns",
            Measured::Rename => "rename_latency_ns",
            Measured::Delete => "delete_latency_ns",
            Measured::FileRead => "file_read_latency_ns",
            Measured::FileWrite => "file_write_latency_ns",
            Measured::Step => "step_latency_ns",
            Measured::Delay => "delay_latency_ns",
        }
    }

    /// Returns the name of its counter.
    #[must_use]
    pub fn counter(self) -> &'static str {
        match self {
            Measured::Lookup => "lookups",
            Measured::List => "lists",
            Measured::Open => "opens",
            Measured::Read => "reads",
            Measured::Write => "writes",
            Measured::Flush => "flushes",
            Measured::Close => "closes",
            Measured::Create => "creates",
            Measured::Stat => "stats",
            Measured::Rename => "renames",
            Measured::Delete => "deletes",
            Measured::FileRead => "files_read",
            Measured::FileWrite => "files_written",
            Measured::Step => "steps",
            Measured::Delay => "begins",
        }
    }
}

impl From<&Action> for Measured {
    fn from(action: &Action) -> Measured {
        match action {
            Action::Lookup { .. } => Measured::Lookup,
            Action::List => Measured::List,
            Action::Open { .. } => Measured::Open,
            Action::Read { .. } => Measured::Read,
            Action::Write { .. } => Measured::Write,
            Action::Flush => Measured::Flush,
            Action::Close => Measured::Close,
            Action::Create => Measured::Create,
            Action::Stat => Measured::Stat,
            Action::Rename { .. } => Measured::Rename,
            Action::Delete => Measured::Delete,
        }
    }
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Path of the operation.
    pub path: Arc<str>,
    /// Kind of operation.
    pub of: Measured,
    /// Reason.
    pub reason: String,
}
