//! LUs that a nexus may see and write.

/// LUs that a nexus may see, and those of them that it may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    seen: [u64; 4],
    writable: [u64; 4],
}

impl Rights {
    /// Every LU there is and will be.
    pub const ALL: Rights = Rights {
        seen: [u64::MAX; 4],
        writable: [u64::MAX; 4],
    };
    /// No LU.
    pub const NONE: Rights = Rights {
        seen: [0; 4],
        writable: [0; 4],
    };

    /// Adds an LU; it becomes writable unless `read_only`.
    pub fn allow(&mut self, lun: u8, read_only: bool) {
        let (word, bit) = place(lun);
        self.seen[word] |= bit;
        self.writable[word] |= if read_only { 0 } else { bit };
    }

    /// Whether the LU exists for this nexus.
    #[must_use]
    pub fn sees(&self, lun: u8) -> bool {
        let (word, bit) = place(lun);
        self.seen[word] & bit != 0
    }

    /// Whether the nexus may write the LU.
    #[must_use]
    pub fn writes(&self, lun: u8) -> bool {
        let (word, bit) = place(lun);
        self.writable[word] & bit != 0
    }
}

fn place(lun: u8) -> (usize, u64) {
    (usize::from(lun / 64), 1 << (lun % 64))
}
