//! Sparse memory: the bytes of an LU that lives in RAM.
//!
//! One private anonymous mapping as large as the LU. The kernel gives a page when it is first written, so what was never
//! written takes none and reads as zero. Reads lend slices of it to `sendmsg`; nothing is copied on the way.
use std::io;

use memmap2::{Advice, MmapMut, MmapOptions};

/// Up to this size the mapping asks for 2 MiB pages; beyond it for none.
///
/// With huge pages a page-table walk is shorter and the zero page of never-written places is mapped 512 blocks at a
/// time, but the first write of 4 KiB takes (and clears) 2 MiB. A small LU is worth it, it can be full at any
/// rate; a large one is large *because* it is thin, and would swell up to 512 times under random writes.
const HUGE_PAGES_UP_TO_BYTES: u64 = 1 << 30;

/// Bytes in RAM, all zero at first.
pub struct SparseMemory(MmapMut);

impl SparseMemory {
    /// `size_bytes` of zeroes, at least 1.
    ///
    /// # Errors
    /// `OutOfMemory` if the system promises no more than it has (`vm.overcommit_memory=2`, `RLIMIT_AS`) or the address
    /// space is exhausted.
    pub fn new(size_bytes: u64) -> io::Result<SparseMemory> {
        let too_large =
            || io::Error::new(io::ErrorKind::OutOfMemory, "larger than the address space");
        let length = usize::try_from(size_bytes).map_err(|_| too_large())?;
        let map = MmapOptions::new()
            .len(length)
            .no_reserve_swap()
            .map_anon()?;
        let pages = if size_bytes <= HUGE_PAGES_UP_TO_BYTES {
            Advice::HugePage
        } else {
            Advice::NoHugePage
        };
        // Advice only: a kernel built without huge pages refuses it and nothing is lost.
        let _ = map.advise(pages);
        Ok(SparseMemory(map))
    }

    /// The bytes from `offset` on.
    ///
    /// # Panics
    /// If the range is not within the memory: whoever asks has checked it.
    #[must_use]
    pub fn bytes(&self, offset: u64, length: usize) -> &[u8] {
        let offset = offset as usize;
        &self.0[offset..offset + length]
    }

    /// Writes `data` at `offset`.
    ///
    /// # Panics
    /// As [`SparseMemory::bytes`].
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let offset = offset as usize;
        self.0[offset..offset + data.len()].copy_from_slice(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ResourceUse;

    #[test]
    fn sixteen_tebibytes_take_only_what_is_written() {
        let before = ResourceUse::now().rss_bytes;
        let mut memory = SparseMemory::new(16 << 40).expect("this machine overcommits");
        let last = (16 << 40) - 512;
        memory.write(last, &[7; 512]);
        assert_eq!(memory.bytes(last, 512), [7; 512]);
        assert_eq!(memory.bytes(8 << 40, 512), [0; 512]);
        let grown = ResourceUse::now().rss_bytes.saturating_sub(before);
        assert!(grown < 64 << 20, "{grown} bytes");
    }

    #[test]
    fn memory_beyond_the_address_space_is_refused() {
        assert!(SparseMemory::new(1 << 60).is_err());
    }
}
