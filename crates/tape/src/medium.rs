//! The recorded contents of a cartridge: an index of blocks and filemarks.
//!
//! Objects, blocks and filemarks, are numbered from the beginning of the partition. Consecutive
//! blocks of one length are one run, and so are consecutive filemarks, so a backup of millions of
//! blocks is a few runs. Every search is a binary search in the runs.

/// Length to which every block is padded in the region, bytes: the block length of the store.
pub const GRANULE_BYTES: u64 = 512;

/// Longest block and longest transfer, bytes: the largest TRANSFER LENGTH of READ(6) with variable
/// blocks.
pub const BLOCK_BYTES_MAX: u32 = (1 << 24) - 1;

/// Most runs of a cartridge. They bound the memory of its index, which would otherwise grow with
/// the capacity: to 40 MiB.
pub const RUNS_MAX: usize = 1 << 20;

/// Consecutive blocks of one length, or consecutive filemarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Number of the first object.
    first: u64,
    /// Number of objects, at least 1.
    count: u64,
    /// Length of each block, bytes; 0 for filemarks.
    block_bytes: u32,
    /// Offset of the first block in the region, bytes; for filemarks, that of the next block.
    offset_bytes: u64,
    /// Number of filemarks before the first object.
    marks_before: u64,
}

impl Run {
    fn is_marks(&self) -> bool {
        self.block_bytes == 0
    }

    fn end(&self) -> u64 {
        self.first + self.count
    }

    fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.count * stride(self.block_bytes)
    }

    fn marks_end(&self) -> u64 {
        self.marks_before + if self.is_marks() { self.count } else { 0 }
    }
}

/// Returns the distance of consecutive blocks in the region, bytes.
pub(crate) fn stride(block_bytes: u32) -> u64 {
    u64::from(block_bytes).next_multiple_of(GRANULE_BYTES)
}

/// Consecutive blocks of one length in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the first block in the region, bytes.
    pub offset_bytes: u64,
    /// Number of blocks, at least 1.
    pub blocks: u32,
    /// Length of each block, bytes, at least 1. In the region, each begins at a multiple of
    /// [`GRANULE_BYTES`] from the one before.
    pub block_bytes: u32,
}

impl Piece {
    /// Returns the distance of consecutive blocks in the region, bytes.
    #[must_use]
    pub fn stride_bytes(&self) -> u64 {
        stride(self.block_bytes)
    }

    /// Returns the length of the piece in the region, bytes.
    #[must_use]
    pub fn region_bytes(&self) -> u64 {
        u64::from(self.blocks) * self.stride_bytes()
    }
}

/// The objects that follow a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Blocks of one length.
    Blocks {
        /// Length of each, bytes.
        block_bytes: u32,
        /// Offset of the first in the region, bytes.
        offset_bytes: u64,
        /// Number of blocks of this length in sequence.
        count: u64,
    },
    /// Filemarks.
    Filemarks {
        /// Number of filemarks in sequence.
        count: u64,
    },
    /// The end of the recorded data.
    EndOfData,
}

/// The blocks and filemarks of a cartridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Medium {
    runs: Vec<Run>,
    runs_max: usize,
}

impl Default for Medium {
    fn default() -> Self {
        Medium::new(RUNS_MAX)
    }
}

impl Medium {
    /// Creates an empty medium whose index has at most `runs_max` runs.
    #[must_use]
    pub fn new(runs_max: usize) -> Medium {
        Medium {
            runs: Vec::new(),
            runs_max,
        }
    }

