//! A pool's metadata and headers on a file, and the lock on a pool's folder.
//!
//! [`FileDisk`] is synchronous: the thread that commits uses it, and so does the opening of a pool.
//! The data of volumes goes through [`crate::file::FileQueue`].
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hakaru_pool::disk::Disk;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, fdatasync, flock};
use rustix::io::Errno;

/// Length of one write of zeros on file systems without hole punching, bytes.
const ZEROS_BYTES: u64 = 1 << 20;

/// A regular file.
#[derive(Debug)]
pub struct FileDisk(File);

impl FileDisk {
    /// Opens a file for reading, and also for writing if `writable`.
    ///
    /// # Errors
    /// The file does not exist or may not be opened.
    pub fn open(path: &Path, writable: bool) -> io::Result<FileDisk> {
        let file = OpenOptions::new().read(true).write(writable).open(path)?;
        Ok(FileDisk(file))
    }

    /// Opens a file for reading and writing, created empty if absent. Returns after its folder
    /// entry is on stable storage.
    ///
    /// # Errors
    /// The file cannot be created or opened.
    pub fn create(path: &Path) -> io::Result<FileDisk> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        sync_entry(path)?;
        Ok(FileDisk(file))
    }

    /// Writes zeros over the allocated parts of a range.
    fn write_zeros(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        let zeros = vec![0; ZEROS_BYTES.min(length_bytes) as usize];
        let (mut at, end) = (offset_bytes, offset_bytes + length_bytes);
        while at < end {
            at = match rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Data(at)) {
                Ok(data) => data,
                Err(Errno::NXIO) => return Ok(()),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
                Err(error) => return Err(error.into()),
            };
            let part = end.saturating_sub(at).min(zeros.len() as u64);
            self.0.write_all_at(&zeros[..part as usize], at)?;
            at += part;
        }
        Ok(())
    }
}

/// Makes the folder entry of a new file durable: the file survives a crash only after its folder was
/// synced.
///
/// # Errors
/// The folder cannot be opened or synced.
pub fn sync_entry(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

impl Disk for FileDisk {
    fn len(&self) -> io::Result<u64> {
        (&self.0).seek(SeekFrom::End(0))
    }

    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset_bytes)
    }

    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()> {
        if offset_bytes + data.len() as u64 > self.len()? {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.0.write_all_at(data, offset_bytes)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(fdatasync(&self.0)?)
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.0, hole, offset_bytes, length_bytes) {
            Err(Errno::OPNOTSUPP) => self.write_zeros(offset_bytes, length_bytes),
            other => Ok(other?),
        }
    }

    fn set_len(&self, length_bytes: u64) -> io::Result<()> {
        self.0.set_len(length_bytes)
    }

    fn reserve(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        match fallocate(
            &self.0,
            FallocateFlags::KEEP_SIZE,
            offset_bytes,
            length_bytes,
        ) {
            // This file system cannot reserve space.
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }
}

/// Failure to lock a pool's folder.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("{} is in use by {}", path.display(), pid.map_or("an unknown process".into(), |pid| format!("process {pid}")))]
    InUse {
        /// The folder.
        path: PathBuf,
        /// PID of the other process, if known.
        pid: Option<u32>,
    },
    /// The lock file cannot be created or locked.
    #[error("{}: {error}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// Exclusive lock on a pool's folder, held until it is dropped or the process ends for any reason.
#[derive(Debug)]
pub struct PoolLock {
    _file: File,
}

impl PoolLock {
    /// Locks the folder by its file `lock`, which holds the owner's pid.
    ///
    /// # Errors
    /// Another process holds the lock, or the lock file cannot be created or locked.
    pub fn acquire(folder: &Path) -> Result<PoolLock, LockError> {
        let path = folder.join("lock");
        let failed = |error| LockError::Io {
            path: path.clone(),
            error,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                file.read_to_string(&mut text).map_err(failed)?;
                return Err(LockError::InUse {
                    path: folder.to_owned(),
                    pid: text.trim().parse().ok(),
                });
            }
            other => other.map_err(|error| failed(error.into()))?,
        }
        let pid = format!("{}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.write_all(pid.as_bytes()))
            .map_err(failed)?;
        Ok(PoolLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in the system's temporary folder, removed when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("hakaru-disk-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_range_that_is_discarded_reads_as_zeros_and_takes_no_space() {
        let folder = Folder::new("discard");
        let disk = FileDisk::create(&folder.0.join("data")).unwrap();
        disk.set_len(4 << 20).unwrap();
        disk.write_at(0, &vec![7; 4 << 20]).unwrap();
        disk.flush().unwrap();
        disk.discard(1 << 20, 2 << 20).unwrap();
        let mut bytes = vec![9; 4 << 20];
        disk.read_at(0, &mut bytes).unwrap();
        assert!((0..4 << 20).all(|at| bytes[at]
            == if (1 << 20..3 << 20).contains(&at) {
                0
            } else {
                7
            }));
        let beyond = disk.write_at((4 << 20) - 1, &[1, 2]).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(disk.len().unwrap(), 4 << 20);
    }

    #[test]
    fn zeros_are_written_where_holes_cannot_be_made() {
        let folder = Folder::new("zeros");
        let disk = FileDisk::create(&folder.0.join("data")).unwrap();
        disk.set_len(8 << 20).unwrap();
        disk.write_at(3 << 20, &[7; 4096]).unwrap();
        disk.write_zeros(1 << 20, 2 << 20).unwrap();
        let mut bytes = [0; 4096];
        disk.read_at(3 << 20, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 4096], "bytes after the range are unchanged");
        disk.write_zeros(3 << 20, 1 << 20).unwrap();
        disk.read_at(3 << 20, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4096]);
    }

    #[test]
    fn a_folder_that_is_in_use_is_refused_with_the_owners_pid() {
        let folder = Folder::new("lock");
        let lock = PoolLock::acquire(&folder.0).unwrap();
        match PoolLock::acquire(&folder.0) {
            Err(LockError::InUse { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(lock);
        PoolLock::acquire(&folder.0).unwrap();
    }
}
