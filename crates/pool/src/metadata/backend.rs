//! redb's view of a [`Disk`].

use std::io;
use std::sync::Arc;

use redb::StorageBackend;

use crate::disk::Disk;

#[derive(Debug)]
pub(super) struct Backend(pub(super) Arc<dyn Disk>);

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.flush()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write_at(offset, data)
    }
}
