//! An open file or block device.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, OFlags, StatxFlags, fcntl_getfl, flock, fstat,
    ioctl_blksszget, statx,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

/// How long to wait for a lock, and how often to try.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// An open file or block device. Clones share the descriptor, which the last clone closes.
#[derive(Clone, Debug)]
pub struct FileHandle(Arc<File>);

/// An extent of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u64,
    /// Whether the extent is allocated. A hole reads as zeros.
    pub mapped: bool,
}

impl FileHandle {
    /// Opens an existing file or device for reading, and also for writing if `writable`. `direct`
    /// bypasses the page cache.
    ///
    /// # Errors
    /// The file does not exist or may not be opened, or its file system lacks `O_DIRECT`.
    pub fn open(path: &Path, writable: bool, direct: bool) -> io::Result<FileHandle> {
        let flags = if direct {
            OFlags::DIRECT
        } else {
            OFlags::empty()
        };
        let file = OpenOptions::new()
            .read(true)
            .write(writable)
            .custom_flags(flags.bits() as i32)
            .open(path)?;
        Ok(FileHandle(Arc::new(file)))
    }

    /// Opens a file for reading and writing, created if absent, with an exclusive lock, and makes
    /// it at least `size_bytes` long. Added bytes are a hole. `direct` bypasses the page cache.
    ///
    /// # Errors
    /// The file cannot be created or opened, is in use (`ResourceBusy`), or cannot be that long.
    /// The block device is shorter. The file system lacks `O_DIRECT` (`InvalidInput`).
    pub fn create(path: &Path, size_bytes: u64, direct: bool) -> io::Result<FileHandle> {
        let handle = FileHandle::open_exclusive(path, direct)?;
        handle.lengthen(size_bytes)?;
        Ok(handle)
    }

    /// Opens a file (created if absent) or a block device for reading and writing, with an
    /// exclusive lock. `direct` bypasses the page cache.
    ///
    /// Waits up to 2 s for the lock, because the kernel ends the I/O of a killed process after the
    /// process, and its locks with it.
    ///
    /// # Errors
    /// The file cannot be created or opened. Another process has locked it, or the device is
    /// mounted (`ResourceBusy`). The file system lacks `O_DIRECT` (`InvalidInput`).
    pub fn open_exclusive(path: &Path, direct: bool) -> io::Result<FileHandle> {
        let is_device =
            fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
        let mut flags = OFlags::empty();
        flags.set(OFlags::DIRECT, direct);
        // With `O_EXCL` the kernel refuses to open a block device that is mounted (open(2)).
        flags.set(OFlags::EXCL, is_device);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(!is_device)
            .truncate(false)
            .custom_flags(flags.bits() as i32)
            .open(path)?;
        lock(&file)?;
        Ok(FileHandle(Arc::new(file)))
    }

    /// Makes the file at least `size_bytes` long. The added bytes are a hole.
    ///
    /// # Errors
    /// The file cannot be that long, or the block device is shorter.
    pub fn lengthen(&self, size_bytes: u64) -> io::Result<()> {
        if self.size_bytes()? < size_bytes {
            self.0.set_len(size_bytes)?;
        }
        Ok(())
    }

    /// Returns the length of the file or block device, bytes.
    ///
    /// # Errors
    /// The file has no length, as a pipe.
    pub fn size_bytes(&self) -> io::Result<u64> {
        (&*self.0).seek(SeekFrom::End(0))
    }

