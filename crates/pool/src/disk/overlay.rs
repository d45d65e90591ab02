//! A read-only disk that keeps writes in memory. A check opens the metadata through it, so that the
//! pool remains unchanged even if the store has to recover from a crash.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Disk, end_of};

const CHUNK_BYTES: u64 = 4096;

/// A view of another disk that keeps writes in memory until it is dropped.
#[derive(Debug)]
pub struct OverlayDisk<D> {
    below: D,
    changed: Mutex<Changed>,
}

#[derive(Debug)]
struct Changed {
    length_bytes: u64,
    /// Length of the part of the disk below that is still visible.
    below_bytes: u64,
    chunks: BTreeMap<u64, Vec<u8>>,
}

impl<D: Disk> OverlayDisk<D> {
    /// Creates a view of `below`.
    ///
    /// # Errors
    /// If its length cannot be read.
    pub fn new(below: D) -> io::Result<OverlayDisk<D>> {
        let length_bytes = below.len()?;
        Ok(OverlayDisk {
            below,
            changed: Mutex::new(Changed {
                length_bytes,
                below_bytes: length_bytes,
                chunks: BTreeMap::new(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current contents of a chunk.
    fn chunk(&self, changed: &Changed, number: u64) -> io::Result<Vec<u8>> {
        if let Some(chunk) = changed.chunks.get(&number) {
            return Ok(chunk.clone());
        }
        let mut chunk = vec![0; CHUNK_BYTES as usize];
        let begin = number * CHUNK_BYTES;
        let length = changed.below_bytes.saturating_sub(begin).min(CHUNK_BYTES) as usize;
        self.below
            .read_at(begin.min(changed.below_bytes), &mut chunk[..length])?;
        Ok(chunk)
    }
}

impl<D: Disk> Disk for OverlayDisk<D> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().length_bytes)
    }

    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        let changed = self.lock();
        end_of(
            offset_bytes,
            buffer.len(),
            changed.length_bytes,
            io::ErrorKind::UnexpectedEof,
        )?;
        let mut done = 0;
        while done < buffer.len() {
            let at = offset_bytes + done as u64;
            let within = (at % CHUNK_BYTES) as usize;
            let part = (CHUNK_BYTES as usize - within).min(buffer.len() - done);
            let chunk = self.chunk(&changed, at / CHUNK_BYTES)?;
            buffer[done..done + part].copy_from_slice(&chunk[within..within + part]);
            done += part;
        }
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()> {
        let mut changed = self.lock();
        end_of(
            offset_bytes,
            data.len(),
            changed.length_bytes,
            io::ErrorKind::InvalidInput,
        )?;
        let mut done = 0;
        while done < data.len() {
            let at = offset_bytes + done as u64;
            let within = (at % CHUNK_BYTES) as usize;
            let part = (CHUNK_BYTES as usize - within).min(data.len() - done);
            let mut chunk = self.chunk(&changed, at / CHUNK_BYTES)?;
            chunk[within..within + part].copy_from_slice(&data[done..done + part]);
            changed.chunks.insert(at / CHUNK_BYTES, chunk);
            done += part;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        self.write_at(offset_bytes, &vec![0; length_bytes as usize])
    }

    fn set_len(&self, length_bytes: u64) -> io::Result<()> {
        let shorter = self
            .lock()
            .length_bytes
            .checked_sub(length_bytes)
            .filter(|cut| *cut > 0);
        if let Some(cut) = shorter {
            self.discard(length_bytes, cut)?;
        }
        let mut changed = self.lock();
        changed.length_bytes = length_bytes;
        changed.below_bytes = changed.below_bytes.min(length_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::MemoryDisk;

    #[test]
    fn written_data_is_read_and_the_disk_below_is_unchanged() {
        let below = Arc::new(MemoryDisk::new(10_000));
        below.write_at(0, &[1; 10_000]).unwrap();
        let overlay = OverlayDisk::new(below.clone()).unwrap();
        overlay.write_at(4000, &[2; 200]).unwrap();
        overlay.set_len(5000).unwrap();
        overlay.set_len(12_000).unwrap();
        let mut bytes = vec![9; 12_000];
        overlay.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[3999..4001], [1, 2]);
        assert_eq!(bytes[4199..4201], [2, 1]);
        assert_eq!(bytes[4999..5001], [1, 0]);
        assert_eq!(bytes[11_999], 0);
        let mut same = vec![0; 10_000];
        below.read_at(0, &mut same).unwrap();
        assert_eq!(same, vec![1; 10_000]);
    }
}
