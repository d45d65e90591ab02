//! Values that each block may hold: the rules P1 to P3 as data.
//!
//! A write gives a block a value, its stamp. An unmap gives it the value 0. After a crash, a block
//! may hold the last value that was flushed (by FUA, or by a flush that was sent after the write's
//! response) or any later value, acknowledged or not. After a value was read following a crash, it
//! is the only allowed value.
use crate::support::client::BLOCK;

/// The blocks of a region.
pub struct Oracle {
    first: u64,
    blocks: Vec<Values>,
}

/// Values that a block may hold.
#[derive(Clone)]
struct Values {
    /// Allowed values, oldest first, as (number of the command that wrote it, value).
    allowed: Vec<(u64, u64)>,
    /// Whether the last command is unanswered.
    in_flight: bool,
}

/// The state that a flush makes durable: each block with the number of the command whose value it
/// held when the flush was sent.
pub type Mark = Vec<(usize, u64)>;

impl Oracle {
    /// Creates the oracle of `count` blocks from block `first` on, which read as zeros.
    pub fn new(first: u64, count: u64) -> Oracle {
        let blank = Values {
            allowed: vec![(0, 0)],
            in_flight: false,
        };
        Oracle {
            first,
            blocks: vec![blank; count as usize],
        }
    }

    /// Returns the first block of the region.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of blocks.
    pub fn count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Returns whether no command to any of these blocks is in flight.
    pub fn is_quiet(&self, at: u64, count: u64) -> bool {
        self.of(at, count).iter().all(|block| !block.in_flight)
    }

    fn of(&self, at: u64, count: u64) -> &[Values] {
        &self.blocks[at as usize..(at + count) as usize]
    }

    fn of_mut(&mut self, at: u64, count: u64) -> &mut [Values] {
        &mut self.blocks[at as usize..(at + count) as usize]
    }

    /// Records that a command was sent that gives these blocks the value.
    pub fn sent(&mut self, at: u64, count: u64, command: u64, value: u64) {
        for block in self.of_mut(at, count) {
            block.allowed.push((command, value));
            block.in_flight = true;
        }
    }

    /// Records that the command was answered GOOD; `durable` if it had FUA.
    pub fn answered(&mut self, at: u64, count: u64, durable: bool) {
        for block in self.of_mut(at, count) {
            block.in_flight = false;
            if durable {
                block.allowed.drain(..block.allowed.len() - 1);
            }
        }
    }

    /// Records that the command was refused and changed nothing.
    pub fn refused(&mut self, at: u64, count: u64) {
        for block in self.of_mut(at, count) {
            block.in_flight = false;
            block.allowed.pop();
        }
    }

    /// Returns the state that a flush sent now makes durable.
    pub fn mark(&self) -> Mark {
        let held = |block: &Values| {
            block.allowed[block.allowed.len() - 1 - usize::from(block.in_flight)].0
        };
        let blocks = self.blocks.iter().enumerate();
        blocks
            .filter(|(_, block)| block.allowed.len() > 1)
            .map(|(at, block)| (at, held(block)))
            .collect()
    }

    /// Records that the flush was answered.
    pub fn flushed(&mut self, mark: &Mark) {
        for (at, command) in mark {
            let allowed = &mut self.blocks[*at].allowed;
            // Absent if a later FUA write has removed it.
            if let Some(at) = allowed.iter().position(|(writer, _)| writer == command) {
                allowed.drain(..at);
            }
        }
    }

    /// Checks the `stamps` read from all blocks of the LU after a crash. Appends violations to
    /// `lost`. The values read are the only allowed values from now on.
    pub fn compare(&mut self, stamps: &[u64], lost: &mut Vec<String>) {
        let stamps = &stamps[self.first as usize..][..self.blocks.len()];
        for (at, (block, stamp)) in self.blocks.iter_mut().zip(stamps).enumerate() {
            if !block.allowed.iter().any(|(_, value)| value == stamp) {
                let lba = self.first + at as u64;
                lost.push(format!(
                    "block {lba} holds {stamp}, allowed are {:?}",
                    block.allowed
                ));
            }
            block.allowed = vec![(0, *stamp)];
            block.in_flight = false;
        }
    }
}

/// Returns a block with this stamp: address and value, repeated.
pub fn stamped(lba: u64, value: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    for part in block.chunks_mut(16) {
        part[..8].copy_from_slice(&lba.to_le_bytes());
        part[8..].copy_from_slice(&value.to_le_bytes());
    }
    block
}

/// Returns the value of a block that was read at `lba`; 0 for zeros.
///
/// # Panics
/// If the block is torn, or holds the data of another block.
pub fn stamp_of(block: &[u8], lba: u64) -> u64 {
    if block.iter().all(|byte| *byte == 0) {
        return 0;
    }
    let value = u64::from_le_bytes(block[8..16].try_into().unwrap());
    assert!(
        block == stamped(lba, value),
        "block {lba} is torn or holds data of another block: {:?}",
        &block[..32]
    );
    value
}

#[test]
fn the_oracle_detects_a_lost_flush_a_stale_value_and_the_data_of_a_refused_write() {
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
    assert_eq!(
        verdict(&oracle, [0, 11, 0, 11]),
        0,
        "an unanswered write may or may not take effect"
    );
    oracle.answered(0, 4, false);
    let mark = oracle.mark();
    oracle.sent(3, 1, 2, 22);
    oracle.flushed(&mark);
    assert_eq!(verdict(&oracle, [11, 11, 11, 22]), 0);
    assert_eq!(verdict(&oracle, [11, 11, 11, 11]), 0);
    assert_eq!(verdict(&oracle, [0, 11, 11, 0]), 2, "flushed and lost");
    oracle.refused(3, 1);
    assert_eq!(verdict(&oracle, [11, 11, 11, 22]), 1, "refused and written");
    oracle.sent(0, 1, 3, 33);
    oracle.answered(0, 1, true);
    assert_eq!(verdict(&oracle, [11, 11, 11, 11]), 1, "FUA and lost");
    assert_eq!(verdict(&oracle, [33, 11, 11, 11]), 0);
}
