//! The file or block device behind an LU: made, or taken if it is the LU's.
//!
//! Nothing marks a file as an LU's, because its bytes are the LU's and no others. An existing file
//! is taken if it is empty or has exactly the LU's size. Any other one may be somebody's notes: it
//! is taken only if the operator says so (`adopt`). A block device has contents of its own, so it
//! always needs the word.
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use hakaru_runtime::file::FileHandle;

use super::path_hint::path_hint;
use super::storage::OpenFile;
use crate::failure::Failure;

/// Error number of what is a directory (errno(3)).
const EISDIR: i32 = 21;

/// An LU's file as configured.
pub struct LuFile<'a> {
    /// A file, made if absent, or a block device.
    pub path: &'a Path,
    /// Capacity of the LU.
    pub size_bytes: u64,
    /// Logical block length of the LU.
    pub block_bytes: u32,
    /// Open it past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Take it whatever it holds, and make it longer if it is too short.
    pub adopt: bool,
}

impl LuFile<'_> {
    /// Opens the file. A file that was made and cannot be an LU's is removed again.
    ///
    /// # Errors
    /// The path cannot be opened, is in use, is not the LU's, or has no room for it.
    pub fn open(&self) -> Result<OpenFile, Failure> {
        let is_new = self.check_kind()?;
        let opened = self.open_handle();
        if is_new && opened.is_err() {
            let _ = fs::remove_file(self.path);
        }
        let handle = opened?;
        Ok(OpenFile {
            handle,
            direct: self.direct,
        })
    }

    /// Refuses what is neither a file nor a block device, without opening it: to open some devices
    /// is to change them. Returns whether there is nothing yet.
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
                "name a file, which is made if absent, or a block device",
            ));
        }
        if kind.is_block_device() && !self.adopt {
            return Err(self.not_ours(format_args!(
                "{} is a block device, whose contents would be the LU's",
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
            return Err(self.not_ours(format_args!(
                "{} is there already, with {length_bytes} bytes, and the LU has {}",
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
                "{}: direct I/O needs blocks of {unit} bytes there, and the LU has blocks of {}",
                self.path.display(),
                self.block_bytes
            ),
            "set block_bytes to 4096, or direct to false, or choose another file system",
        ))
    }

    fn not_ours(&self, message: impl std::fmt::Display) -> Failure {
        Failure::usage(
            message,
            "choose another path; or, if its contents may be the LU's, set `adopt: true`",
        )
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let hint = match error.kind() {
            ErrorKind::InvalidInput if self.direct => {
                "set direct to false, or choose another file system: this one has no O_DIRECT"
            }
            _ => path_hint(error),
        };
        Failure::environment(
            format_args!(
                "cannot keep an LU of {} bytes in {}: {error}",
                self.size_bytes,
                self.path.display()
            ),
            hint,
        )
    }
}
