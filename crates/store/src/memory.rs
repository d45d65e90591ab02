//! An LU in RAM: its memory, and a map of the granules that were written.
//!
//! Every access completes at once, except UNMAP and WRITE SAME of more than a few blocks: a
//! [`Sweep`] carries them out in steps, because a command of 512 bytes may request 32 MiB, and an
//! initiator may send 127 of them at once. An LU configured as full has contents from the start
//! ([`Contents`]); a granule is filled with them when it is first read or partly written.
use hakaru_scsi_device::{Extent, IoFailure, IoOp, IoResult, Returned};

use crate::contents::Contents;
use crate::written::Written;

pub use crate::written::GRANULE_BYTES;

/// Maximum bytes written, cleared or deallocated before other accesses proceed. That is half a
/// millisecond of work if the memory is touched for the first time.
pub(crate) const STEP_BYTES: u64 = 1 << 20;

/// Longest UNMAP or WRITE SAME that is carried out within its call, bytes.
const AT_ONCE_BYTES: u64 = 64 << 10;

/// The memory of an LU, all zero initially. The caller checks that ranges are within it.
pub trait LuMemory {
    /// Returns the size in bytes.
    fn size_bytes(&self) -> u64;

    /// Appends a range to `out`.
    fn append_to(&self, offset_bytes: u64, length: usize, out: &mut Vec<u8>);

    /// Writes `data`.
    fn write(&mut self, offset_bytes: u64, data: &[u8]);

    /// Makes a range read as zeros, and frees its memory if possible.
    fn discard(&mut self, offset_bytes: u64, length_bytes: u64);

    /// Prefetches a range that will soon be read in place ([`IoResult::ReadInPlace`]).
    fn prefetch(&self, _offset_bytes: u64, _length: usize) {}

    /// Takes back a range that was lent to a reader.
    fn take_back(&mut self, _returned: Returned) {}
}

/// The store of an LU in RAM.
#[derive(Debug)]
pub struct MemoryStore<M> {
    memory: M,
    allocated: Written,
    full: Option<Full>,
}

/// Contents that the LU has before anything is written.
#[derive(Debug)]
struct Full {
    contents: Contents,
    /// Granules that were filled with their contents, or overwritten.
    settled: Written,
}

/// Outcome of an access.
#[derive(Debug)]
pub(crate) enum Accessed {
    /// Completed.
    Now(IoResult),
    /// Continues in steps.
    Sweep(Sweep),
}

/// An access that is carried out in steps.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// Remaining ranges, each at least a block.
    ranges: Vec<Extent>,
    /// Block to repeat; `None` deallocates instead.
    block: Option<Vec<u8>>,
}

impl<M: LuMemory> MemoryStore<M> {
    /// Creates the store of an LU that was never written.
    pub fn new(memory: M) -> MemoryStore<M> {
        let size_bytes = memory.size_bytes();
        MemoryStore {
            memory,
            allocated: Written::new(size_bytes),
            full: None,
        }
    }

    /// Like [`MemoryStore::new`], but full of `contents`. SCSI reports all of it as allocated;
    /// memory is allocated on access.
    pub fn full(memory: M, contents: Contents) -> MemoryStore<M> {
        let mut store = MemoryStore::new(memory);
        let size_bytes = store.memory.size_bytes();
        store.allocated.set(0, size_bytes);
        store.full = Some(Full {
            contents,
            settled: Written::new(size_bytes),
        });
        store
    }

