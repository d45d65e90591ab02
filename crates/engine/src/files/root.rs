//! Destinations of trees, and the ways to them: a directory of this machine, or a folder of a share.
//!
//! [`Root`] is the destination, [`Transport`] carries out the operations of one tool, and
//! [`Visitor`] builds, checks and deletes the files of one thread. Errors of servers are
//! [`io::Error`]s of the matching kind.
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use hakaru_files::{Conduct, Operation, OperationId};
use hakaru_smb::ReadData;
use hakaru_units::Time;
use serde_json::Value;

use crate::failure::Failure;

/// Place of trees. Names are of files directly in it; paths have `/` between names.
pub trait Root: Send + Sync {
    /// Returns the place of a path in messages; that of the destination for an empty path.
    fn locate(&self, path: &str) -> String;

    /// Returns facts for `ready`, besides the place.
    fn facts(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }

    /// Returns the names in the destination, and whether each is that of a regular file.
    ///
    /// # Errors
    /// It may not be listed.
    fn list(&self) -> io::Result<Vec<(String, bool)>>;

    /// Returns the contents of a file, at most `bytes_max` of them; `None` without such a file.
    ///
    /// # Errors
    /// It is no regular file, or may not be read.
    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>>;

    /// Replaces a file atomically and durably. `new_name` is the name of the file while it is
    /// written, and is not used by anything else.
    ///
    /// # Errors
    /// It may not be written.
    fn replace(&self, name: &str, new_name: &str, contents: &[u8]) -> io::Result<()>;

    /// Locks the destination until its end, by a file of this name. Returns `false` if another
    /// process has locked it. Readers without the right to lock are not hindered.
    ///
    /// # Errors
    /// The name belongs to something else, or may not be created.
    fn lock(&self, name: &str, exclusive: bool) -> io::Result<bool>;

    /// Deletes a file, if it exists.
    ///
    /// # Errors
    /// It may not be deleted.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Deletes the destination itself, if nothing is left in it.
    fn delete_if_empty(&self);

    /// Returns the free space, bytes.
    ///
    /// # Errors
    /// The file system does not report it.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Writes all files to stable storage, as far as this side can.
    ///
    /// # Errors
    /// They cannot be written.
    fn sync(&self) -> io::Result<()>;

    /// Returns the way of one thread that builds, checks or deletes.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the session.
    fn visitor(self: Arc<Self>) -> Result<Box<dyn Visitor>, Failure>;

    /// Returns the way of one tool. `keep`: whether the data of reads is needed.
    ///
    /// # Errors
    /// As [`Root::visitor`].
    fn transport(self: Arc<Self>, keep: bool) -> Result<Box<dyn Transport>, Failure>;
}

/// Carries out the operations of one tool.
pub trait Transport: Send {
    /// Returns the way in which it does so. By default, the calling thread waits for each operation.
    fn conduct(&self) -> Conduct {
        Conduct::default()
    }

    /// Carries out an operation. `buffer` has the data of a write, or receives that of a read. A
    /// read or a write may do less than asked for.
    ///
    /// # Errors
    /// The operation failed. The tool continues with its next file, unless
    /// [`Transport::lost`] returns a reason.
    fn execute(&mut self, operation: &Operation, buffer: &mut Arc<Vec<u8>>) -> io::Result<u64>;

    /// Begins operations of one file, without waiting for their ends. Each has the data of a write,
    /// which begins at the begin of its buffer. Several operations with an open or a close among
    /// them belong together. Called if [`Conduct::ahead`] allows it.
    fn begin(&mut self, _operations: Vec<(Operation, Option<Arc<Vec<u8>>>)>) {
        unreachable!("the tool runs ahead of transports that allow it")
    }

    /// Waits until operations that were begun have ended, at least one, and appends them. Called
    /// while one is in flight.
    fn wait(&mut self, _ended: &mut Vec<Ended>) {
        unreachable!("the tool runs ahead of transports that allow it")
    }

    /// Returns why no further operation can succeed; `None` as long as one can.
    fn lost(&self) -> Option<Failure> {
        None
    }
}

/// An operation that was begun with [`Transport::begin`] and has ended.
pub struct Ended {
    pub id: OperationId,
    pub started: Time,
    pub ended: Time,
    pub outcome: io::Result<u64>,
    /// Data of a read, if it was to be kept.
    pub data: ReadData,
}

/// Visits folders and works on the files in them.
pub trait Visitor {
    /// Moves to a folder, given by the names from the destination down. With `create`, its last
    /// folder is created unless it exists.
    ///
    /// # Errors
    /// There is none, it may not be entered, or one of the names is not a folder.
    fn enter(&mut self, names: &[String], create: bool) -> io::Result<()>;

    /// Returns the number of entries of the folder.
    ///
    /// # Errors
    /// It may not be listed.
    fn entries(&mut self) -> io::Result<u64>;

    /// Returns the size of a regular file of the folder, bytes; `None` if the name is free.
    ///
    /// # Errors
    /// The name belongs to something else, or the folder may not be searched.
    fn file_bytes(&mut self, name: &str) -> io::Result<Option<u64>>;

    /// Writes a file of `size` bytes, which `fill` computes from an offset on. An existing file is
    /// replaced.
    ///
    /// # Errors
    /// It may not be written.
    fn write(&mut self, name: &str, size: u64, fill: &mut Fill<'_>) -> io::Result<()>;

    /// Reads a file: passes its size to `accept` and, unless that returns `false`, all of its bytes
    /// in order, with their offsets, to `check` until that returns `false`.
    ///
    /// # Errors
    /// It is no regular file, or cannot be read.
    fn read(
        &mut self,
        name: &str,
        accept: &mut dyn FnMut(u64) -> bool,
        check: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> io::Result<()>;

    /// Drops a file from the page cache of this machine.
    ///
    /// # Errors
    /// It cannot be opened or written to stable storage; or the file is not cached here.
    fn drop_from_cache(&mut self, name: &str) -> io::Result<()>;

    /// Deletes a file of the folder. Returns whether there was one.
    ///
    /// # Errors
    /// It may not be deleted.
    fn delete_file(&mut self, name: &str) -> io::Result<bool>;

    /// Deletes an empty folder, given as to [`Visitor::enter`]. Moves to the one above it.
    ///
    /// # Errors
    /// It may not be deleted, or is not empty. The visitor is then still in the folder above it.
    fn delete_folder(&mut self, names: &[String]) -> io::Result<()>;

    /// As [`Transport::lost`].
    fn lost(&self) -> Option<Failure> {
        None
    }
}

/// Computes part of a file from an offset on.
pub type Fill<'a> = dyn FnMut(u64, &mut [u8]) + 'a;

/// Bytes that a visitor reads or writes at once.
pub const CHUNK_BYTES: usize = 256 << 10;
