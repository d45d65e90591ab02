//! A cartridge on a store, for blocking access: its creation, and reading its index.
use std::io;

use hakaru_pool::disk::Disk;
use hakaru_runtime::file::disk::FileDisk;
use hakaru_tape::{
    Damage, FRAME_BYTES, HEADER_BYTES, Header, Medium, ReadError, Recovered, index_of, recover,
};

/// The bytes of a cartridge. Written ones are on stable storage after the next flush.
pub trait Stored {
    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Errors of the underlying storage, as for all functions of this trait.
    fn length_bytes(&self) -> io::Result<u64>;

    /// Fills the buffer.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the end.
    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of the data, whose length is a multiple of 512 bytes.
    ///
    /// # Errors
    /// `StorageFull`. Part of the data may have been written.
    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()>;

    /// Flushes all earlier writes to stable storage.
    ///
    /// # Errors
    /// The state of the data written since the previous flush is then unknown.
    fn flush(&self) -> io::Result<()>;
}

impl Stored for FileDisk {
    fn length_bytes(&self) -> io::Result<u64> {
        Disk::len(self)
    }
    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        Disk::read_at(self, offset_bytes, buffer)
    }
    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()> {
        Disk::write_at(self, offset_bytes, data)
    }
    fn flush(&self) -> io::Result<()> {
        Disk::flush(self)
    }
}

/// Writes index and header of a new cartridge, whose blocks are written. The header comes last:
/// without it, the store has no cartridge.
///
/// # Errors
/// The store cannot be written.
pub fn complete(store: &dyn Stored, new: &Header, medium: &Medium) -> io::Result<()> {
    let (offset, index) = index_of(new, medium);
    store.write_at(offset, &index)?;
    store.flush()?;
    store.write_at(0, &new.emit())?;
    store.flush()
}

/// Reads header and index of a cartridge, and checks that the store has all of its data.
///
/// # Errors
/// The store cannot be read, or the cartridge is damaged.
pub fn read(store: &dyn Stored) -> Result<Recovered, ReadError> {
    // Bytes that were written just before a crash can be read, and the next one must not lose them.
    store.flush().map_err(ReadError::Io)?;
    let recovered = recover(&mut |offset, bytes| store.read_at(offset, bytes))?;
    let needed = recovered.header.data_bytes() + recovered.medium.used_bytes();
    if store.length_bytes().map_err(ReadError::Io)? < needed {
        return Err(ReadError::Damaged(Damage {
            fault: "its end is missing",
            offset_bytes: needed,
        }));
    }
    Ok(recovered)
}

/// Replaces the header of a cartridge.
///
/// # Errors
/// The store cannot be written.
pub fn set_header(store: &dyn Stored, recovered: &mut Recovered, header: Header) -> io::Result<()> {
    if header == recovered.header {
        return Ok(());
    }
    store.write_at(0, &header.emit())?;
    recovered.header = header;
    store.flush()
}

/// Whether the store has neither a header nor a record after the first: it is new, or the creation
/// of its cartridge was interrupted.
///
/// # Errors
/// The store cannot be read.
pub fn has_no_cartridge(store: &dyn Stored, new: &Header) -> io::Result<bool> {
    let length = store.length_bytes()?;
    let second = HEADER_BYTES + FRAME_BYTES as u64;
    for at in [0, second, HEADER_BYTES + new.area_bytes] {
        let mut bytes = [0; FRAME_BYTES];
        let part = length.saturating_sub(at).min(FRAME_BYTES as u64) as usize;
        store.read_at(at, &mut bytes[..part])?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
