//! Disks that fail: at a chosen operation, or when a capacity is exhausted.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Disk;

/// Kind of failure of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO without effect.
    Io,
    /// ENOSPC without effect. (A read fails with EIO.)
    NoSpace,
    /// Half of the data is written, then EIO.
    Short,
}

/// Schedule of failures. Shared by all disks created with it, which count their operations
/// together.
#[derive(Debug, Default)]
pub struct Faults {
    /// Number of operations up to now.
    done: AtomicU64,
    /// Number of the operation that fails, and its failure.
    plan: Mutex<Option<(u64, Fault)>>,
    /// Number of faults injected.
    struck: AtomicU64,
}

impl Faults {
    /// Creates a schedule without faults.
    #[must_use]
    pub fn none() -> Arc<Faults> {
        Arc::new(Faults::default())
    }

    /// Makes the `n`-th operation from now on (from 0) fail, once.
    pub fn plan(&self, n: u64, fault: Fault) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.done() + n, fault));
    }

    /// Returns the number of operations up to now: reads, writes, flushes, discards, changes of
    /// length.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns the number of faults up to now.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }

    fn next(&self) -> Option<Fault> {
        let number = self.done.fetch_add(1, Ordering::Relaxed);
        let plan = *self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = plan.and_then(|(planned, fault)| (planned == number).then_some(fault));
        self.struck
            .fetch_add(fault.is_some().into(), Ordering::Relaxed);
        fault
    }
}

/// A disk that delegates to another and fails as scheduled.
#[derive(Debug)]
pub struct FaultyDisk<D> {
    below: D,
    faults: Arc<Faults>,
    /// Limit of the length and of reservations, bytes.
    capacity_bytes: AtomicU64,
}

impl<D: Disk> FaultyDisk<D> {
    /// Creates a disk over `below`.
    #[must_use]
    pub fn new(below: D, faults: Arc<Faults>) -> FaultyDisk<D> {
        FaultyDisk {
            below,
            faults,
            capacity_bytes: AtomicU64::new(u64::MAX),
        }
    }

    /// Limits the length and reservations from now on, as if the file system below were full.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        self.capacity_bytes.store(capacity_bytes, Ordering::Relaxed);
    }

    fn fail(&self, writes: bool) -> io::Result<()> {
        match self.faults.next() {
            None => Ok(()),
            Some(Fault::NoSpace) if writes => Err(io::ErrorKind::StorageFull.into()),
            Some(_) => Err(io::Error::other("injected failure")),
        }
    }
}

impl<D: Disk> Disk for FaultyDisk<D> {
    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }

    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.fail(false)?;
        self.below.read_at(offset_bytes, buffer)
    }

    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()> {
        match self.faults.next() {
            None => self.below.write_at(offset_bytes, data),
            Some(Fault::NoSpace) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::Io) => Err(io::Error::other("injected failure")),
            Some(Fault::Short) => {
                self.below.write_at(offset_bytes, &data[..data.len() / 2])?;
                Err(io::Error::other("injected short write"))
            }
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.fail(true)?;
        self.below.flush()
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        self.fail(true)?;
        self.below.discard(offset_bytes, length_bytes)
    }

    fn set_len(&self, length_bytes: u64) -> io::Result<()> {
        self.fail(true)?;
        if length_bytes > self.capacity_bytes.load(Ordering::Relaxed)
            && length_bytes > self.below.len()?
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.below.set_len(length_bytes)
    }

    fn reserve(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        if offset_bytes + length_bytes > self.capacity_bytes.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.below.reserve(offset_bytes, length_bytes)
    }
}