    /// Returns the required alignment of offsets and lengths, bytes: the logical block of a device,
    /// the file system's value for a file opened `direct`, else 512.
    ///
    /// # Errors
    /// The handle is neither a file nor a block device.
    pub fn block_bytes(&self) -> io::Result<u32> {
        let direct = fcntl_getfl(&self.0)?.contains(OFlags::DIRECT);
        match FileType::from_raw_mode(fstat(&self.0)?.st_mode) {
            FileType::BlockDevice => Ok(ioctl_blksszget(&self.0)?),
            FileType::RegularFile if direct => Ok(self.direct_block_bytes()),
            FileType::RegularFile => Ok(512),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "neither a file nor a block device",
            )),
        }
    }

    /// Returns the file system's alignment for direct I/O, bytes. Returns 4096, which suits every
    /// current device, if the kernel does not report it (before Linux 6.1).
    fn direct_block_bytes(&self) -> u32 {
        let status = statx(&self.0, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        match status.map_or(0, |s| s.stx_dio_offset_align.max(s.stx_dio_mem_align)) {
            0 => 4096,
            alignment => alignment.max(512),
        }
    }

    /// Reads `buffer.len()` bytes if that does not block. Returns `false` if it would block, or if
    /// the read was short or failed.
    pub fn read_at_once(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let wanted = buffer.len();
        let slices = &mut [io::IoSliceMut::new(buffer)];
        matches!(preadv2(&self.0, slices, offset, ReadWriteFlags::NOWAIT), Ok(n) if n == wanted)
    }

    /// Writes all of `data` if that does not block. Returns `false` if it would block, or if the
    /// write was short or failed; the caller then writes `data` again through a queue.
    pub fn write_at_once(&self, offset: u64, data: &[u8]) -> bool {
        let slices = &[io::IoSlice::new(data)];
        matches!(pwritev2(&self.0, slices, offset, ReadWriteFlags::NOWAIT), Ok(n) if n == data.len())
    }

    /// Returns the number of bytes that the file occupies on its medium. `None` if it is not a
    /// regular file.
    #[must_use]
    pub fn allocated_bytes(&self) -> Option<u64> {
        let status = fstat(&self.0).ok()?;
        let regular = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        // `st_blocks` counts units of 512 bytes on every file system.
        regular.then_some(status.st_blocks as u64 * 512)
    }

    /// Returns the data and holes of a range, from its start: at most `extents_max` adjacent
    /// extents, alternately data and hole. A block device, or a file on a file system that does not
    /// report holes, is one allocated extent. Blocks while the file is being changed: a hole of
    /// 256 MiB takes some 40 ms.
    ///
    /// # Errors
    /// The file system reports an error.
    pub fn extents(
        &self,
        offset_bytes: u64,
        length_bytes: u64,
        extents_max: usize,
    ) -> io::Result<Vec<Extent>> {
        let end = offset_bytes + length_bytes;
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset_bytes;
        while at < end && extents.len() < extents_max {
            let (mapped, until) = self.extent_at(at)?;
            let until = until.min(end);
            extents.push(Extent {
                offset_bytes: at,
                length_bytes: until - at,
                mapped,
            });
            at = until;
        }
        Ok(extents)
    }

    /// Returns whether `at` is allocated, and the offset where its extent ends.
    fn extent_at(&self, at: u64) -> io::Result<(bool, u64)> {
        match rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) if data > at => Ok((false, data)),
            // A hole begins at the end of the file at the latest.
            Ok(_) => match rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Hole(at)) {
                Ok(hole) => Ok((true, hole)),
                Err(e) => Err(e.into()),
            },
            Err(Errno::NXIO) => Ok((false, u64::MAX)),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok((true, u64::MAX)),
            Err(e) => Err(e.into()),
        }
    }

    pub(super) fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for FileHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Locks a file exclusively, until its last descriptor is closed.
///
/// # Errors
/// Another process holds the lock longer than [`LOCK_PATIENCE`] (`ResourceBusy`).
fn lock(file: &File) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_PATIENCE => {
                thread::sleep(LOCK_INTERVAL);
            }
            Err(Errno::WOULDBLOCK) => return Err(io::ErrorKind::ResourceBusy.into()),
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of descriptors of this process that have the file open.
    fn descriptors(path: &Path) -> usize {
        let all = fs::read_dir("/proc/self/fd").unwrap();
        all.filter(|entry| {
            let link = entry.as_ref().unwrap().path();
            fs::read_link(link).is_ok_and(|target| target == path)
        })
        .count()
    }

    #[test]
    fn a_lock_that_its_owner_releases_shortly_is_waited_for() {
        let path = std::env::temp_dir().join(format!("hakaru-lock-{}", std::process::id()));
        let owner = FileHandle::open_exclusive(&path, false).unwrap();
        let next = thread::spawn({
            let path = path.clone();
            move || FileHandle::open_exclusive(&path, false).map(drop)
        });
        // It has the file open, so it found the lock taken, or will.
        while descriptors(&path) < 2 && !next.is_finished() {
            thread::yield_now();
        }
        drop(owner);
        next.join().unwrap().unwrap();
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_lock_that_stays_is_refused() {
        let path = std::env::temp_dir().join(format!("hakaru-locked-{}", std::process::id()));
        let _owner = FileHandle::open_exclusive(&path, false).unwrap();
        let refused = FileHandle::open_exclusive(&path, false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        fs::remove_file(path).unwrap();
    }
}
