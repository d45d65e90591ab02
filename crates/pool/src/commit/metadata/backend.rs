//! redb's view of a [`Disk`], with some space kept back.
//!
//! Space is reserved for [`RESERVE_BYTES`] more than redb uses. When the file system below is full,
//! redb grows into that: enough for the commits that give pages back. The pool learns of it and
//! gives out no page until the reserve is whole again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::StorageBackend;

use crate::disk::Disk;

/// Space kept for giving back when there is no other. A commit copies each 4 KiB page of redb on
/// the way to what it changes, so this is some hundred leaves changed at once.
const RESERVE_BYTES: u64 = 4 << 20;

/// A disk that redb grows in, and what is reserved on it.
#[derive(Debug)]
pub(super) struct Reserved {
    disk: Arc<dyn Disk>,
    /// End of the bytes that space was reserved for since it was opened.
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

    /// The reserve is not whole.
    pub(super) fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Reserves what is missing for a length and the reserve behind it.
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

    /// Tries to make the reserve whole, if it is not.
    pub(super) fn refill_if_low(&self) {
        if self.is_low()
            && let Ok(length_bytes) = self.disk.len()
        {
            // Still full: it stays low, and the next commit tries again.
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
            // What was reserved beyond the end went with the end.
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