    /// Returns the number of objects: the position of the end of data.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.runs.last().map_or(0, Run::end)
    }

    /// Returns the number of filemarks.
    #[must_use]
    pub fn filemarks(&self) -> u64 {
        self.runs.last().map_or(0, Run::marks_end)
    }

    /// Returns the bytes of the region that hold blocks.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.runs.last().map_or(0, Run::end_bytes)
    }

    /// Returns the run that contains an object.
    fn run_of(&self, object: u64) -> Option<&Run> {
        let at = self.runs.partition_point(|run| run.end() <= object);
        self.runs.get(at)
    }

    /// Returns the objects that follow a position.
    #[must_use]
    pub fn after(&self, position: u64) -> Object {
        let Some(run) = self.run_of(position) else {
            return Object::EndOfData;
        };
        let passed = position - run.first;
        let count = run.count - passed;
        if run.is_marks() {
            return Object::Filemarks { count };
        }
        Object::Blocks {
            block_bytes: run.block_bytes,
            offset_bytes: run.offset_bytes + passed * stride(run.block_bytes),
            count,
        }
    }

    /// Returns the number of consecutive objects of one kind that end at a position, and whether
    /// they are filemarks. `None` at the beginning.
    #[must_use]
    pub fn before(&self, position: u64) -> Option<(u64, bool)> {
        let run = self.run_of(position.checked_sub(1)?)?;
        Some((position - run.first, run.is_marks()))
    }

    /// Returns the number of filemarks before a position.
    #[must_use]
    pub fn marks_before(&self, position: u64) -> u64 {
        match self.run_of(position) {
            Some(run) if run.is_marks() => run.marks_before + (position - run.first),
            Some(run) => run.marks_before,
            None => self.filemarks(),
        }
    }

    /// Returns the position before filemark number `mark`, from 0. `None` if there is none.
    #[must_use]
    pub fn mark(&self, mark: u64) -> Option<u64> {
        let at = self.runs.partition_point(|run| run.marks_end() <= mark);
        let run = self.runs.get(at)?;
        Some(run.first + (mark - run.marks_before))
    }

    /// Returns the offset in the region at which a block would be that follows a position, bytes.
    #[must_use]
    pub fn offset_bytes(&self, position: u64) -> u64 {
        match self.run_of(position) {
            Some(run) => run.offset_bytes + (position - run.first) * stride(run.block_bytes),
            None => self.used_bytes(),
        }
    }

    /// Removes every object from a position on.
    pub fn truncate(&mut self, position: u64) {
        let kept = self.runs.partition_point(|run| run.first < position);
        self.runs.truncate(kept);
        if let Some(last) = self.runs.last_mut() {
            last.count = last.count.min(position - last.first);
        }
    }

    /// Appends blocks of one length, at least one of at least 1 byte. Returns their place.
    pub fn append_blocks(&mut self, block_bytes: u32, blocks: u32) -> Piece {
        let offset_bytes = self.used_bytes();
        self.append(block_bytes, blocks.into());
        Piece {
            offset_bytes,
            blocks,
            block_bytes,
        }
    }

    /// Appends filemarks.
    pub fn append_filemarks(&mut self, count: u64) {
        if count > 0 {
            self.append(0, count);
        }
    }

    /// Whether the index has room for blocks of this length at the end.
    #[must_use]
    pub fn takes_blocks(&self, block_bytes: u32) -> bool {
        let last = self.runs.last();
        self.runs.len() < self.runs_max || last.is_some_and(|run| run.block_bytes == block_bytes)
    }

    /// Whether the index has room for filemarks at the end.
    #[must_use]
    pub fn takes_filemarks(&self) -> bool {
        self.takes_blocks(0)
    }

    fn append(&mut self, block_bytes: u32, count: u64) {
        let next = Run {
            first: self.end(),
            count,
            block_bytes,
            offset_bytes: self.used_bytes(),
            marks_before: self.filemarks(),
        };
        match self.runs.last_mut() {
            Some(last) if last.block_bytes == block_bytes => last.count += count,
            _ => self.runs.push(next),
        }
    }

    /// Returns the number of runs, which determines the size of the index.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Returns the number of runs that the index can still take.
    #[must_use]
    pub fn runs_left(&self) -> usize {
        self.runs_max - self.runs.len()
    }

    /// Returns the objects from one position to another as runs: length of each block in bytes, 0
    /// for filemarks, and number.
    pub fn lengths(&self, from: u64, to: u64) -> impl Iterator<Item = (u32, u64)> {
        let first = self.runs.partition_point(|run| run.end() <= from);
        self.runs[first..]
            .iter()
            .map(move |run| {
                let count = run.end().min(to).saturating_sub(run.first.max(from));
                (run.block_bytes, count)
            })
            .take_while(|(_, count)| *count > 0)
    }

    /// Appends a run that was read from a store. Returns `None` if the medium has no room for it:
    /// the run has no objects, a block is too long, the blocks occupy more than `capacity_bytes`
    /// together with those before, or the index is full.
    #[must_use]
    pub fn extend(&mut self, block_bytes: u32, count: u64, capacity_bytes: u64) -> Option<()> {
        let length = stride(block_bytes).checked_mul(count)?;
        let used = self.used_bytes().checked_add(length)?;
        self.end().checked_add(count)?;
        let fits = count > 0 && block_bytes <= BLOCK_BYTES_MAX && used <= capacity_bytes;
        if !fits || !self.takes_blocks(block_bytes) {
            return None;
        }
        self.append(block_bytes, count);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same contents as a list: the length of each block in bytes, 0 for a filemark.
    #[derive(Default)]
    struct Listed(Vec<u32>);

    impl Listed {
        fn marks(&self, end: usize) -> u64 {
            self.0[..end].iter().filter(|length| **length == 0).count() as u64
        }

        fn bytes(&self, end: usize) -> u64 {
            self.0[..end].iter().map(|length| stride(*length)).sum()
        }

        fn same(&self, from: usize) -> u64 {
            let first = self.0[from];
            let rest = self.0[from..].iter();
            rest.take_while(|length| **length == first).count() as u64
        }
    }

    fn check(medium: &Medium, listed: &Listed) {
        let end = listed.0.len();
        assert_eq!(medium.end(), end as u64);
        assert_eq!(medium.used_bytes(), listed.bytes(end));
        for position in 0..=end {
            let at = position as u64;
            assert_eq!(medium.marks_before(at), listed.marks(position));
            assert_eq!(medium.offset_bytes(at), listed.bytes(position));
            let expected = match listed.0.get(position) {
                None => Object::EndOfData,
                Some(0) => Object::Filemarks {
                    count: listed.same(position),
                },
                Some(length) => Object::Blocks {
                    block_bytes: *length,
                    offset_bytes: listed.bytes(position),
                    count: listed.same(position),
                },
            };
            assert_eq!(medium.after(at), expected);
            let reversed = Listed(listed.0[..position].iter().rev().copied().collect());
            let before = (position > 0).then(|| (reversed.same(0), reversed.0[0] == 0));
            assert_eq!(medium.before(at), before);
        }
        let marks: Vec<u64> = (0..end as u64)
            .filter(|at| listed.0[*at as usize] == 0)
            .collect();
        for (mark, position) in marks.iter().enumerate() {
            assert_eq!(medium.mark(mark as u64), Some(*position));
        }
        assert_eq!(medium.mark(marks.len() as u64), None);
        for from in 0..=end {
            let mut copy = Medium::default();
            let before = medium.lengths(0, from as u64);
            for (length, count) in before.chain(medium.lengths(from as u64, end as u64)) {
                copy.extend(length, count, u64::MAX).unwrap();
            }
            assert_eq!(&copy, medium);
        }
    }

    proptest! {
        #[test]
        fn a_medium_equals_the_list_of_its_objects(
            steps in proptest::collection::vec((0_u32..4, 1_u32..4, any::<u64>()), 0..24)
        ) {
            let (mut medium, mut listed) = (Medium::default(), Listed::default());
            for (kind, count, cut) in steps {
                let length = [0, 1, 512, 513][kind as usize];
                if kind == 0 {
                    medium.append_filemarks(count.into());
                } else {
                    let piece = medium.append_blocks(length, count);
                    prop_assert_eq!(piece.offset_bytes, listed.bytes(listed.0.len()));
                }
                listed.0.extend(std::iter::repeat_n(length, count as usize));
                if cut % 3 == 0 {
                    let position = cut % (listed.0.len() as u64 + 2);
                    medium.truncate(position);
                    listed.0.truncate(position as usize);
                }
                check(&medium, &listed);
            }
        }
    }

    #[test]
    fn a_million_equal_blocks_are_one_run() {
        let mut medium = Medium::default();
        for _ in 0..1_000_000 {
            medium.append_blocks(65_536, 1);
        }
        medium.append_filemarks(2);
        assert_eq!((medium.runs(), medium.end()), (2, 1_000_002));
        assert_eq!(medium.mark(1), Some(1_000_001));
    }
}
