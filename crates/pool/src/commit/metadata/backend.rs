//! Adapter from a [`Disk`] to redb's storage backend, with a space reserve.
//!
//! The reserve is [`RESERVE_BYTES`] beyond the space that redb uses. If the file system below is
//! full, redb grows into the reserve, which suffices for the commits that deallocate pages. The
//! pool is notified and allocates no page until the reserve is complete again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::StorageBackend;

use crate::disk::Disk;

/// Space reserve for deallocation when no other space is left, 4 MiB. A commit copies every 4 KiB
/// page of redb on the path to a change, so this is enough for several hundred changed leaves.
const RESERVE_BYTES: u64 = 4 << 20;

/// A disk for redb, and its reserve.
#[derive(Debug)]
pub(super) struct Reserved {
    disk: Arc<dyn Disk>,
    /// End of the bytes reserved since the disk was opened.
    until: AtomicU64,
    low: AtomicBool,
}

impl Reserved {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Arc<Reserved> {
        Arc::new(Reserved {
            disk,
            until: AtomicU64::new(0),
            low: AtomicBool::new(false),
        })
    }

    /// Returns whether the reserve is incomplete.
    pub(super) fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Reserves the missing part of `length_bytes` and of the reserve behind it.
    pub(super) fn refill(&self, length_bytes: u64) -> io::Result<()> {
        let until = self.until.load(Ordering::Relaxed);
        let wanted = length_bytes + RESERVE_BYTES;
        if until >= wanted && !self.is_low() {
            return Ok(());
        }
        let reserved = self.disk.reserve(0, wanted);
        match &reserved {
            Ok(()) => {
                self.until.store(wanted, Ordering::Relaxed);
                self.low.store(false, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.low.store(true, Ordering::Relaxed)
            }
            Err(_) => {}
        }
        reserved
    }

    /// Tries to complete the reserve, if necessary.
    pub(super) fn refill_if_low(&self) {
        if self.is_low()
            && let Ok(length_bytes) = self.disk.len()
        {
            // Still full: the reserve stays low, and the next commit tries again.
            let _ = self.refill(length_bytes);
        }
    }
}

#[derive(Debug)]
pub(super) struct Backend(pub(super) Arc<Reserved>);

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.disk.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        let full = |error: &io::Error| error.kind() == io::ErrorKind::StorageFull;
        if len < self.0.disk.len()? {
            self.0.disk.set_len(len)?;
            // A reservation beyond the end is lost when the file is shortened.
            self.0.until.store(len, Ordering::Relaxed);
            return self
                .0
                .refill(len)
                .or_else(|error| if full(&error) { Ok(()) } else { Err(error) });
        }
        match self.0.refill(len) {
            // Grow into the reserve.
            Err(error) if full(&error) && len <= self.0.until.load(Ordering::Relaxed) => {}
            other => other?,
        }
        self.0.disk.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.disk.flush()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.disk.write_at(offset, data)
    }
}
