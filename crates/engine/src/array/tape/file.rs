//! The file of a cartridge.
use std::io;
use std::path::Path;

use hakaru_pool::disk::Disk;
use hakaru_runtime::file::FileHandle;
use hakaru_runtime::file::disk::{FileDisk, sync_entry};
use hakaru_tape::{Header, Medium, ReadError, Recovered};

use super::declared::Declared;
use super::stored::{self, Stored, complete, has_no_cartridge};
use crate::array::path_hint::path_hint;
use crate::array::storage::OpenFile;
use crate::failure::Failure;

/// Advice for a cartridge that cannot be read.
const DAMAGE_HINT: &str =
    "nothing was changed; restore the file from a copy, or move it out of the folder";

/// A cartridge that was opened and locked.
pub struct CartridgeFile {
    /// The file, locked while it is open.
    pub file: OpenFile,
    /// The file, for blocking access.
    pub disk: FileDisk,
    /// Its contents.
    pub recovered: Recovered,
}

/// Opens the file of a cartridge, and locks it. Creates it as `new` describes if it does not exist,
/// or if its creation was interrupted. An existing cartridge gets the properties that are declared.
///
/// # Errors
/// The file cannot be created, opened or read, another process uses it, or it is damaged; the
/// cartridge is of another generation.
pub fn open_or_create(
    path: &Path,
    new: &Header,
    declared: Declared,
) -> Result<CartridgeFile, Failure> {
    let (file, disk) = lock(path)?;
    let fail = |error| failure(path, &error);
    if is_blank(&disk, new).map_err(fail)? {
        disk.set_len(new.data_bytes()).map_err(fail)?;
        complete(&disk, new, &Medium::default())
            .and_then(|()| sync_entry(path))
            .map_err(fail)?;
    }
    let mut recovered = read(path, &disk)?;
    let header = declared.applied(&recovered.header)?;
    stored::set_header(&disk, &mut recovered, header).map_err(fail)?;
    Ok(CartridgeFile {
        file,
        disk,
        recovered,
    })
}

/// Opens the file of a cartridge that exists, and locks it.
///
/// # Errors
/// As [`open_or_create`].
pub fn open(path: &Path) -> Result<CartridgeFile, Failure> {
    // Opening for the lock would create the file.
    if let Err(error) = path.metadata() {
        return Err(failure(path, &error));
    }
    let (file, disk) = lock(path)?;
    let recovered = read(path, &disk)?;
    Ok(CartridgeFile {
        file,
        disk,
        recovered,
    })
}

/// Opens a file and locks it.
///
/// # Errors
/// The file cannot be created or opened, or another process uses it.
pub fn lock(path: &Path) -> Result<(OpenFile, FileDisk), Failure> {
    let fail = |error| failure(path, &error);
    let handle = FileHandle::open_exclusive(path, false).map_err(fail)?;
    let disk = FileDisk::open(path, true).map_err(fail)?;
    let direct = false;
    Ok((OpenFile { handle, direct }, disk))
}

/// Returns the failure of an operation on a cartridge.
pub fn failure(path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::ResourceBusy => "stop the array that uses it, or choose another folder",
        _ => path_hint(error),
    };
    let message = format!("cannot use the cartridge {}: {error}", path.display());
    Failure::environment(message, hint)
}

/// Reads header and index of a cartridge, and checks that the file has all of its data.
fn read(path: &Path, disk: &FileDisk) -> Result<Recovered, Failure> {
    stored::read(disk).map_err(|e| match e {
        ReadError::Io(error) => failure(path, &error),
        ReadError::Damaged(damage) => {
            let message = format!("cannot use the cartridge {}: {damage}", path.display());
            Failure::environment(message, DAMAGE_HINT)
        }
    })
}

/// Whether the file is new, or its creation was interrupted: it has no header, no data, and no
/// record after the first.
fn is_blank(disk: &FileDisk, new: &Header) -> io::Result<bool> {
    Ok(disk.length_bytes()? <= new.data_bytes() && has_no_cartridge(disk, new)?)
}
