//! The disk under a pool's metadata and headers. The real one is a file (`hakaru_runtime`); those
//! here are for tests and checks.
//!
//! Calls return when they are done. Data paths do not go through this trait: their bytes are moved
//! by the caller's own queue.

mod faulty;
mod memory;
mod overlay;
mod recording;

pub use faulty::{Fault, Faults, FaultyDisk};
pub use memory::MemoryDisk;
pub use overlay::OverlayDisk;
pub use recording::{Crash, Recorder, RecordingDisk};

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// Bytes on something that keeps them.
///
/// Written data are read at once; they are on stable storage only after the next [`Disk::flush`]
/// that begins after the write returned. Until then a crash may keep any part of it, in units of
/// 512 bytes.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Length in bytes.
    ///
    /// # Errors
    /// Those of what is below; so for all functions here.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no byte.
    ///
    /// # Errors
    /// As [`Disk::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills the buffer.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the end.
    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of the data.
    ///
    /// # Errors
    /// `InvalidInput` beyond the end; `StorageFull`. Part of it may have been written.
    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()>;

    /// Puts all that was written, discarded or lengthened before on stable storage.
    ///
    /// # Errors
    /// After one, nothing is known of what was written since the flush before.
    fn flush(&self) -> io::Result<()>;

    /// Makes a range read as zeros, and gives its space back where that can be done.
    ///
    /// # Errors
    /// As [`Disk::write_at`].
    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()>;

    /// Makes it longer (with zeros, sparse where that can be done) or shorter.
    ///
    /// # Errors
    /// `StorageFull`.
    fn set_len(&self, length_bytes: u64) -> io::Result<()>;

    /// Makes sure that writes to a range, which may lie beyond the end, will not fail for want of
    /// space. Does not change the length. Where that cannot be had it does nothing.
    ///
    /// # Errors
    /// `StorageFull`.
    fn reserve(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        let _ = (offset_bytes, length_bytes);
        Ok(())
    }
}

impl<D: Disk + ?Sized> Disk for Arc<D> {
    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        (**self).read_at(offset_bytes, buffer)
    }
    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()> {
        (**self).write_at(offset_bytes, data)
    }
    fn flush(&self) -> io::Result<()> {
        (**self).flush()
    }
    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        (**self).discard(offset_bytes, length_bytes)
    }
    fn set_len(&self, length_bytes: u64) -> io::Result<()> {
        (**self).set_len(length_bytes)
    }
    fn reserve(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        (**self).reserve(offset_bytes, length_bytes)
    }
}

/// The end of a range that lies within `length_bytes`.
fn end_of(
    offset_bytes: u64,
    length: usize,
    length_bytes: u64,
    beyond: io::ErrorKind,
) -> io::Result<usize> {
    offset_bytes
        .checked_add(length as u64)
        .filter(|end| *end <= length_bytes)
        .map(|end| end as usize)
        .ok_or_else(|| io::Error::new(beyond, "beyond the end of the disk"))
}
