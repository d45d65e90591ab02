//! The volume of a cartridge in a pool, for blocking access.
use std::cell::RefCell;
use std::io::{self, ErrorKind};

use hakaru_iscsi_target::{Extent, IoFailure, IoOp, IoResult};
use hakaru_pool::VolumeId;
use hakaru_runtime::Reactor;
use hakaru_store::{Place, Store};

use super::blocking::perform;
use super::stored::Stored;
use crate::array::storage::{Lu, Storage};

/// Block length of the store, bytes.
pub const BLOCK_BYTES: u32 = 512;

/// A volume that is attached to the storage as an LU.
pub struct CartridgeVolume<'a> {
    storage: RefCell<&'a mut Storage>,
    reactor: &'a Reactor,
    lun: u8,
    size_bytes: u64,
    page_bytes: u64,
}

impl<'a> CartridgeVolume<'a> {
    /// Attaches a volume that exists at an unused LUN.
    ///
    /// # Panics
    /// If the LUN is in use.
    pub fn attach(
        pool: usize,
        volume: VolumeId,
        lun: u8,
        storage: &'a mut Storage,
        reactor: &'a Reactor,
    ) -> CartridgeVolume<'a> {
        let core = storage.core.pools()[pool].core();
        let size_bytes = core.volume(volume).map_or(0, |volume| volume.size_bytes);
        let page_bytes = u64::from(core.page_bytes());
        storage.core.attach(
            lun,
            Lu {
                store: Store::Thin { pool, volume },
                size_bytes,
                block_bytes: BLOCK_BYTES,
                place: Place::default(),
                identity: None,
                unmaps: 0,
            },
        );
        CartridgeVolume {
            storage: RefCell::new(storage),
            reactor,
            lun,
            size_bytes,
            page_bytes,
        }
    }

    /// Gives back the pages from an offset on. The page that has the offset inside it stays.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub fn give_back(&self, offset_bytes: u64) -> io::Result<()> {
        let offset_bytes = offset_bytes.next_multiple_of(self.page_bytes);
        let Some(length_bytes) = self.size_bytes.checked_sub(offset_bytes) else {
            return Ok(());
        };
        if length_bytes == 0 {
            return Ok(());
        }
        let range = Extent {
            offset_bytes,
            length_bytes,
        };
        let ranges = vec![range];
        self.access(IoOp::Unmap { ranges }).map(|_| ())
    }

    fn access(&self, op: IoOp) -> io::Result<IoResult> {
        let mut storage = self.storage.borrow_mut();
        let result = perform(self.lun, op, &mut storage, self.reactor).map_err(io::Error::other)?;
        let IoResult::Failed(failure) = result else {
            return Ok(result);
        };
        Err(match failure {
            IoFailure::Space => io::Error::new(ErrorKind::StorageFull, "the pool is full"),
            IoFailure::Protected => {
                io::Error::new(ErrorKind::ReadOnlyFilesystem, "the pool is read-only")
            }
            IoFailure::Read | IoFailure::Write | IoFailure::Internal => {
                io::Error::other("the pool cannot be read or written")
            }
        })
    }
}

impl Drop for CartridgeVolume<'_> {
    fn drop(&mut self) {
        self.storage.get_mut().core.detach(self.lun);
    }
}

impl Stored for CartridgeVolume<'_> {
    fn length_bytes(&self) -> io::Result<u64> {
        Ok(self.size_bytes)
    }

    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        if offset_bytes + buffer.len() as u64 > self.size_bytes {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let read = self.access(IoOp::Read {
            offset_bytes,
            length_bytes: buffer.len() as u32,
            in_place: false,
        })?;
        match read {
            IoResult::ReadData(bytes) => buffer.copy_from_slice(&bytes),
            _ => return Err(io::Error::other("the pool cannot be read")),
        }
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let write = IoOp::Write {
            offset_bytes,
            data: data.to_vec(),
            fua: false,
        };
        self.access(write).map(|_| ())
    }

    fn flush(&self) -> io::Result<()> {
        self.access(IoOp::Flush).map(|_| ())
    }
}
