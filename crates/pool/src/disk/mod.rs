//! The disk for a pool's metadata and headers. The real disk is a file (`hakaru_runtime`); the
//! disks here are for tests and checks.
//!
//! Calls block. Data does not go through this trait: the caller's own queue transfers it.

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

/// Persistent bytes.
///
/// Written data is readable at once. It is on stable storage only after the next [`Disk::flush`]
/// that starts after the write returned. Until then a crash may keep any part of it, in units of
/// 512 bytes.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Errors of the underlying storage, as for all functions of this trait.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the length is 0.
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
    /// `InvalidInput` beyond the end; `StorageFull`. Part of the data may have been written.
    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()>;

    /// Flushes all earlier writes, discards and extensions to stable storage.
    ///
    /// # Errors
    /// After an error, the state of the data written since the previous flush is unknown.
    fn flush(&self) -> io::Result<()>;

    /// Makes a range read as zeros, and deallocates it if possible.
    ///
    /// # Errors
    /// As [`Disk::write_at`].
    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()>;

    /// Extends the disk (with zeros, sparse if possible) or truncates it.
    ///
    /// # Errors
    /// `StorageFull`.
    fn set_len(&self, length_bytes: u64) -> io::Result<()>;

    /// Reserves space for a range, which may lie beyond the end, so that writes to it cannot fail
    /// for lack of space. Does not change the length. Does nothing if the storage cannot reserve.
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

/// Returns the end of a range, which must lie within `length_bytes`.
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
