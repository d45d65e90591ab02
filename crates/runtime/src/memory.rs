//! Sparse memory: the bytes of an LU that lives in RAM.
//!
//! One private anonymous mapping as large as the LU. The kernel gives a page when it is first written, so what was never
//! written takes none and reads as zero. Reads lend slices of it to `sendmsg`; nothing is copied on the way.
use std::io;

use memmap2::{Advice, MmapMut, MmapOptions, UncheckedAdvice};

/// Up to this size the mapping asks for 2 MiB pages; beyond it for none.
///
/// With huge pages a page-table walk is shorter and the zero page of never-written places is mapped 512 blocks at a
/// time, but the first write of 4 KiB takes (and clears) 2 MiB. A small LU is worth it, it can be full at any
/// rate; a large one is large *because* it is thin, and would swell up to 512 times under random writes.
const HUGE_PAGES_UP_TO_BYTES: u64 = 1 << 30;

/// What the kernel gives and takes back at least: a page of every architecture we run on divides it or is it.
const PAGE_BYTES: usize = 4096;

/// Most that is fetched ahead. A processor sees by itself that a longer range is read in order; and 32 requests of as much fit its second-level cache.
const PREFETCH_BYTES: usize = 4096;

/// A cache line of x86-64.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_BYTES: usize = 64;

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

    /// How many they are.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.0.len() as u64
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

    /// Has the processor fetch the first 4 KiB of a range into its caches while other work goes on, so that `sendmsg` waits less for memory. Costs an
    /// instruction per cache line; does nothing but on x86-64.
    ///
    /// # Panics
    /// As [`SparseMemory::bytes`].
    pub fn prefetch(&self, offset: u64, length: usize) {
        let bytes = self.bytes(offset, length.min(PREFETCH_BYTES));
        #[cfg(target_arch = "x86_64")]
        for line in bytes.chunks(CACHE_LINE_BYTES) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: the address is within a live mapping, and the instruction reads nothing that the program sees.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = bytes;
    }

    /// Writes `data` at `offset`.
    ///
    /// # Panics
    /// As [`SparseMemory::bytes`].
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let offset = offset as usize;
        self.0[offset..offset + data.len()].copy_from_slice(data);
    }

    /// Makes the range read as zeros; the whole pages in it go back to the kernel.
    ///
    /// # Panics
    /// As [`SparseMemory::bytes`].
    pub fn discard(&mut self, offset: u64, length: u64) {
        let (start, end) = (offset as usize, (offset + length) as usize);
        assert!(start <= end && end <= self.0.len());
        let first = start.next_multiple_of(PAGE_BYTES).min(end);
        let last = (end / PAGE_BYTES * PAGE_BYTES).max(first);
        self.0[start..first].fill(0);
        self.0[last..end].fill(0);
        // SAFETY: the memory is anonymous and private, and borrowed for writing: after the call it reads as zeros, which is
        // what the caller asked for, and nobody holds a reference into it.
        let given = last == first
            || unsafe {
                self.0
                    .unchecked_advise_range(UncheckedAdvice::DontNeed, first, last - first)
            }
            .is_ok();
        if !given {
            // Pages larger than ours, or locked ones: they must read as zeros all the same.
            self.0[first..last].fill(0);
        }
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
    fn what_is_discarded_reads_as_zeros_and_its_neighbours_stay() {
        for size in [1 << 20, 4 << 30] {
            let mut memory = SparseMemory::new(size).unwrap();
            for (offset, length) in [(0, 512), (512, 4096), (4096, 65_536), (1000, 7), (9, 0)] {
                memory.write(0, &[7; 1 << 17]);
                memory.discard(offset, length);
                for (at, byte) in memory.bytes(0, 1 << 17).iter().enumerate() {
                    let gone = (offset..offset + length).contains(&(at as u64));
                    assert_eq!(*byte, if gone { 0 } else { 7 }, "at {at}");
                }
            }
        }
    }

    #[test]
    fn fetching_ahead_changes_nothing_and_takes_ranges_of_the_memory_alone() {
        let mut memory = SparseMemory::new(1 << 20).unwrap();
        memory.write((1 << 20) - 512, &[7; 512]);
        for (offset, length) in [((1 << 20) - 512, 512), (0, 1 << 20), (5, 0)] {
            memory.prefetch(offset, length);
        }
        assert_eq!(memory.bytes((1 << 20) - 512, 512), [7; 512]);
        assert_eq!(memory.bytes(0, 512), [0; 512]);
        let beyond = std::panic::AssertUnwindSafe(|| memory.prefetch((1 << 20) - 512, 1024));
        assert!(std::panic::catch_unwind(beyond).is_err());
    }

    #[test]
    fn what_is_discarded_goes_back_to_the_kernel() {
        let mut memory = SparseMemory::new(4 << 30).unwrap();
        memory.write(0, &vec![7; 256 << 20]);
        let before = ResourceUse::now().rss_bytes;
        memory.discard(0, 4 << 30);
        let given = before.saturating_sub(ResourceUse::now().rss_bytes);
        assert!(given > 128 << 20, "{given} bytes");
    }

    #[test]
    fn memory_beyond_the_address_space_is_refused() {
        assert!(SparseMemory::new(1 << 60).is_err());
    }
}
