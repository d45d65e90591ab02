//! An LU in RAM: sparse memory, and which of it has been written.
//!
//! Everything ends at once, except what covers so much that others would wait: [`Sweep`] does that in steps.
//! An LU that was declared full has contents of its own from the beginning ([`Contents`]): a granule gets them when it is first looked at.
use std::io;

use hakaru_iscsi_target::{Extent, IoFailure, IoOp, IoResult, Returned, Target};
use hakaru_runtime::memory::SparseMemory;
use hakaru_runtime::page_pipe::PagePipe;

use super::contents::Contents;

/// What is taken and given back together. Divides every logical block and is one.
pub const GRANULE_BYTES: u64 = 4096;
/// Granules per chunk of the map of those taken: 128 MiB.
const CHUNK_GRANULES: u64 = 1 << 15;
/// Bytes written, cleared or given back before others have their turn: about a tenth of a millisecond's worth.
const STEP_BYTES: u64 = 1 << 20;

/// An LU's bytes in RAM.
pub struct MemoryStore {
    memory: SparseMemory,
    taken: Taken,
    full: Option<Full>,
}

/// Contents that were there before anything was written.
struct Full {
    contents: Contents,
    /// Granules that have got theirs, or something else since.
    settled: Taken,
}

/// What became of an access.
pub enum Accessed {
    /// It has ended.
    Now(IoResult),
    /// It goes on in steps.
    Sweep(Sweep),
}

/// An access that goes on in steps.
pub struct Sweep {
    /// What is left to do; each of at least a block.
    ranges: Vec<Extent>,
    /// Written over and over; zeros are given back instead.
    block: Option<Vec<u8>>,
}

impl MemoryStore {
    /// Over `memory` that was never written, of `size_bytes`.
    pub fn new(memory: SparseMemory, size_bytes: u64) -> MemoryStore {
        MemoryStore {
            memory,
            taken: Taken::new(size_bytes),
            full: None,
        }
    }

    /// As [`MemoryStore::new`], with contents everywhere. All of it takes space as far as SCSI is told; memory is taken as it is looked at.
    pub fn full(memory: SparseMemory, size_bytes: u64, contents: Contents) -> MemoryStore {
        let mut store = MemoryStore::new(memory, size_bytes);
        store.taken.set(0, size_bytes);
        store.full = Some(Full {
            contents,
            settled: Taken::new(size_bytes),
        });
        store
    }

    /// The bytes, for a socket to send from.
    pub fn bytes(&self, offset_bytes: u64, length: usize) -> &[u8] {
        self.memory.bytes(offset_bytes, length)
    }

    /// Lends bytes to a pipe, as far as it has room, until they are taken back; see [`SparseMemory::lend`].
    pub fn lend(
        &mut self,
        offset_bytes: u64,
        length: usize,
        pipe: &mut PagePipe,
    ) -> io::Result<usize> {
        self.memory.lend(offset_bytes, length, pipe)
    }

    /// What was lent comes back.
    pub fn take_back(&mut self, returned: Returned) {
        match returned {
            Returned::Read(lent) => self.memory.take_back(lent.offset_bytes, lent.length_bytes),
            Returned::Abandoned(lent) => {
                self.memory.abandon(lent.offset_bytes, lent.length_bytes);
            }
        }
    }

    /// Bytes that take space.
    pub fn mapped_bytes(&self) -> u64 {
        self.taken.granules * GRANULE_BYTES
    }

