//! A read-only disk that keeps writes in memory. A check opens the metadata through it, so that the
//! pool remains unchanged even if the store has to recover from a crash.

use std::collections::BTreeMap;
use std::io;
use std::iter;
use std::ops::Range;
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

/// A part of an access that lies in one chunk.
struct Part {
    /// Number of the chunk.
    chunk: u64,
    /// Bytes of the chunk.
    within: Range<usize>,
    /// The same bytes in the buffer of the access.
    range: Range<usize>,
}

/// Returns the parts of an access to `length` bytes.
fn parts(offset_bytes: u64, length: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset_bytes + done as u64;
        let begin = (at % CHUNK_BYTES) as usize;
        let end = (begin + length - done).min(CHUNK_BYTES as usize);
        let range = done..done + end - begin;
        done = range.end;
        Some(Part {
            chunk: at / CHUNK_BYTES,
            within: begin..end,
            range,
        })
    })
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
        for part in parts(offset_bytes, buffer.len()) {
            let chunk = self.chunk(&changed, part.chunk)?;
            buffer[part.range].copy_from_slice(&chunk[part.within]);
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
        for part in parts(offset_bytes, data.len()) {
            let mut chunk = self.chunk(&changed, part.chunk)?;
            chunk[part.within].copy_from_slice(&data[part.range]);
            changed.chunks.insert(part.chunk, chunk);
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
