//! Reads and writes of files and block devices without blocking: io_uring, or a pool of threads where io_uring is forbidden
//! (Docker's default seccomp profile and `kernel.io_uring_disabled` do that).
//!
//! A buffer is handed over with its transfer and comes back with the result, so that the kernel never shares memory with
//! the caller. One [`Disk`] serves any number of [`Volume`]s; the reactor tells when results wait.
mod pool;
mod ring;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use memmap2::MmapMut;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, StatxFlags};

use self::pool::Pool;
use self::ring::Ring;
use crate::reactor::{Reactor, Token};

/// Direct I/O wants offsets, lengths and memory in multiples of a block; 4096 suits every device that is made.
const DIRECT_BLOCK_BYTES: u32 = 4096;

/// Memory for one transfer, aligned to a page as direct I/O wants it.
#[derive(Debug)]
pub struct Buffer(MmapMut);

impl Buffer {
    /// `length` zeroes, at least one.
    ///
    /// # Errors
    /// No memory.
    pub fn new(length: usize) -> io::Result<Buffer> {
        Ok(Buffer(MmapMut::map_anon(length.max(1))?))
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, to be filled.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// How a volume is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Writes will be made.
    pub write: bool,
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
}

/// An open file or block device.
#[derive(Clone, Debug)]
pub struct Volume {
    fd: Arc<OwnedFd>,
    /// Size in bytes.
    pub capacity_bytes: u64,
    /// Offsets and lengths must be multiples of this.
    pub block_bytes: u32,
}

impl Volume {
    /// Opens what is there; nothing is made.
    ///
    /// # Errors
    /// It is not there, may not be opened so, is neither a file nor a block device, or cannot do direct I/O.
    pub fn open(path: &Path, access: Access) -> io::Result<Volume> {
        let mut flags = OFlags::CLOEXEC | if access.write { OFlags::RDWR } else { OFlags::RDONLY };
        if access.direct {
            flags |= OFlags::DIRECT;
        }
        let fd = fs::open(path, flags, Mode::empty())?;
        let kind = FileType::from_raw_mode(fs::fstat(&fd)?.st_mode);
        let block_bytes = match kind {
            FileType::BlockDevice => fs::ioctl_blksszget(&fd)?,
            FileType::RegularFile if access.direct => direct_block(&fd),
            FileType::RegularFile => 512,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a block device")),
        };
        // Works for both: a block device has no length in its status.
        let capacity_bytes = fs::seek(&fd, fs::SeekFrom::End(0))?;
        Ok(Volume { fd: Arc::new(fd), capacity_bytes, block_bytes })
    }
}

/// What the file system says it wants (Linux 6.1 and later), else what always suits.
fn direct_block(fd: &OwnedFd) -> u32 {
    let status = fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let wanted = status.map_or(0, |s| s.stx_dio_offset_align.max(s.stx_dio_mem_align));
    if wanted == 0 { DIRECT_BLOCK_BYTES } else { wanted.max(512) }
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the volume into the buffer.
    Read,
    /// From the buffer to the volume.
    Write,
}

/// A transfer to make.
#[derive(Debug)]
pub struct Transfer {
    /// The caller's name for it, given back with the result.
    pub id: u64,
    /// From or to where.
    pub volume: Volume,
    /// Which way.
    pub direction: Direction,
    /// First byte on the volume.
    pub offset_bytes: u64,
    /// Bytes to move, from the buffer's begin; at most its length.
    pub length: usize,
    /// Memory.
    pub buffer: Buffer,
}

/// A transfer has ended.
#[derive(Debug)]
pub struct Finished {
    /// As given.
    pub id: u64,
    /// Bytes moved: fewer than asked only where the volume ends.
    pub result: io::Result<usize>,
    /// As given, filled by a read.
    pub buffer: Buffer,
}

enum Backend {
    Ring(Ring),
    Pool(Pool),
}

/// Makes transfers.
pub struct Disk(Backend);

impl Disk {
    /// For up to `depth` transfers in flight. `token` is told readable when results wait.
    ///
    /// # Errors
    /// Neither io_uring nor threads can be had.
    pub fn new(reactor: &Reactor, token: Token, depth: usize) -> io::Result<Disk> {
        match Ring::new(reactor, token, depth) {
            Ok(ring) => Ok(Disk(Backend::Ring(ring))),
            Err(_) => Disk::with_threads(reactor, token, depth),
        }
    }

    /// As [`Disk::new`], with threads even where io_uring is allowed.
    ///
    /// # Errors
    /// No threads can be had.
    pub fn with_threads(reactor: &Reactor, token: Token, depth: usize) -> io::Result<Disk> {
        Ok(Disk(Backend::Pool(Pool::new(reactor, token, depth)?)))
    }