    /// Does it, or begins to. `target` lends buffers for what is not read in place.
    pub fn access(&mut self, op: IoOp, target: &mut Target) -> Accessed {
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
                let mut buffer = target.take_buffer(length_bytes as usize);
                buffer.extend_from_slice(self.memory.bytes(offset_bytes, length_bytes as usize));
                IoResult::ReadData(buffer)
            }
            IoOp::Write {
                offset_bytes, data, ..
            } => {
                self.write(offset_bytes, &data);
                IoResult::Written(data)
            }
            IoOp::Flush => IoResult::Flushed,
            IoOp::Unmap { ranges } => {
                return self.begin(Sweep {
                    ranges,
                    block: None,
                });
            }
            IoOp::WriteSame { range, block, .. } => {
                // Memory has nothing to gain from zeros that take space.
                let block = block.iter().any(|byte| *byte != 0).then_some(block);
                return self.begin(Sweep {
                    ranges: vec![range],
                    block,
                });
            }
            IoOp::Status { range, extents_max } => {
                IoResult::Provisioned(self.taken.extents(range, extents_max))
            }
            // What is in RAM does not outlive the process, and neither would a reservation.
            IoOp::Keep { .. } => IoResult::Failed(IoFailure::Internal),
        })
    }

    /// The first step at once: most are not longer.
    fn begin(&mut self, mut sweep: Sweep) -> Accessed {
        if self.step(&mut sweep) {
            Accessed::Now(IoResult::Done)
        } else {
            Accessed::Sweep(sweep)
        }
    }

    /// A step of it; `true` if it was the last.
    pub fn step(&mut self, sweep: &mut Sweep) -> bool {
        let mut budget = STEP_BYTES;
        while let Some(range) = sweep.ranges.last_mut() {
            let done = match &sweep.block {
                Some(block) => self.fill(*range, block, &mut budget),
                None => self.erase(*range, &mut budget),
            };
            range.offset_bytes += done;
            range.length_bytes -= done;
            if range.length_bytes == 0 {
                sweep.ranges.pop();
            }
            if budget == 0 {
                break;
            }
        }
        sweep.ranges.is_empty()
    }

    /// Gives the granules of a range the contents that they had from the beginning. Those that are about to be overwritten as a
    /// whole need none.
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

    fn write(&mut self, offset_bytes: u64, data: &[u8]) {
        self.settle(offset_bytes, data.len() as u64, true);
        self.memory.write(offset_bytes, data);
        self.taken.set(offset_bytes, data.len() as u64);
    }

    /// Writes the block over and over from the beginning of the range; returns how far.
    fn fill(&mut self, range: Extent, block: &[u8], budget: &mut u64) -> u64 {
        let length = range.length_bytes.min(*budget);
        self.settle(range.offset_bytes, length, true);
        let mut done = 0;
        while done < length {
            self.memory.write(range.offset_bytes + done, block);
            done += block.len() as u64;
        }
        self.taken.set(range.offset_bytes, done);
        *budget = budget.saturating_sub(done);
        done
    }

    /// Gives back from the beginning of the range; returns how far. What takes no space costs next to nothing.
    fn erase(&mut self, range: Extent, budget: &mut u64) -> u64 {
        let end = range.offset_bytes + range.length_bytes;
        let (start, taken_end) = self.taken.next(range.offset_bytes, end);
        let until = taken_end.min(start + *budget);
        if until > start {
            self.settle(start, until - start, true);
            self.memory.discard(start, until - start);
            self.taken.clear(start, until - start);
        }
        *budget -= until - start;
        until - range.offset_bytes
    }
}

/// Which granules have been written: a bit for each, in chunks that are there only if one of their bits is set.
struct Taken {
    chunks: Vec<Option<Box<[u64; (CHUNK_GRANULES / 64) as usize]>>>,
    /// Bits set.
    granules: u64,
}

impl Taken {
    fn new(size_bytes: u64) -> Taken {
        let chunks = size_bytes.div_ceil(CHUNK_GRANULES * GRANULE_BYTES);
        Taken {
            chunks: (0..chunks).map(|_| None).collect(),
            granules: 0,
        }
    }