    /// Returns the memory, for a socket to send from.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns the memory, for lending.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Returns the number of allocated bytes.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        self.allocated.bytes()
    }

    /// Starts an access, and completes it unless it needs a sweep. `take_buffer` returns an empty
    /// buffer of at least a capacity, for reads that are not in place.
    pub(crate) fn access(
        &mut self,
        op: IoOp,
        take_buffer: &mut dyn FnMut(usize) -> Vec<u8>,
    ) -> Accessed {
        if let IoOp::Read {
            offset_bytes,
            length_bytes,
            ..
        } = op
        {
            self.settle(offset_bytes, length_bytes.into(), false);
        }
        Accessed::Now(match op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                in_place: true,
            } => {
                self.memory.prefetch(offset_bytes, length_bytes as usize);
                IoResult::ReadInPlace
            }
            IoOp::Read {
                offset_bytes,
                length_bytes,
                in_place: false,
            } => {
                let mut buffer = take_buffer(length_bytes as usize);
                self.memory
                    .append_to(offset_bytes, length_bytes as usize, &mut buffer);
                IoResult::ReadData(buffer)
            }
            IoOp::Write {
                offset_bytes, data, ..
            } => {
                self.write(offset_bytes, &data);
                IoResult::Written(data)
            }
            IoOp::Flush | IoOp::FlushPart { .. } => IoResult::Flushed,
            IoOp::Unmap { ranges } => {
                return self.begin(Sweep {
                    ranges,
                    block: None,
                });
            }
            IoOp::WriteSame { range, block, .. } => {
                // Allocated zeros have no advantage in memory.
                let block = block.iter().any(|byte| *byte != 0).then_some(block);
                return self.begin(Sweep {
                    ranges: vec![range],
                    block,
                });
            }
            IoOp::Status { range, extents_max } => {
                IoResult::Provisioned(self.allocated.extents(range, extents_max))
            }
            // Data in RAM ends with the process, and so must its reservations.
            IoOp::Keep { .. } | IoOp::Tape { .. } => IoResult::Failed(IoFailure::Internal),
        })
    }

    /// Carries out a short sweep at once.
    fn begin(&mut self, mut sweep: Sweep) -> Accessed {
        let lengths = sweep.ranges.iter().map(|range| range.length_bytes);
        let mut budget = AT_ONCE_BYTES;
        if lengths.sum::<u64>() <= AT_ONCE_BYTES && self.step(&mut sweep, &mut budget) {
            Accessed::Now(IoResult::Done)
        } else {
            Accessed::Sweep(sweep)
        }
    }

    /// Carries out a step of a sweep, of at most `budget` bytes, and subtracts the bytes done.
    /// Returns whether it was the last step.
    pub(crate) fn step(&mut self, sweep: &mut Sweep, budget: &mut u64) -> bool {
        while let Some(range) = sweep.ranges.last_mut() {
            let done = match &sweep.block {
                Some(block) => self.fill(*range, block, budget),
                None => self.erase(*range, budget),
            };
            range.offset_bytes += done;
            range.length_bytes -= done;
            if range.length_bytes == 0 {
                sweep.ranges.pop();
            }
            if *budget == 0 {
                break;
            }
        }
        sweep.ranges.is_empty()
    }

    /// Fills the granules of a range with their initial contents, except those that are about to be
    /// overwritten completely.
    fn settle(&mut self, offset_bytes: u64, length_bytes: u64, overwritten: bool) {
        let Some(full) = &mut self.full else {
            return;
        };
        let end = offset_bytes + length_bytes;
        let last = end.div_ceil(GRANULE_BYTES);
        let mut granule = offset_bytes / GRANULE_BYTES;
        let mut drawn = [0; GRANULE_BYTES as usize];
        loop {
            granule = full.settled.find(granule, last, false);
            if granule >= last {
                break;
            }
            let at = granule * GRANULE_BYTES;
            let whole = offset_bytes <= at && at + GRANULE_BYTES <= end;
            if !(overwritten && whole) {
                full.contents.draw(granule, &mut drawn);
                // An LU of 512-byte blocks may end inside a granule.
                let length = self
                    .memory
                    .size_bytes()
                    .saturating_sub(at)
                    .min(GRANULE_BYTES);
                self.memory.write(at, &drawn[..length as usize]);
            }
            granule += 1;
        }
        full.settled.set(offset_bytes, length_bytes);
    }

    /// Writes `data`. Zeros are not stored in granules that are not allocated, because these read as
    /// zeros already. An image of zeros may therefore exceed the RAM.
    fn write(&mut self, offset_bytes: u64, data: &[u8]) {
        let length_bytes = data.len() as u64;
        self.settle(offset_bytes, length_bytes, true);
        if is_zero(data) {
            let range = Extent {
                offset_bytes,
                length_bytes,
            };
            for (extent, allocated) in self.allocated.extents(range, usize::MAX) {
                if allocated {
                    let zeros = &data[..extent.length_bytes as usize];
                    self.memory.write(extent.offset_bytes, zeros);
                }
            }
        } else {
            self.memory.write(offset_bytes, data);
        }
        self.allocated.set(offset_bytes, length_bytes);
    }

    /// Writes the block repeatedly from the start of the range. Returns the number of bytes done.
    fn fill(&mut self, range: Extent, block: &[u8], budget: &mut u64) -> u64 {
        let length = range.length_bytes.min(*budget);
        self.settle(range.offset_bytes, length, true);
        let mut done = 0;
        while done < length {
            self.memory.write(range.offset_bytes + done, block);
            done += block.len() as u64;
        }
        self.allocated.set(range.offset_bytes, done);
        *budget = budget.saturating_sub(done);
        done
    }

    /// Deallocates from the start of the range. Returns the number of bytes done. Unallocated
    /// granules cost almost nothing.
    fn erase(&mut self, range: Extent, budget: &mut u64) -> u64 {
        let end = range.offset_bytes + range.length_bytes;
        let (start, allocated_end) = self.allocated.next(range.offset_bytes, end, 2 * STEP_BYTES);
        let until = allocated_end.min(start + *budget);
        if until > start {
            self.settle(start, until - start, true);
            self.memory.discard(start, until - start);
            self.allocated.clear(start, until - start);
        }
        *budget -= until - start;
        until - range.offset_bytes
    }
}

