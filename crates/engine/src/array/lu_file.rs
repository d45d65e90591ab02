//! The file or block device behind an LU, created or opened.
//!
//! A file contains exactly the blocks of its LU and no mark that identifies it. An existing file is
//! therefore used if it is empty or has exactly the LU's size. A file of any other size may hold
//! data of another owner. It is used only if the operator permits it with `adopt`. A block device
//! always has contents, so it always requires `adopt`.
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use hakaru_runtime::file::FileHandle;
use hakaru_runtime::file::disk::sync_entry;

use super::path_hint::path_hint;
use super::storage::OpenFile;
use crate::failure::Failure;

/// Error number of an operation on a directory (errno(3)).
const EISDIR: i32 = 21;

/// The configured file of an LU.
pub struct LuFile<'a> {
    /// Path of a file, which is created if it does not exist, or of a block device.
    pub path: &'a Path,
    /// Capacity of the LU.
    pub size_bytes: u64,
    /// Logical block length of the LU.
    pub block_bytes: u32,
    /// Whether to bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Whether to use the file regardless of its contents, and to extend it if it is too short.
    pub adopt: bool,
}

impl LuFile<'_> {
    /// Opens the file. A file that was created here and cannot be used is removed again.
    ///
    /// # Errors
    /// The path cannot be opened, is in use, may belong to another owner, or lacks space for the
    /// LU.
    pub fn open(&self) -> Result<OpenFile, Failure> {
        let is_new = self.check_kind()?;
        let opened = self
            .open_handle()
            .and_then(|handle| self.keep_entry(handle, is_new));
        if is_new && opened.is_err() {
            let _ = fs::remove_file(self.path);
        }
        let handle = opened?;
        Ok(OpenFile {
            handle,
            direct: self.direct,
        })
    }

    /// Makes the folder entry of a new file durable.
    fn keep_entry(&self, handle: FileHandle, is_new: bool) -> Result<FileHandle, Failure> {
        if is_new {
            sync_entry(self.path).map_err(|e| self.failure(&e))?;
        }
        Ok(handle)
    }

    /// Refuses a path that is neither a file nor a block device. Does not open it, because opening
    /// some devices changes their state. Returns whether the path does not exist yet.
    fn check_kind(&self) -> Result<bool, Failure> {
        let kind = match fs::metadata(self.path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(self.failure(&error)),
        };
        if kind.is_dir() {
            return Err(self.failure(&io::Error::from_raw_os_error(EISDIR)));
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Failure::usage(
                format_args!(
                    "{} is neither a file nor a block device",
                    self.path.display()
                ),
                "name a file, which is created if it does not exist, or a block device",
            ));
        }
        if kind.is_block_device() && !self.adopt {
            return Err(self.refuse_foreign(format_args!(
                "{} is a block device, whose contents would become the LU's",
                self.path.display()
            )));
        }
        Ok(false)
    }

    fn open_handle(&self) -> Result<FileHandle, Failure> {
        let handle =
            FileHandle::open_exclusive(self.path, self.direct).map_err(|e| self.failure(&e))?;
        self.check_unit(&handle)?;
        let length_bytes = handle.size_bytes().map_err(|e| self.failure(&e))?;
        if ![0, self.size_bytes].contains(&length_bytes) && !self.adopt {
            return Err(self.refuse_foreign(format_args!(
                "{} already exists, with {length_bytes} bytes, but the LU has {} bytes",
                self.path.display(),
                self.size_bytes
            )));
        }
        handle
            .lengthen(self.size_bytes)
            .map_err(|e| self.failure(&e))?;
        Ok(handle)
    }

    fn check_unit(&self, handle: &FileHandle) -> Result<(), Failure> {
        if !self.direct {
            return Ok(());
        }
        let unit = handle.block_bytes().map_err(|e| self.failure(&e))?;
        if self.block_bytes.is_multiple_of(unit) {
            return Ok(());
        }
        Err(Failure::environment(
            format_args!(
                "{}: direct I/O requires blocks of {unit} bytes, but the LU has blocks of {} bytes",
                self.path.display(),
                self.block_bytes
            ),
            "set block_bytes to 4096, or direct to false, or choose another file system",
        ))
    }

    fn refuse_foreign(&self, message: impl std::fmt::Display) -> Failure {
        Failure::usage(
            message,
            "choose another path; or, if its contents may become the LU's, set `adopt: true`",
        )
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let hint = match error.kind() {
            ErrorKind::InvalidInput if self.direct => {
                "set direct to false, or choose another file system: this one lacks O_DIRECT"
            }
            _ => path_hint(error),
        };
        Failure::environment(
            format_args!(
                "cannot store an LU of {} bytes in {}: {error}",
                self.size_bytes,
                self.path.display()
            ),
            hint,
        )
    }
}
