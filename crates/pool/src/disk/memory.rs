//! A sparse disk in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, end_of};

/// Allocation unit, bytes.
const CHUNK_BYTES: usize = 4096;

/// A disk in memory, all zeros initially.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    content: Mutex<Content>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    length_bytes: u64,
    /// Shared with copies of the disk until either side writes.
    chunks: BTreeMap<u64, Arc<[u8; CHUNK_BYTES]>>,
}

impl MemoryDisk {
    /// Creates a disk of `length_bytes` zeros.
    #[must_use]
    pub fn new(length_bytes: u64) -> MemoryDisk {
        MemoryDisk {
            content: Mutex::new(Content {
                length_bytes,
                chunks: BTreeMap::new(),
            }),
        }
    }

    /// Returns the number of allocated bytes.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.lock().chunks.len() as u64 * CHUNK_BYTES as u64
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for MemoryDisk {
    fn clone(&self) -> Self {
        MemoryDisk {
            content: Mutex::new(self.lock().clone()),
        }
    }
}

/// Splits a range at chunk boundaries. Yields the number of the chunk, the first byte in it, the
/// offset in the range, and the length.
fn cut(offset_bytes: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        (done < length).then(|| {
            let at = offset_bytes + done as u64;
            let within = (at % CHUNK_BYTES as u64) as usize;
            let part = (CHUNK_BYTES - within).min(length - done);
            let before = done;
            done += part;
            (at / CHUNK_BYTES as u64, within, before, part)
        })
    })
}

impl Disk for MemoryDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().length_bytes)
    }

    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        let content = self.lock();
        end_of(
            offset_bytes,
            buffer.len(),
            content.length_bytes,
            io::ErrorKind::UnexpectedEof,
        )?;
        for (chunk, within, before, part) in cut(offset_bytes, buffer.len()) {
            let to = &mut buffer[before..before + part];
            match content.chunks.get(&chunk) {
                Some(bytes) => to.copy_from_slice(&bytes[within..within + part]),
                None => to.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.lock();
        end_of(
            offset_bytes,
            data.len(),
            content.length_bytes,
            io::ErrorKind::InvalidInput,
        )?;
        for (chunk, within, before, part) in cut(offset_bytes, data.len()) {
            let bytes = content
                .chunks
                .entry(chunk)
                .or_insert_with(|| Arc::new([0; CHUNK_BYTES]));
            Arc::make_mut(bytes)[within..within + part]
                .copy_from_slice(&data[before..before + part]);
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        let mut content = self.lock();
        let end = end_of(
            offset_bytes,
            length_bytes as usize,
            content.length_bytes,
            io::ErrorKind::InvalidInput,
        )? as u64;
        let size = CHUNK_BYTES as u64;
        let (first, behind) = (offset_bytes.div_ceil(size), end / size);
        if first < behind {
            let mut later = content.chunks.split_off(&first);
            content.chunks.append(&mut later.split_off(&behind));
        }
        for chunk in [offset_bytes / size, end / size] {
            if let Some(bytes) = content.chunks.get_mut(&chunk) {
                let from = offset_bytes.saturating_sub(chunk * size).min(size) as usize;
                let to = end.saturating_sub(chunk * size).min(size) as usize;
                if from < to {
                    Arc::make_mut(bytes)[from..to].fill(0);
                }
            }
        }
        Ok(())
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
        self.lock().length_bytes = length_bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_and_truncated_ranges_read_as_zeros() {
        let disk = MemoryDisk::new(20_000);
        disk.write_at(0, &[1; 20_000]).unwrap();
        disk.discard(100, 9000).unwrap();
        let mut bytes = vec![9; 20_000];
        disk.read_at(0, &mut bytes).unwrap();
        let zeros: Vec<usize> = (0..20_000).filter(|at| bytes[*at] == 0).collect();
        assert_eq!(zeros, (100..9100).collect::<Vec<_>>());
        disk.set_len(10_000).unwrap();
        disk.set_len(20_000).unwrap();
        disk.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[9999..10_002], [1, 0, 0]);
    }

    #[test]
    fn nothing_is_read_or_written_beyond_the_end() {
        let disk = MemoryDisk::new(10);
        assert_eq!(
            disk.read_at(5, &mut [0; 6]).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(
            disk.write_at(11, &[]).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
