//! LUs that a nexus may see and write.

/// The set of LUs that a nexus may see, and the subset that it may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    seen: [u64; 4],
    writable: [u64; 4],
}

impl Rights {
    /// Every LU, including those added later.
    pub const ALL: Rights = Rights {
        seen: [u64::MAX; 4],
        writable: [u64::MAX; 4],
    };
    /// No LU.
    pub const NONE: Rights = Rights {
        seen: [0; 4],
        writable: [0; 4],
    };

    /// Adds an LU, which is writable unless `read_only` is set.
    pub fn allow(&mut self, lun: u8, read_only: bool) {
        let (word, bit) = word_and_bit(lun);
        self.seen[word] |= bit;
        self.writable[word] |= if read_only { 0 } else { bit };
    }

    /// Whether the nexus may see the LU.
    #[must_use]
    pub fn sees(&self, lun: u8) -> bool {
        let (word, bit) = word_and_bit(lun);
        self.seen[word] & bit != 0
    }

    /// Whether the nexus may write the LU.
    #[must_use]
    pub fn writes(&self, lun: u8) -> bool {
        let (word, bit) = word_and_bit(lun);
        self.writable[word] & bit != 0
    }
}

fn word_and_bit(lun: u8) -> (usize, u64) {
    (usize::from(lun / 64), 1 << (lun % 64))
}
