//! Ranges of LUs that one command holds exclusively. For example, no other command may write the
//! blocks of a COMPARE AND WRITE between its read and its write.
//!
//! Commands that read and then write hold their range from their first access to their last. Every
//! other write is checked against the held ranges before it goes to the storage. Commands that must
//! wait form a queue, and none overtakes an earlier command that waits for the same blocks. Reads
//! are not checked, because the storage executes each access as a unit.

use std::collections::VecDeque;

use crate::io::Extent;
use hakaru_send_queue::Key;

/// Blocks of one LU that a command is about to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Logical unit number.
    pub lu: u8,
    /// The blocks.
    pub extent: Extent,
}

impl Claim {
    /// Whether both claims contain a common byte.
    pub fn overlaps(&self, other: &Claim) -> bool {
        let end = |extent: Extent| extent.offset_bytes.saturating_add(extent.length_bytes);
        self.lu == other.lu
            && self.extent.offset_bytes < end(other.extent)
            && other.extent.offset_bytes < end(self.extent)
    }
}

/// Ranges that are held, and commands that wait for one.
#[derive(Debug, Default)]
pub struct Ranges {
    held: Vec<(Key, Claim)>,
    /// Tasks that wait, in order. May contain tasks that have ended.
    waiting: VecDeque<(Key, Claim)>,
}

impl Ranges {
    /// Whether no range is held and no command waits.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// Whether a command waits.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether `claim` overlaps neither a held range nor any of the first `before` ranges in the
    /// queue.
    pub fn is_free(&self, claim: &Claim, before: usize) -> bool {
        let queued = self.waiting.iter().take(before);
        !self
            .held
            .iter()
            .chain(queued)
            .any(|(_, other)| other.overlaps(claim))
    }

    /// Returns the length of the queue.
    pub fn waiting_now(&self) -> usize {
        self.waiting.len()
    }

    /// Marks a range as held by a task.
    pub fn hold(&mut self, key: Key, claim: Claim) {
        self.held.push((key, claim));
    }

    /// Appends a task to the queue.
    pub fn wait(&mut self, key: Key, claim: Claim) {
        self.waiting.push_back((key, claim));
    }

    /// Returns the task and range at a position of the queue.
    pub fn waiting_at(&self, position: usize) -> Option<(Key, Claim)> {
        self.waiting.get(position).copied()
    }

    /// Removes the task at a position of the queue.
    pub fn leave(&mut self, position: usize) {
        self.waiting.remove(position);
    }

    /// Releases the range of a task that has ended.
    pub fn release(&mut self, key: Key) {
        self.held.retain(|(holder, _)| *holder != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(lu: u8, offset_bytes: u64, length_bytes: u64) -> Claim {
        let extent = Extent {
            offset_bytes,
            length_bytes,
        };
        Claim { lu, extent }
    }

    #[test]
    fn claims_overlap_where_they_share_a_byte_of_one_lu() {
        let middle = claim(0, 100, 100);
        for (other, overlaps) in [
            (claim(0, 0, 100), false),
            (claim(0, 0, 101), true),
            (claim(0, 199, 1), true),
            (claim(0, 200, 1), false),
            (claim(0, 0, u64::MAX), true),
            (claim(1, 100, 100), false),
        ] {
            assert_eq!(middle.overlaps(&other), overlaps, "{other:?}");
            assert_eq!(other.overlaps(&middle), overlaps, "{other:?}");
        }
    }

    #[test]
    fn no_command_overtakes_an_earlier_one_that_waits_for_the_same_blocks() {
        let key = |index| Key {
            index,
            generation: 0,
        };
        let mut ranges = Ranges::default();
        ranges.hold(key(1), claim(0, 0, 10));
        ranges.wait(key(2), claim(0, 5, 20));
        // The range overlaps no held range, but the range of a waiting task.
        assert!(ranges.is_free(&claim(0, 20, 1), 0));
        assert!(!ranges.is_free(&claim(0, 20, 1), ranges.waiting_now()));
        assert!(!ranges.is_free(&claim(0, 5, 20), 0));
        ranges.release(key(1));
        assert!(ranges.is_free(&claim(0, 5, 20), 0));
        ranges.leave(0);
        assert!(ranges.is_idle());
    }
}
