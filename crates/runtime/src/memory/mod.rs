//! Sparse memory: the bytes of an LU in RAM.
//!
//! The memory is one private anonymous mapping as large as the LU. The kernel allocates a page at
//! its first write, so ranges never written use no memory and read as zeros. Reads pass slices of
//! the mapping to `sendmsg`.
//!
//! Large reads lend the pages themselves ([`SparseMemory::lend`]): the kernel, or a receiver on
//! this machine, reads them later. Lent pages are never changed. A write replaces them, and the old
//! pages return to the kernel when the last reader has finished.
mod lent;
pub mod page_pipe;

use std::io;

use memmap2::{Advice, MmapMut, MmapOptions, UncheckedAdvice};

use self::lent::{Lent, PIECE_BYTES};
use self::page_pipe::PagePipe;

/// Largest size at which the mapping requests 2 MiB pages, bytes.
///
/// Huge pages shorten page-table walks, and the zero page of unwritten ranges is mapped 512 pages
/// at a time. However, the first write of 4 KiB allocates and clears 2 MiB. That pays off for a
/// small LU, which may fill up anyway. A large LU is usually thin, and would occupy up to 512 times
/// the space under random writes.
const HUGE_PAGES_UP_TO_BYTES: u64 = 1 << 30;

/// Page size assumed for deallocation and loans, bytes.
const PAGE_BYTES: usize = 4096;

/// Maximum number of bytes to prefetch, enough for the processor to recognise the sequential read.
/// More does not help, because a core has only about ten memory requests in flight.
const PREFETCH_BYTES: usize = 256;

/// A cache line of x86-64.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_BYTES: usize = 64;

/// The bytes of an LU in RAM, initially zero.
pub struct SparseMemory {
    map: MmapMut,
    lent: Lent,
}

impl SparseMemory {
    /// Allocates `size_bytes` zeroed bytes, at least 1.
    ///
    /// # Errors
    /// `OutOfMemory` if the system does not overcommit (`vm.overcommit_memory=2`) and lacks the
    /// memory, or if the address space or its limit (`RLIMIT_AS`) is exhausted.
    pub fn new(size_bytes: u64) -> io::Result<SparseMemory> {
        let too_large = || {
            let message = format!("{size_bytes} bytes exceed the address space");
            io::Error::new(io::ErrorKind::OutOfMemory, message)
        };
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
        // This is only a hint, which a kernel built without huge pages refuses.
        let _ = map.advise(pages);
        Ok(SparseMemory {
            map,
            lent: Lent::default(),
        })
    }

    /// Returns the size, bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// Returns `length` bytes from `offset` on.
    ///
    /// # Panics
    /// If the range is not within the memory.
    #[must_use]
    pub fn bytes(&self, offset: u64, length: usize) -> &[u8] {
        let offset = offset as usize;
        &self.map[offset..offset + length]
    }

    /// Prefetches the start of a range (256 bytes) into the processor's caches while other work
    /// runs, so that `sendmsg` waits less for memory. Does nothing on processors other than x86-64.
    ///
    /// # Panics
    /// As [`SparseMemory::bytes`].
    pub fn prefetch(&self, offset: u64, length: usize) {
        let bytes = self.bytes(offset, length);
        let bytes = &bytes[..length.min(PREFETCH_BYTES)];
        #[cfg(target_arch = "x86_64")]
        for line in bytes.chunks(CACHE_LINE_BYTES) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: the address is within a live mapping, and the instruction has no effect that
            // the program can observe.
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
        self.make_changeable(offset, data.len() as u64);
        let offset = offset as usize;
        self.map[offset..offset + data.len()].copy_from_slice(data);
    }

    /// Makes the range read as zeros. The pages that lie entirely within it return to the kernel.
    ///
    /// # Panics
    /// As [`SparseMemory::bytes`].
    pub fn discard(&mut self, offset: u64, length: u64) {
        let (start, end) = (offset as usize, (offset + length) as usize);
        assert!(start <= end && end <= self.map.len());
        let first = start.next_multiple_of(PAGE_BYTES).min(end);
        let last = (end / PAGE_BYTES * PAGE_BYTES).max(first);
        self.zero(start, first);
        self.zero(last, end);
        // SAFETY: the memory is anonymous and private, so it reads as zeros after the call, as the
        // caller requested. It is borrowed for writing, so there is no reference into it.
        let is_freed = last == first
            || unsafe {
                self.map
                    .unchecked_advise_range(UncheckedAdvice::DontNeed, first, last - first)
            }
            .is_ok();
        if !is_freed {
            // The kernel refuses to free locked or larger pages, but they must read as zeros.
            self.zero(first, last);
        }
    }

    fn zero(&mut self, start: usize, end: usize) {
        self.make_changeable(start as u64, (end - start) as u64);
        self.map[start..end].fill(0);
    }