/// Returns whether all bytes are zero. Combines 64 bytes at a time, which compilers vectorise.
fn is_zero(data: &[u8]) -> bool {
    data.chunks(64)
        .all(|bytes| bytes.iter().fold(0, |any, byte| any | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked::ChunkedMemory;

    const KIB: u64 = 1 << 10;

    fn store(size_bytes: u64) -> MemoryStore<ChunkedMemory> {
        MemoryStore::new(ChunkedMemory::new(size_bytes))
    }

    fn bytes(store: &MemoryStore<ChunkedMemory>, offset_bytes: u64, length: usize) -> Vec<u8> {
        let mut out = Vec::new();
        store.memory.append_to(offset_bytes, length, &mut out);
        out
    }

    fn extent(offset_bytes: u64, length_bytes: u64) -> Extent {
        Extent {
            offset_bytes,
            length_bytes,
        }
    }

    #[test]
    fn a_full_lu_reads_the_same_in_any_order_of_access() {
        let contents = Contents::new(3, 50);
        let size = (1 << 20) + 512;
        let full = || MemoryStore::full(ChunkedMemory::new(size), contents);
        let mut expected = vec![0; size.next_multiple_of(GRANULE_BYTES) as usize];
        for (granule, out) in expected
            .chunks_exact_mut(GRANULE_BYTES as usize)
            .enumerate()
        {
            contents.draw(granule as u64, out.try_into().unwrap());
        }
        expected.truncate(size as usize);
        let mut store = full();
        assert_eq!(store.mapped_bytes(), size.next_multiple_of(GRANULE_BYTES));
        // Parts of granules are written, deallocated and filled before their rest is read.
        store.write(5 * KIB, &[7; 512]);
        expected[5 << 10..][..512].fill(7);
        store.write(8 * KIB, &[8; 4096]);
        expected[8 << 10..][..4096].fill(8);
        store.write(40 * KIB, &[0; 4096]);
        expected[40 << 10..][..4096].fill(0);
        store.write(44 * KIB, &[0; 512]);
        expected[44 << 10..][..512].fill(0);
        sweep(&mut store, vec![extent(17 * KIB, 20 * KIB)], None);
        expected[17 << 10..37 << 10].fill(0);
        sweep(
            &mut store,
            vec![extent(70 * KIB, 5 * KIB)],
            Some(vec![9; 512]),
        );
        expected[70 << 10..75 << 10].fill(9);
        store.settle(size - 512, 512, false);
        assert_eq!(
            bytes(&store, size - 512, 512),
            &expected[size as usize - 512..]
        );
        store.settle(0, size, false);
        assert!(bytes(&store, 0, size as usize) == expected);
        // A write after a deallocation does not bring back the initial contents.
        store.write(20 * KIB, &[6; 512]);
        assert_eq!(bytes(&store, 20 * KIB + 512, 512), [0; 512]);
    }

    fn sweep(
        store: &mut MemoryStore<ChunkedMemory>,
        ranges: Vec<Extent>,
        block: Option<Vec<u8>>,
    ) -> u32 {
        let mut sweep = Sweep { ranges, block };
        let mut steps = 1;
        while !store.step(&mut sweep, &mut { STEP_BYTES }) {
            steps += 1;
        }
        steps
    }

    #[test]
    fn written_granules_are_reported_as_allocated_until_they_are_deallocated() {
        let mut store = store(1 << 20);
        let whole = extent(0, 1 << 20);
        assert_eq!(store.allocated.extents(whole, 9), [(whole, false)]);
        store.write(8 * KIB, &[7; 512]);
        store.write(16 * KIB, &[7; 8192]);
        let extents = store.allocated.extents(whole, 9);
        let expected = [
            (extent(0, 8 * KIB), false),
            (extent(8 * KIB, 4 * KIB), true),
            (extent(12 * KIB, 4 * KIB), false),
            (extent(16 * KIB, 8 * KIB), true),
            (extent(24 * KIB, 1000 * KIB), false),
        ];
        assert_eq!(extents, expected);
        assert_eq!(store.allocated.extents(whole, 2), expected[..2]);
        assert_eq!(store.mapped_bytes(), 12 * KIB);
        // A deallocated part of a granule reads as zeros but stays allocated.
        sweep(
            &mut store,
            vec![extent(16 * KIB, 512), extent(20 * KIB, 4 * KIB)],
            None,
        );
        assert_eq!(bytes(&store, 16 * KIB, 512), [0; 512]);
        assert_eq!(bytes(&store, 16 * KIB + 512, 512), [7; 512]);
        assert_eq!(bytes(&store, 20 * KIB, 4096), [0; 4096]);
        assert_eq!(store.mapped_bytes(), 8 * KIB);
    }

    #[test]
    fn a_sweep_over_64_tebibytes_takes_steps_only_for_written_granules() {
        let mut store = store(64 << 40);
        for n in 0..64 {
            store.write(n << 40, &[7; 512]);
        }
        store.write((64 << 40) - (4 << 20), &vec![7; 4 << 20]);
        let steps = sweep(&mut store, vec![extent(0, 64 << 40)], None);
        assert!((4..=8).contains(&steps), "{steps} steps");
        assert_eq!(store.mapped_bytes(), 0);
        assert_eq!(bytes(&store, 63 << 40, 512), [0; 512]);
        assert_eq!(bytes(&store, (64 << 40) - 512, 512), [0; 512]);
    }

    /// Memory of which only the first granule may be written.
    struct Untouched;

    impl LuMemory for Untouched {
        fn size_bytes(&self) -> u64 {
            1 << 20
        }

        fn append_to(&self, _offset_bytes: u64, _length: usize, _out: &mut Vec<u8>) {}

        fn write(&mut self, offset_bytes: u64, data: &[u8]) {
            let end = offset_bytes + data.len() as u64;
            assert!(end <= GRANULE_BYTES, "{offset_bytes} to {end} was written");
        }

        fn discard(&mut self, _offset_bytes: u64, _length_bytes: u64) {}
    }

    #[test]
    fn zeros_take_no_memory_where_nothing_was_written() {
        let mut untouched = MemoryStore::new(Untouched);
        untouched.write(0, &[7; 512]);
        untouched.write(512, &[0; 64 << 10]);
        untouched.write(1 << 19, &[0; 100]);
        assert_eq!(untouched.mapped_bytes(), (64 + 4 + 4) << 10);
    }

    #[test]
    fn zeros_replace_data_in_each_part_of_a_range() {
        for at in [0, 4 * KIB, 8 * KIB, 12 * KIB - 512] {
            let mut store = store(1 << 20);
            store.write(at, &[7; 512]);
            store.write(0, &[0; 12 << 10]);
            assert_eq!(bytes(&store, 0, 12 << 10), [0; 12 << 10], "{at}");
        }
    }

    #[test]
    fn data_with_a_single_byte_at_its_end_is_not_zero() {
        for length in [1, 64, 65, 512, 4096] {
            let mut data = vec![0; length];
            assert!(is_zero(&data));
            data[length - 1] = 1;
            assert!(!is_zero(&data));
        }
    }

    #[test]
    fn write_same_repeats_its_block() {
        let mut store = store(8 << 20);
        let steps = sweep(&mut store, vec![extent(512, 5 << 20)], Some(vec![9; 512]));
        assert_eq!(steps, 5);
        assert_eq!(bytes(&store, 0, 512), [0; 512]);
        assert!(bytes(&store, 512, 5 << 20).iter().all(|byte| *byte == 9));
        assert_eq!(bytes(&store, 512 + (5 << 20), 512), [0; 512]);
    }
}