    /// Every granule that the range touches is taken.
    fn set(&mut self, offset_bytes: u64, length_bytes: u64) {
        let first = offset_bytes / GRANULE_BYTES;
        let end = (offset_bytes + length_bytes).div_ceil(GRANULE_BYTES);
        for granule in first..end {
            let chunk = self.chunks[(granule / CHUNK_GRANULES) as usize]
                .get_or_insert_with(|| Box::new([0; (CHUNK_GRANULES / 64) as usize]));
            let word = &mut chunk[(granule % CHUNK_GRANULES / 64) as usize];
            let bit = 1 << (granule % 64);
            self.granules += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Every granule that lies in the range as a whole is taken no more.
    fn clear(&mut self, offset_bytes: u64, length_bytes: u64) {
        let first = offset_bytes.div_ceil(GRANULE_BYTES);
        let end = (offset_bytes + length_bytes) / GRANULE_BYTES;
        for granule in first..end {
            let Some(chunk) = &mut self.chunks[(granule / CHUNK_GRANULES) as usize] else {
                continue;
            };
            let word = &mut chunk[(granule % CHUNK_GRANULES / 64) as usize];
            let bit = 1 << (granule % 64);
            self.granules -= u64::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    fn is_set(&self, granule: u64) -> bool {
        self.chunks[(granule / CHUNK_GRANULES) as usize]
            .as_ref()
            .is_some_and(|chunk| {
                chunk[(granule % CHUNK_GRANULES / 64) as usize] >> (granule % 64) & 1 == 1
            })
    }

    /// The first granule from `granule` on, before `end`, that is (or is not) taken; else `end`.
    fn find(&self, mut granule: u64, end: u64, taken: bool) -> u64 {
        while granule < end {
            let Some(chunk) = &self.chunks[(granule / CHUNK_GRANULES) as usize] else {
                if !taken {
                    return granule;
                }
                granule = (granule / CHUNK_GRANULES + 1) * CHUNK_GRANULES;
                continue;
            };
            let word = chunk[(granule % CHUNK_GRANULES / 64) as usize];
            let wanted = (if taken { word } else { !word }) >> (granule % 64);
            if wanted != 0 {
                return (granule + u64::from(wanted.trailing_zeros())).min(end);
            }
            granule = (granule / 64 + 1) * 64;
        }
        end
    }

    /// The first bytes from `at` on, before `end`, that take space, as (beginning, end); both `end` if none does.
    fn next(&self, at: u64, end: u64) -> (u64, u64) {
        let last = end.div_ceil(GRANULE_BYTES);
        let first = self.find(at / GRANULE_BYTES, last, true);
        // As far as a step can go, not as far as it could be told.
        let bound = last.min(first + 2 * STEP_BYTES / GRANULE_BYTES);
        let after = self.find(first, bound, false);
        let bytes = |granule: u64| (granule * GRANULE_BYTES).clamp(at, end);
        (bytes(first), bytes(after))
    }

    /// Extents that follow one another from the beginning of the range and differ in turn.
    fn extents(&self, range: Extent, extents_max: usize) -> Vec<(Extent, bool)> {
        let end = range.offset_bytes + range.length_bytes;
        let last = end.div_ceil(GRANULE_BYTES);
        let mut found = Vec::new();
        let mut at = range.offset_bytes;
        while at < end && found.len() < extents_max {
            let granule = at / GRANULE_BYTES;
            let taken = self.is_set(granule);
            let until = (self.find(granule, last, !taken) * GRANULE_BYTES).min(end);
            let extent = Extent {
                offset_bytes: at,
                length_bytes: until - at,
            };
            found.push((extent, taken));
            at = until;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn store(size_bytes: u64) -> MemoryStore {
        MemoryStore::new(SparseMemory::new(size_bytes).unwrap(), size_bytes)
    }

    fn extent(offset_bytes: u64, length_bytes: u64) -> Extent {
        Extent {
            offset_bytes,
            length_bytes,
        }
    }

    #[test]
    fn a_full_lu_reads_the_same_whatever_part_of_it_is_looked_at_first() {
        let contents = Contents::new(3, 50);
        let size = (1 << 20) + 512;
        let full = || MemoryStore::full(SparseMemory::new(size).unwrap(), size, contents);
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
        // Parts of granules written, given back and filled before the rest of them was ever looked at.
        store.write(5 * KIB, &[7; 512]);
        expected[5 << 10..][..512].fill(7);
        store.write(8 * KIB, &[8; 4096]);
        expected[8 << 10..][..4096].fill(8);
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
            store.bytes(size - 512, 512),
            &expected[size as usize - 512..]
        );
        store.settle(0, size, false);
        assert!(store.bytes(0, size as usize) == expected);
        // What is written after it was given back does not bring the old contents back.
        store.write(20 * KIB, &[6; 512]);
        assert_eq!(store.bytes(20 * KIB + 512, 512), [0; 512]);
    }

    fn sweep(store: &mut MemoryStore, ranges: Vec<Extent>, block: Option<Vec<u8>>) -> u32 {
        let mut sweep = Sweep { ranges, block };
        let mut steps = 1;
        while !store.step(&mut sweep) {
            steps += 1;
        }
        steps
    }

    #[test]
    fn what_was_written_is_told_and_what_was_given_back_is_not() {
        let mut store = store(1 << 20);
        let whole = extent(0, 1 << 20);
        assert_eq!(store.taken.extents(whole, 9), [(whole, false)]);
        store.write(8 * KIB, &[7; 512]);
        store.write(16 * KIB, &[7; 8192]);
        let told = store.taken.extents(whole, 9);
        let expected = [
            (extent(0, 8 * KIB), false),
            (extent(8 * KIB, 4 * KIB), true),
            (extent(12 * KIB, 4 * KIB), false),
            (extent(16 * KIB, 8 * KIB), true),
            (extent(24 * KIB, 1000 * KIB), false),
        ];
        assert_eq!(told, expected);
        assert_eq!(store.taken.extents(whole, 2), expected[..2]);
        assert_eq!(store.mapped_bytes(), 12 * KIB);
        // A part of a granule reads as zeros but keeps its space.
        sweep(
            &mut store,
            vec![extent(16 * KIB, 512), extent(20 * KIB, 4 * KIB)],
            None,
        );
        assert_eq!(store.bytes(16 * KIB, 512), [0; 512]);
        assert_eq!(store.bytes(16 * KIB + 512, 512), [7; 512]);
        assert_eq!(store.bytes(20 * KIB, 4096), [0; 4096]);
        assert_eq!(store.mapped_bytes(), 8 * KIB);
    }

    #[test]
    fn a_sweep_over_64_tebibytes_takes_steps_for_what_was_written_alone() {
        let mut store = store(64 << 40);
        for n in 0..64 {
            store.write(n << 40, &[7; 512]);
        }
        store.write((64 << 40) - (4 << 20), &vec![7; 4 << 20]);
        let steps = sweep(&mut store, vec![extent(0, 64 << 40)], None);
        assert!((4..=8).contains(&steps), "{steps} steps");
        assert_eq!(store.mapped_bytes(), 0);
        assert_eq!(store.bytes(63 << 40, 512), [0; 512]);
        assert_eq!(store.bytes((64 << 40) - 512, 512), [0; 512]);
    }

    #[test]
    fn a_block_is_written_over_and_over() {
        let mut store = store(8 << 20);
        let steps = sweep(&mut store, vec![extent(512, 5 << 20)], Some(vec![9; 512]));
        assert_eq!(steps, 5);
        assert_eq!(store.bytes(0, 512), [0; 512]);
        assert!(store.bytes(512, 5 << 20).iter().all(|byte| *byte == 9));
        assert_eq!(store.bytes(512 + (5 << 20), 512), [0; 512]);
    }
}
