//! Programs that look at what is on the medium before they end well: VERIFY, WRITE AND VERIFY,
//! COMPARE AND WRITE, ORWRITE (SBC-3 sections 5.2, 5.20, 5.37 and 5.47).

use hakaru_wire::scsi::{ByteCheck, Sense};

use super::{Answer, CHUNK_BYTES, Step, Workplace, read, take_front};
use crate::io::{Extent, IoOp};

/// Reads a range, and compares it.
#[derive(Debug)]
pub struct Compare {
    /// Bytes left to read.
    rest: Extent,
    /// Start of the range.
    begin: u64,
    block_bytes: u32,
    check: ByteCheck,
    /// The initiator's data is written first: WRITE AND VERIFY.
    write_first: bool,
}

impl Compare {
    /// VERIFY of `range`; PRE-FETCH is one of [`ByteCheck::Medium`].
    pub fn new(range: Extent, block_bytes: u32, check: ByteCheck) -> Self {
        Self {
            rest: range,
            begin: range.offset_bytes,
            block_bytes,
            check,
            write_first: false,
        }
    }

    /// WRITE AND VERIFY.
    pub fn after_write(range: Extent, block_bytes: u32, check: ByteCheck) -> Self {
        Self {
            write_first: true,
            ..Self::new(range, block_bytes, check)
        }
    }

    /// Bytes to read, at the beginning.
    pub(super) fn total_bytes(&self) -> u64 {
        self.rest.length_bytes
    }

    pub(super) fn step(&mut self, at: &mut Workplace<'_>, answer: Answer) -> Step {
        match answer {
            Answer::Begin if self.write_first => {
                // Of data that ends early only whole blocks are written, and verified.
                let block = self.block_bytes as usize;
                at.data.truncate(at.data.len() / block * block);
                self.rest.length_bytes = self.rest.length_bytes.min(at.data.len() as u64);
                if at.data.is_empty() {
                    return Step::GOOD;
                }
                let op = IoOp::Write {
                    offset_bytes: self.begin,
                    data: core::mem::take(at.data),
                    fua: true,
                };
                return Step::Ask(at.lu, op);
            }
            Answer::Written(data) => *at.data = data,
            Answer::Read(data) => {
                let length = data.len() as u64;
                let difference = self.difference(at.data, self.rest.offset_bytes - length, &data);
                at.buffers.give(data);
                if let Some(place) = difference {
                    let lba = place / u64::from(self.block_bytes);
                    return Step::check(Sense::MISCOMPARE_DURING_VERIFY.with_information(lba));
                }
            }
            _ => {}
        }
        match take_front(&mut self.rest, CHUNK_BYTES) {
            Some(part) => Step::Ask(at.lu, read(part)),
            None => Step::GOOD,
        }
    }

    /// The first byte of `found`, which lies at `offset` of the LU, that is not as it should be:
    /// its place in the LU.
    fn difference(&self, data: &[u8], offset: u64, found: &[u8]) -> Option<u64> {
        let same = match self.check {
            ByteCheck::Medium => None,
            ByteCheck::Whole => {
                let expected = &data[(offset - self.begin) as usize..];
                first_difference(expected, found)
            }
            ByteCheck::OneBlock => found
                .chunks(self.block_bytes as usize)
                .position(|block| block != data)
                .map(|block| block * self.block_bytes as usize),
        };
        same.map(|place| offset + place as u64)
    }
}

fn first_difference(expected: &[u8], found: &[u8]) -> Option<usize> {
    expected.iter().zip(found).position(|(a, b)| a != b)
}

/// Writes the second half of the initiator's data if the first is what is there.
#[derive(Debug)]
pub struct CompareAndWrite {
    range: Extent,
    fua: bool,
}

impl CompareAndWrite {
    /// The first half is compared with `range`.
    pub fn new(range: Extent, fua: bool) -> Self {
        Self { range, fua }
    }

    pub(super) fn step(&mut self, at: &mut Workplace<'_>, answer: Answer) -> Step {
        match answer {
            Answer::Begin if self.range.length_bytes == 0 => Step::GOOD,
            Answer::Begin => Step::Ask(at.lu, read(self.range)),
            Answer::Read(found) => {
                let half = found.len();
                let difference = first_difference(&at.data[..half], &found);
                at.buffers.give(found);
                if let Some(offset) = difference {
                    // INFORMATION is a place in the Data-Out Buffer (SBC-3 section 5.2).
                    let sense = Sense::MISCOMPARE_DURING_VERIFY.with_information(offset as u64);
                    return Step::check(sense);
                }
                at.data.drain(..half);
                let op = IoOp::Write {
                    offset_bytes: self.range.offset_bytes,
                    data: core::mem::take(at.data),
                    fua: self.fua,
                };
                Step::Ask(at.lu, op)
            }
            Answer::Written(data) => {
                at.buffers.give(data);
                Step::GOOD
            }
            _ => Step::GOOD,
        }
    }
}

/// ORs the initiator's data into what is there.
#[derive(Debug)]
pub struct OrWrite {
    rest: Extent,
    /// The part that is under way.
    part: Extent,
    begin: u64,
    fua: bool,
}

impl OrWrite {
    /// ORs the data of the initiator, which is as long as `range`, into the range.
    pub fn new(range: Extent, fua: bool) -> Self {
        Self {
            rest: range,
            part: range,
            begin: range.offset_bytes,
            fua,
        }
    }

    /// Bytes to change, at the beginning.
    pub(super) fn total_bytes(&self) -> u64 {
        self.rest.length_bytes
    }

    pub(super) fn step(&mut self, at: &mut Workplace<'_>, answer: Answer) -> Step {
        match answer {
            Answer::Read(mut found) => {
                let mask = &at.data[(self.part.offset_bytes - self.begin) as usize..];
                found.iter_mut().zip(mask).for_each(|(a, b)| *a |= b);
                let op = IoOp::Write {
                    offset_bytes: self.part.offset_bytes,
                    data: found,
                    fua: self.fua,
                };
                return Step::Ask(at.lu, op);
            }
            Answer::Written(data) => at.buffers.give(data),
            _ => {}
        }
        match take_front(&mut self.rest, CHUNK_BYTES) {
            Some(part) => {
                self.part = part;
                Step::Ask(at.lu, read(part))
            }
            None => Step::GOOD,
        }
    }
}
