//! Sparse memory in safe code, for simulations and tests: only written chunks are allocated.
use std::collections::BTreeMap;

use crate::memory::LuMemory;

/// Allocation unit, bytes.
const CHUNK_BYTES: u64 = 64 << 10;

/// Bytes in RAM, all zero initially.
#[derive(Debug, Default)]
pub struct ChunkedMemory {
    size_bytes: u64,
    chunks: BTreeMap<u64, Box<[u8]>>,
}

impl ChunkedMemory {
    /// Creates `size_bytes` of zeros.
    #[must_use]
    pub fn new(size_bytes: u64) -> ChunkedMemory {
        ChunkedMemory {
            size_bytes,
            chunks: BTreeMap::new(),
        }
    }
}

impl LuMemory for ChunkedMemory {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn append_to(&self, offset_bytes: u64, length: usize, out: &mut Vec<u8>) {
        for part in parts(offset_bytes, length as u64) {
            match self.chunks.get(&part.chunk) {
                Some(bytes) => out.extend_from_slice(&bytes[part.start..part.end]),
                None => out.resize(out.len() + part.end - part.start, 0),
            }
        }
    }

    fn write(&mut self, offset_bytes: u64, mut data: &[u8]) {
        for part in parts(offset_bytes, data.len() as u64) {
            let chunk = self.chunks.entry(part.chunk);
            let bytes = chunk.or_insert_with(|| vec![0; CHUNK_BYTES as usize].into());
            let (head, rest) = data.split_at(part.end - part.start);
            bytes[part.start..part.end].copy_from_slice(head);
            data = rest;
        }
    }

    fn discard(&mut self, offset_bytes: u64, length_bytes: u64) {
        let end = offset_bytes + length_bytes;
        let keys = offset_bytes / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES);
        let written: Vec<u64> = self.chunks.range(keys).map(|(chunk, _)| *chunk).collect();
        for chunk in written {
            let Part { start, end, .. } = Part::new(chunk, offset_bytes, end);
            if end - start == CHUNK_BYTES as usize {
                self.chunks.remove(&chunk);
            } else if let Some(bytes) = self.chunks.get_mut(&chunk) {
                bytes[start..end].fill(0);
            }
        }
    }
}

/// The part of a range that lies in one chunk.
#[derive(Debug)]
struct Part {
    chunk: u64,
    start: usize,
    end: usize,
}

impl Part {
    fn new(chunk: u64, start_bytes: u64, end_bytes: u64) -> Part {
        let base = chunk * CHUNK_BYTES;
        Part {
            chunk,
            start: (start_bytes.max(base) - base) as usize,
            end: (end_bytes.min(base + CHUNK_BYTES) - base) as usize,
        }
    }
}

fn parts(offset_bytes: u64, length_bytes: u64) -> impl Iterator<Item = Part> {
    let end = offset_bytes + length_bytes;
    let chunks = offset_bytes / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES);
    chunks.map(move |chunk| Part::new(chunk, offset_bytes, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_over_chunk_borders_are_written_read_and_discarded() {
        let mut memory = ChunkedMemory::new(1 << 40);
        let read = |memory: &ChunkedMemory, offset, length| {
            let mut out = vec![9];
            memory.append_to(offset, length, &mut out);
            out
        };
        memory.write(CHUNK_BYTES - 2, &[1, 2, 3, 4]);
        assert_eq!(read(&memory, CHUNK_BYTES - 3, 6), [9, 0, 1, 2, 3, 4, 0]);
        memory.discard(CHUNK_BYTES - 1, 2);
        assert_eq!(read(&memory, CHUNK_BYTES - 2, 4), [9, 1, 0, 0, 4]);
        memory.discard(0, 1 << 40);
        assert!(memory.chunks.is_empty());
        assert_eq!(read(&memory, CHUNK_BYTES, 1), [9, 0]);
    }
}
