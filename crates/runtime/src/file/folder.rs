//! Folders by handle: files are found in a folder that is open, one name at a time, and symbolic
//! links are never followed.
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Advice, AtFlags, CWD, FileType, Mode, OFlags, Stat};

/// An open folder, of which names are looked up.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Name.
    pub name: std::ffi::OsString,
    /// Kind of file.
    pub kind: EntryKind,
    /// Size, bytes.
    pub bytes: u64,
    /// File system.
    pub device: u64,
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// Regular file.
    File,
    /// Folder.
    Folder,
    /// Symbolic link.
    Link,
    /// Device, socket or pipe.
    Other,
}

const FILE_MODE: Mode = Mode::from_raw_mode(0o666);

impl Folder {
    /// Opens a folder by its path, following symbolic links.
    ///
    /// # Errors
    /// There is no such folder, or it may not be entered.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// Looks up a folder in this one. The result serves for further lookups.
    ///
    /// # Errors
    /// There is none, it may not be entered, or the name is a symbolic link.
    pub fn lookup(&self, name: &str) -> io::Result<Folder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Folder(rustix::fs::openat(
            &self.0,
            name,
            flags,
            Mode::empty(),
        )?))
    }

    /// Opens a folder below this one to list it.
    ///
    /// # Errors
    /// As [`Folder::lookup`], or it may not be read.
    pub fn open_folder(&self, name: &std::ffi::OsStr) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Folder(rustix::fs::openat(
            &self.0,
            name,
            flags,
            Mode::empty(),
        )?))
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// There is none, or it may not be read.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        // Without NONBLOCK, opening a pipe waits for its writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Creates a file for writing, or cuts an existing one to length 0.
    ///
    /// # Errors
    /// It may not be written.
    pub fn write_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        self.open_to_write(name, flags)
    }

    /// Creates a file, which must not exist, for writing.
    ///
    /// # Errors
    /// It exists or may not be created.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        self.open_to_write(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// Opens a file for writing, and creates it if it is missing. Its contents stay.
    ///
    /// # Errors
    /// It may not be written.
    pub fn open_or_create(&self, name: &str) -> io::Result<File> {
        self.open_to_write(name, OFlags::WRONLY | OFlags::CREATE)
    }

    fn open_to_write(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(rustix::fs::openat(&self.0, name, flags, FILE_MODE)?.into())
    }

    /// Creates a folder, unless it exists.
    ///
    /// # Errors
    /// It may not be created. An existing file of this name is reported by the next lookup.
    pub fn create_folder(&self, name: &str) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
            Err(rustix::io::Errno::EXIST) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Returns the size of a regular file, bytes, and `None` if the name is free.
    ///
    /// # Errors
    /// The name belongs to something else than a regular file, or the folder may not be searched.
    pub fn file_bytes(&self, name: &str) -> io::Result<Option<u64>> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(stat) if kind_of(&stat) == EntryKind::File => Ok(Some(stat.st_size as u64)),
            Ok(_) => Err(io::Error::other("it is not a regular file")),
        }
    }

    /// Renames a file within this folder.
    ///
    /// # Errors
    /// As `rename(2)`.
    pub fn rename_file(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Deletes a file. Returns whether there was one.
    ///
    /// # Errors
    /// It may not be deleted, or is a folder.
    pub fn delete_file(&self, name: &str) -> io::Result<bool> {
        self.delete(name, AtFlags::empty())
    }

    /// Deletes an empty folder. Returns whether there was one.
    ///
    /// # Errors
    /// It may not be deleted, is not empty, or is a file.
    pub fn delete_folder(&self, name: &str) -> io::Result<bool> {
        self.delete(name, AtFlags::REMOVEDIR)
    }

    fn delete(&self, name: &str, flags: AtFlags) -> io::Result<bool> {
        match rustix::fs::unlinkat(&self.0, name, flags) {
            Err(rustix::io::Errno::NOENT) => Ok(false),
            other => other.map(|()| true).map_err(Into::into),
        }
    }

    /// Calls `each` for every entry of a folder that was opened to list it.
    ///
    /// # Errors
    /// The folder cannot be read. Entries that disappear meanwhile are left out.
    pub fn list(&self, each: &mut dyn FnMut(FolderEntry)) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt as _;
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(rustix::io::Errno::NOENT) => continue,
                other => other?,
            };
            each(FolderEntry {
                name: std::ffi::OsStr::from_bytes(name.to_bytes()).to_owned(),
                kind: kind_of(&stat),
                bytes: u64::try_from(stat.st_size).unwrap_or(0),
                device: stat.st_dev,
            });
        }
        Ok(())
    }

    /// Returns the number of the file system.
    ///
    /// # Errors
    /// As `fstat(2)`.
    pub fn device(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.0)?.st_dev)
    }

    /// Returns the space that this user may still take on the file system, bytes.
    ///
    /// # Errors
    /// As `fstatvfs(3)`.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.0)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Writes the whole file system of the folder to stable storage.
    ///
    /// # Errors
    /// As `syncfs(2)`.
    pub fn sync_file_system(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

/// Returns whether a lookup failed because the name belongs to something else than a folder.
#[must_use]
pub fn is_no_folder(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    is(Errno::NOTDIR) || is(Errno::LOOP)
}

/// Drops a file's pages from the page cache, after writing them to stable storage.
///
/// # Errors
/// The data cannot be written. The kernel may still keep pages that others use.
pub fn drop_from_cache(file: &File) -> io::Result<()> {
    rustix::fs::fdatasync(file)?;
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Closes a file and returns the error that `close(2)` reports, which a drop ignores. Network file
/// systems report failed writes there.
///
/// # Errors
/// As `close(2)`. The file is closed nevertheless.
pub fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor is owned and not used again.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes the lock of an open file for this process, exclusively or shared with others. The kernel
/// releases it when the process ends. Returns `false` if another process holds it.
///
/// # Errors
/// The file system has no locks.
pub fn lock(file: &File, exclusive: bool) -> io::Result<bool> {
    let attempt = if exclusive {
        file.try_lock()
    } else {
        file.try_lock_shared()
    };
    match attempt {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn kind_of(stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn symbolic_links_are_listed_and_never_followed() {
        let path = std::env::temp_dir().join(format!("hakaru-{}-folder", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink(".", path.join("loop")).unwrap();
        std::os::unix::fs::symlink("file", path.join("link")).unwrap();
        let folder = Folder::open(&path).unwrap();
        folder
            .create_file("file")
            .unwrap()
            .write_all(b"12345")
            .unwrap();
        folder.create_folder("below").unwrap();
        folder.create_folder("below").unwrap();
        for name in ["loop", "link", "file"] {
            assert!(is_no_folder(&folder.lookup(name).unwrap_err()), "{name}");
        }
        assert!(!is_no_folder(&folder.lookup("missing").unwrap_err()));
        assert!(folder.open_file("link").is_err());
        assert!(folder.write_file("link").is_err());
        assert!(folder.open_or_create("link").is_err());
        folder.open_or_create("file").unwrap();
        assert!(folder.create_file("file").is_err());
        assert_eq!(folder.file_bytes("file").unwrap(), Some(5));
        assert_eq!(folder.file_bytes("other").unwrap(), None);
        assert!(folder.file_bytes("link").is_err());
        let mut entries = Vec::new();
        folder
            .list(&mut |entry| entries.push((entry.name, entry.kind)))
            .unwrap();
        entries.sort();
        let expected = [
            ("below", EntryKind::Folder),
            ("file", EntryKind::File),
            ("link", EntryKind::Link),
            ("loop", EntryKind::Link),
        ];
        assert_eq!(entries, expected.map(|(name, kind)| (name.into(), kind)));
        let below = folder.lookup("below").unwrap();
        below.create_file("deep").unwrap();
        assert!(folder.delete_folder("below").is_err());
        assert!(below.delete_file("deep").unwrap());
        assert!(!below.delete_file("deep").unwrap());
        assert!(folder.delete_folder("below").unwrap());
        std::fs::remove_dir_all(path).unwrap();
    }
}