    /// Lends the pages of a range to `pipe` until the pipe is full. Returns the number of bytes
    /// lent. Readers see them unchanged until [`SparseMemory::take_back`] is called for the same
    /// bytes, even if the range is written meanwhile.
    ///
    /// # Errors
    /// `WouldBlock` if the pipe is full, `Unsupported` if pages are larger than 4 KiB, or the error
    /// of vmsplice(2), which a system-call filter may forbid.
    ///
    /// # Panics
    /// As [`SparseMemory::bytes`].
    pub fn lend(&mut self, offset: u64, length: usize, pipe: &mut PagePipe) -> io::Result<usize> {
        if rustix::param::page_size() != PAGE_BYTES {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // SAFETY: lent bytes are not changed in place before they are taken back; the next line
        // records the loan.
        let lent = unsafe { pipe.give(self.bytes(offset, length)) }?;
        self.lent.add(offset, lent as u64);
        Ok(lent)
    }

    /// Ends one loan of this range, after its reader has finished.
    pub fn take_back(&mut self, offset: u64, length: u64) {
        self.lent.remove(offset, length);
    }

    /// Ends a loan whose reader may still read at any time. The next write to the range replaces
    /// its pages.
    pub fn abandon(&mut self, offset: u64, length: u64) {
        self.lent.abandon(offset, length);
    }

    /// Replaces the lent pages of a range. The content of the range is undefined afterwards; the
    /// bytes beside it are kept.
    fn make_changeable(&mut self, offset: u64, length: u64) {
        if length == 0 || self.lent.is_empty() {
            return;
        }
        let size = self.size_bytes();
        for piece in Lent::pieces(offset, length) {
            let Some(state) = self.lent.get(piece) else {
                continue;
            };
            let piece_start = piece * PIECE_BYTES;
            let piece_end = (piece_start + PIECE_BYTES).min(size);
            let start = offset.max(piece_start) as usize;
            let end = (offset + length).min(piece_end) as usize;
            if state.loans == 0 {
                // Only abandoned loans are left. They end when their pages are replaced.
                self.lent.forget(piece);
                self.renew(piece_start as usize, (start, end), piece_end as usize);
            } else {
                let first = start / PAGE_BYTES * PAGE_BYTES;
                let last = end.next_multiple_of(PAGE_BYTES).min(piece_end as usize);
                self.renew(first, (start, end), last);
            }
        }
    }

    /// Replaces the pages from `first` to `last`. Keeps all bytes outside of `start..end`.
    fn renew(&mut self, first: usize, (start, end): (usize, usize), last: usize) {
        let (head, tail) = (
            self.map[first..start].to_vec(),
            self.map[end..last].to_vec(),
        );
        // SAFETY: the memory is anonymous and private, and borrowed for writing, so this process
        // has no other reference into it.
        let result = unsafe {
            self.map
                .unchecked_advise_range(UncheckedAdvice::DontNeed, first, last - first)
        };
        result.expect("lent memory is not locked");
        self.map[first..start].copy_from_slice(&head);
        self.map[end..last].copy_from_slice(&tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Listener, Socket};
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
    fn a_discarded_range_reads_as_zeros_and_its_neighbours_stay() {
        for size in [1 << 20, 4 << 30] {
            let mut memory = SparseMemory::new(size).unwrap();
            for (offset, length) in [(0, 512), (512, 4096), (4096, 65_536), (1000, 7), (9, 0)] {
                memory.write(0, &[7; 1 << 17]);
                memory.discard(offset, length);
                for (at, byte) in memory.bytes(0, 1 << 17).iter().enumerate() {
                    let is_discarded = (offset..offset + length).contains(&(at as u64));
                    assert_eq!(*byte, if is_discarded { 0 } else { 7 }, "at {at}");
                }
            }
        }
    }

    #[test]
    fn prefetching_changes_nothing_and_panics_outside_the_memory() {
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

    /// Returns both ends of a connection.
    fn pair() -> (Socket, Socket) {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = Socket::connect(listener.local_address().unwrap()).unwrap();
        loop {
            if let Some((server, _)) = listener.accept().unwrap() {
                return (server, client);
            }
        }
    }

    /// Moves all bytes of a pipe through a connection, in several steps if necessary.
    fn drain(pipe: &mut PagePipe, from: &Socket, to: &Socket, out: &mut Vec<u8>) {
        let mut buffer = vec![0; 1 << 16];
        let before = out.len();
        let mut sent = 0;
        while !pipe.is_empty() || out.len() < before + sent {
            match pipe.send(from, false) {
                Ok(n) => sent += n,
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
            match to.receive(&mut buffer) {
                Ok(n) => out.extend_from_slice(&buffer[..n]),
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    const LENT: u64 = 128 << 10;

    /// Lends and sends `LENT` sevens, calls `change` while they wait in the socket, and returns the
    /// bytes that arrived.
    fn sent_while(
        memory: &mut SparseMemory,
        offset: u64,
        change: impl FnOnce(&mut SparseMemory),
    ) -> Vec<u8> {
        memory.write(offset, &[7; LENT as usize]);
        let (from, to) = pair();
        let mut pipe = PagePipe::new().unwrap();
        let mut at = 0;
        let mut out = Vec::new();
        while at < LENT {
            at += memory
                .lend(offset + at, (LENT - at) as usize, &mut pipe)
                .unwrap() as u64;
            // Fills the socket. The receiver's socket buffer references the same pages.
            let _ = pipe.send(&from, false);
            if !pipe.is_empty() {
                drain(&mut pipe, &from, &to, &mut out);
            }
        }
        change(memory);
        let mut buffer = vec![0; 1 << 16];
        while out.len() < LENT as usize {
            match to.receive(&mut buffer) {
                Ok(n) => out.extend_from_slice(&buffer[..n]),
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
        }
        out
    }

    #[test]
    fn lent_bytes_arrive_unchanged_despite_later_writes() {
        type Change = fn(&mut SparseMemory, u64);
        let changes: [(&str, Change, u8); 5] = [
            ("whole", |m, at| m.write(at, &[9; LENT as usize]), 9),
            ("a block", |m, at| m.write(at + 5 * 512, &[9; 512]), 9),
            (
                "at its end",
                |m, at| m.write(at + LENT - 700, &[9; 1400]),
                9,
            ),
            ("discarded", |m, at| m.discard(at, LENT), 0),
            (
                "part of a page discarded",
                |m, at| m.discard(at + 512, 512),
                0,
            ),
        ];
        // Huge pages, small pages, and a range that is not aligned to them.
        for (size, offset) in [(8 << 20, 0), (4 << 30, 1 << 20), (8 << 20, 512)] {
            for (name, change, new) in changes {
                let mut memory = SparseMemory::new(size).unwrap();
                let mut expected = memory.bytes(0, 2 << 20).to_vec();
                expected[offset as usize..][..LENT as usize].fill(7);
                let arrived = sent_while(&mut memory, offset, |m| change(m, offset));
                assert!(
                    arrived == [7; LENT as usize],
                    "{name}, at {offset} of {size}"
                );
                let changed = memory.bytes(0, 2 << 20);
                for (at, (is, was)) in changed.iter().zip(&expected).enumerate() {
                    assert!(is == was || *is == new, "{name}: {is} at {at}");
                }
                assert!(changed.iter().zip(&expected).any(|(is, was)| is != was));
            }
        }
    }

    #[test]
    fn abandoned_memory_gets_new_pages_once() {
        let mut memory = SparseMemory::new(8 << 20).unwrap();
        let arrived = sent_while(&mut memory, 512, |m| {
            m.abandon(512, LENT);
            let pieces = m.lent.len();
            m.write(PIECE_BYTES + 1024, &[9; 512]);
            assert_eq!(m.lent.len(), pieces - 1);
            m.write(PIECE_BYTES + 8192, &[9; 512]);
            m.write(0, &[9; 512]);
            m.discard(2 * PIECE_BYTES, 512);
            assert!(m.lent.is_empty());
        });
        assert!(arrived == [7; LENT as usize]);
        let place = PIECE_BYTES as usize;
        for (at, byte) in memory.bytes(0, 3 * place).iter().enumerate() {
            let expected = match at {
                _ if at < 512 => 9,
                _ if (place + 1024..place + 1536).contains(&at) => 9,
                _ if (place + 8192..place + 8704).contains(&at) => 9,
                _ if at >= 2 * place => 0,
                _ => 7,
            };
            assert_eq!(*byte, expected, "at {at}");
        }
    }

    #[test]
    fn an_abandoned_piece_stays_lent_after_its_other_loans_have_ended() {
        let mut memory = SparseMemory::new(1 << 20).unwrap();
        for _ in 0..2 {
            memory.lent.add(0, 512);
        }
        memory.abandon(0, 512);
        memory.write(0, &[7; 512]);
        memory.take_back(0, 512);
        assert_eq!(memory.lent.len(), 1);
        memory.write(0, &[9; 512]);
        assert!(memory.lent.is_empty());
    }

    #[test]
    fn discarded_pages_return_to_the_kernel() {
        let mut memory = SparseMemory::new(4 << 30).unwrap();
        memory.write(0, &vec![7; 256 << 20]);
        let before = ResourceUse::now().rss_bytes;
        memory.discard(0, 4 << 30);
        let freed = before.saturating_sub(ResourceUse::now().rss_bytes);
        assert!(freed > 128 << 20, "{freed} bytes");
    }

    #[test]
    fn memory_beyond_the_address_space_is_refused() {
        assert!(SparseMemory::new(1 << 60).is_err());
    }
}
