//! Totals of a drive.

/// Totals of a drive since it was created, or a part of them. A transfer counts once its bytes have
/// moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks read.
    pub read_blocks: u64,
    /// Bytes of these blocks.
    pub read_bytes: u64,
    /// Blocks written.
    pub written_blocks: u64,
    /// Bytes of these blocks.
    pub written_bytes: u64,
    /// Filemarks written.
    pub written_filemarks: u64,
    /// Cartridges loaded.
    pub loads: u64,
    /// Reads that the store has failed.
    pub read_errors: u64,
    /// Writes of blocks or of the index that the store has failed.
    pub write_errors: u64,
}

impl Counters {
    /// Returns the sum of two parts.
    #[must_use]
    pub fn plus(self, other: Counters) -> Counters {
        self.combined(other, |one, other| one + other)
    }

    /// Returns the part after `before`, an earlier total.
    #[must_use]
    pub fn since(self, before: Counters) -> Counters {
        self.combined(before, |now, before| now - before)
    }

    fn combined(self, other: Counters, combine: fn(u64, u64) -> u64) -> Counters {
        Counters {
            read_blocks: combine(self.read_blocks, other.read_blocks),
            read_bytes: combine(self.read_bytes, other.read_bytes),
            written_blocks: combine(self.written_blocks, other.written_blocks),
            written_bytes: combine(self.written_bytes, other.written_bytes),
            written_filemarks: combine(self.written_filemarks, other.written_filemarks),
            loads: combine(self.loads, other.loads),
            read_errors: combine(self.read_errors, other.read_errors),
            write_errors: combine(self.write_errors, other.write_errors),
        }
    }
}
