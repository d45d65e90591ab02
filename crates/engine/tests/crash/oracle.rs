//! What each block may hold: the rules P1 to P3 as data.
//!
//! A write gives a block a value, its stamp; an unmap gives it the value 0. After a crash a block
//! may hold the last value that was flushed (by FUA, or by a flush that was sent after the write's
//! answer) or any later one, answered or not. A value that was read after a crash is from
//! then on the only one.
use crate::support::client::BLOCK;

/// The blocks of a region.
pub struct Oracle {
    first: u64,
    blocks: Vec<Values>,
}

/// Values that a block may hold, oldest first; each with the number of the command that gave it.
#[derive(Clone)]
struct Values {
    may: Vec<(u64, u64)>,
    /// The last command is unanswered.
    in_flight: bool,
}

/// The state that a flush makes durable: each block with the command whose value it held when the
/// flush was sent.
pub type Mark = Vec<(usize, u64)>;

impl Oracle {
    /// Of so many blocks that read as zeros.
    pub fn new(first: u64, count: u64) -> Oracle {
        let blank = Values {
            may: vec![(0, 0)],
            in_flight: false,
        };
        Oracle {
            first,
            blocks: vec![blank; count as usize],
        }
    }

    /// First block of the region.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of blocks.
    pub fn count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// No command to any of these blocks is in flight.
    pub fn is_quiet(&self, at: u64, count: u64) -> bool {
        self.of(at, count).iter().all(|block| !block.in_flight)
    }

    fn of(&self, at: u64, count: u64) -> &[Values] {
        &self.blocks[at as usize..(at + count) as usize]
    }

    fn of_mut(&mut self, at: u64, count: u64) -> &mut [Values] {
        &mut self.blocks[at as usize..(at + count) as usize]
    }

    /// A command was sent that gives these blocks the value.
    pub fn sent(&mut self, at: u64, count: u64, command: u64, value: u64) {
        for block in self.of_mut(at, count) {
            block.may.push((command, value));
            block.in_flight = true;
        }
    }

    /// It was answered GOOD; `durable` if it was with FUA.
    pub fn answered(&mut self, at: u64, count: u64, durable: bool) {
        for block in self.of_mut(at, count) {
            block.in_flight = false;
            if durable {
                block.may.drain(..block.may.len() - 1);
            }
        }
    }

    /// It was refused: it has changed nothing.
    pub fn refused(&mut self, at: u64, count: u64) {
        for block in self.of_mut(at, count) {
            block.in_flight = false;
            block.may.pop();
        }
    }

    /// A flush is sent now.
    pub fn mark(&self) -> Mark {
        let held = |block: &Values| block.may[block.may.len() - 1 - usize::from(block.in_flight)].0;
        let blocks = self.blocks.iter().enumerate();
        blocks
            .filter(|(_, block)| block.may.len() > 1)
            .map(|(at, block)| (at, held(block)))
            .collect()
    }

    /// The flush was answered.
    pub fn flushed(&mut self, mark: &Mark) {
        for (at, command) in mark {
            let may = &mut self.blocks[*at].may;
            // Gone already where a FUA write came after.
            if let Some(at) = may.iter().position(|(by, _)| by == command) {
                may.drain(..at);
            }
        }
    }

    /// Checks the `stamps` read from all blocks of the LU after a crash; appends violations to `lost`.
    /// The values read are the only ones allowed from now on.
    pub fn compare(&mut self, stamps: &[u64], lost: &mut Vec<String>) {
        let stamps = &stamps[self.first as usize..][..self.blocks.len()];
        for (at, (block, stamp)) in self.blocks.iter_mut().zip(stamps).enumerate() {
            if !block.may.iter().any(|(_, value)| value == stamp) {
                let lba = self.first + at as u64;
                lost.push(format!(
                    "block {lba} holds {stamp}, may hold {:?}",
                    block.may
                ));
            }
            block.may = vec![(0, *stamp)];
            block.in_flight = false;
        }
    }
}

/// A block with this stamp: place and value, over and over.
pub fn stamped(lba: u64, value: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    for part in block.chunks_mut(16) {
        part[..8].copy_from_slice(&lba.to_le_bytes());
        part[8..].copy_from_slice(&value.to_le_bytes());
    }
    block
}

/// The value of a block that was read at `lba`; 0 for zeros.
///
/// # Panics
/// If it is torn, or another block's.
pub fn stamp_of(block: &[u8], lba: u64) -> u64 {
    if block.iter().all(|byte| *byte == 0) {
        return 0;
    }
    let value = u64::from_le_bytes(block[8..16].try_into().unwrap());
    assert!(
        block == stamped(lba, value),
        "block {lba} is torn, or another's: {:?}",
        &block[..32]
    );
    value
}

#[test]
fn the_oracle_finds_a_lost_flush_a_stale_value_and_a_refused_write_that_was_done() {
    let mut oracle = Oracle::new(0, 4);
    let verdict = |oracle: &Oracle, stamps: [u64; 4]| {
        let mut lost = Vec::new();
        Oracle {
            first: 0,
            blocks: oracle.blocks.clone(),
        }
        .compare(&stamps, &mut lost);
        lost.len()
    };
    oracle.sent(0, 4, 1, 11);
    assert_eq!(verdict(&oracle, [0, 11, 0, 11]), 0, "not answered: either");
    oracle.answered(0, 4, false);
    let mark = oracle.mark();
    oracle.sent(3, 1, 2, 22);
    oracle.flushed(&mark);
    assert_eq!(verdict(&oracle, [11, 11, 11, 22]), 0);
    assert_eq!(verdict(&oracle, [11, 11, 11, 11]), 0);
    assert_eq!(verdict(&oracle, [0, 11, 11, 0]), 2, "flushed and lost");
    oracle.refused(3, 1);
    assert_eq!(verdict(&oracle, [11, 11, 11, 22]), 1, "refused, yet done");
    oracle.sent(0, 1, 3, 33);
    oracle.answered(0, 1, true);
    assert_eq!(verdict(&oracle, [11, 11, 11, 11]), 1, "FUA and lost");
    assert_eq!(verdict(&oracle, [33, 11, 11, 11]), 0);
}