    /// `io_uring` or `threads`.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        match self.0 {
            Backend::Ring(_) => "io_uring",
            Backend::Pool(_) => "threads",
        }
    }

    /// Queues a transfer.
    ///
    /// # Panics
    /// If the length is beyond the buffer, or more than `depth` transfers are in flight.
    pub fn start(&mut self, transfer: Transfer) {
        assert!(transfer.length <= transfer.buffer.bytes().len(), "a transfer lies within its buffer");
        match &mut self.0 {
            Backend::Ring(ring) => ring.start(transfer),
            Backend::Pool(pool) => pool.start(transfer),
        }
    }

    /// Hands everything that was queued to the kernel in one call.
    ///
    /// # Errors
    /// The kernel cannot take transfers any more.
    pub fn submit(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Backend::Ring(ring) => ring.submit(),
            Backend::Pool(_) => Ok(()),
        }
    }

    /// The next transfer that has ended.
    pub fn poll_finished(&mut self) -> Option<Finished> {
        match &mut self.0 {
            Backend::Ring(ring) => ring.poll_finished(),
            Backend::Pool(pool) => pool.poll_finished(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor::Events;
    use std::io::Write as _;

    const TOKEN: Token = Token(3);

    fn file_of(length: usize) -> (std::path::PathBuf, Vec<u8>) {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hakaru-disk-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let bytes: Vec<u8> = (0..length).map(|i| (i * 31 % 253) as u8).collect();
        std::fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
        (path, bytes)
    }

    fn finish(reactor: &Reactor, disk: &mut Disk) -> Finished {
        let mut events = Events::with_capacity(4);
        loop {
            disk.submit().unwrap();
            if let Some(finished) = disk.poll_finished() {
                return finished;
            }
            reactor.wait(&mut events, None).unwrap();
        }
    }

    fn with_each_backend(test: impl Fn(&Reactor, Disk)) {
        let reactor = Reactor::new().unwrap();
        if let Ok(ring) = Ring::new(&reactor, TOKEN, 8) {
            test(&reactor, Disk(Backend::Ring(ring)));
        } else {
            eprintln!("io_uring is not allowed here: its half of the test is skipped");
        }
        let reactor = Reactor::new().unwrap();
        test(&reactor, Disk::with_threads(&reactor, TOKEN, 8).unwrap());
    }

    #[test]
    fn what_is_written_is_read_and_the_rest_of_the_file_is_untouched() {
        with_each_backend(|reactor, mut disk| {
            let (path, mut expected) = file_of(16 * 4096);
            let volume = Volume::open(&path, Access { write: true, direct: false }).unwrap();
            assert_eq!((volume.capacity_bytes, volume.block_bytes), (16 * 4096, 512));
            let mut buffer = Buffer::new(8192).unwrap();
            buffer.bytes_mut().fill(7);
            expected[4096..12288].fill(7);
            let write = Transfer {
                id: 1,
                volume: volume.clone(),
                direction: Direction::Write,
                offset_bytes: 4096,
                length: 8192,
                buffer,
            };
            disk.start(write);
            let written = finish(reactor, &mut disk);
            assert_eq!((written.id, written.result.unwrap()), (1, 8192));
            for id in 0..8 {
                let (volume, buffer) = (volume.clone(), Buffer::new(8192).unwrap());
                let offset_bytes = id * 8192;
                disk.start(Transfer { id, volume, direction: Direction::Read, offset_bytes, length: 8192, buffer });
            }
            for _ in 0..8 {
                let read = finish(reactor, &mut disk);
                assert_eq!(read.result.unwrap(), 8192);
                let begin = read.id as usize * 8192;
                assert_eq!(read.buffer.bytes(), &expected[begin..begin + 8192]);
            }
            std::fs::remove_file(path).unwrap();
        });
    }

    #[test]
    fn reading_beyond_the_end_is_short_and_writing_what_is_read_only_fails() {
        with_each_backend(|reactor, mut disk| {
            let (path, _) = file_of(1000);
            let volume = Volume::open(&path, Access { write: false, direct: false }).unwrap();
            for (direction, moved) in [(Direction::Read, Some(488)), (Direction::Write, None)] {
                let (volume, buffer) = (volume.clone(), Buffer::new(4096).unwrap());
                disk.start(Transfer { id: 9, volume, direction, offset_bytes: 512, length: 4096, buffer });
                assert_eq!(finish(reactor, &mut disk).result.ok(), moved);
            }
            std::fs::remove_file(path).unwrap();
        });
    }

    #[test]
    fn disk_that_is_dropped_waits_for_what_is_in_flight() {
        with_each_backend(|_, mut disk| {
            let (path, _) = file_of(1 << 20);
            let volume = Volume::open(&path, Access { write: false, direct: false }).unwrap();
            for id in 0..8 {
                let (volume, buffer) = (volume.clone(), Buffer::new(1 << 17).unwrap());
                let (offset_bytes, length) = (id << 17, 1 << 17);
                disk.start(Transfer { id, volume, direction: Direction::Read, offset_bytes, length, buffer });
            }
            disk.submit().unwrap();
            drop(disk);
            std::fs::remove_file(path).unwrap();
        });
    }

    #[test]
    fn directories_and_what_is_not_there_are_refused() {
        let access = Access { write: false, direct: false };
        assert_eq!(Volume::open(Path::new("/proc"), access).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(Volume::open(Path::new("/no/such/file"), access).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
