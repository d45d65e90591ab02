//! Programs that examine the contents of the medium: VERIFY, WRITE AND VERIFY, COMPARE AND WRITE,
//! ORWRITE (SBC-3 sections 5.2, 5.20, 5.37 and 5.47).

use hakaru_wire::scsi::{ByteCheck, Sense};

use super::{Answer, CHUNK_BYTES, Step, StepContext, read, take_front};
use crate::io::{Extent, IoOp};

/// Reads a range and compares it.
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
    /// Creates the program of VERIFY of `range`, or of PRE-FETCH with [`ByteCheck::Medium`].
    pub fn new(range: Extent, block_bytes: u32, check: ByteCheck) -> Self {
        Self {
            rest: range,
            begin: range.offset_bytes,
            block_bytes,
            check,
            write_first: false,
        }
    }

    /// Creates the program of WRITE AND VERIFY.
    pub fn after_write(range: Extent, block_bytes: u32, check: ByteCheck) -> Self {
        Self {
            write_first: true,
            ..Self::new(range, block_bytes, check)
        }
    }

    /// Returns the bytes to read, before the first step.
    pub(super) fn total_bytes(&self) -> u64 {
        self.rest.length_bytes
    }

    pub(super) fn step(&mut self, context: &mut StepContext<'_>, answer: Answer) -> Step {
        match answer {
            Answer::Begin if self.write_first => {
                // If the data ends early, only its whole blocks are written and verified.
                let block = self.block_bytes as usize;
                context.data.truncate(context.data.len() / block * block);
                self.rest.length_bytes = self.rest.length_bytes.min(context.data.len() as u64);
                if context.data.is_empty() {
                    return Step::GOOD;
                }
                let op = IoOp::Write {
                    offset_bytes: self.begin,
                    data: core::mem::take(context.data),
                    fua: true,
                };
                return Step::Access(context.lu, op);
            }
            Answer::Written(data) => *context.data = data,
            Answer::Read(data) => {
                let length = data.len() as u64;
                let difference =
                    self.difference(context.data, self.rest.offset_bytes - length, &data);
                context.buffers.give(data);
                if let Some(offset) = difference {
                    let lba = offset / u64::from(self.block_bytes);
                    return Step::check(Sense::MISCOMPARE_DURING_VERIFY.with_information(lba));
                }
            }
            _ => {}
        }
        match take_front(&mut self.rest, CHUNK_BYTES) {
            Some(part) => Step::Access(context.lu, read(part)),
            None => Step::GOOD,
        }
    }

    /// Returns the offset in the LU of the first byte of `read_data` that differs. `read_data` was
    /// read at `offset` of the LU.
    fn difference(&self, data: &[u8], offset: u64, read_data: &[u8]) -> Option<u64> {
        let position = match self.check {
            ByteCheck::Medium => None,
            ByteCheck::Whole => {
                let expected = &data[(offset - self.begin) as usize..];
                first_difference(expected, read_data)
            }
            ByteCheck::OneBlock => read_data
                .chunks(self.block_bytes as usize)
                .position(|block| block != data)
                .map(|block| block * self.block_bytes as usize),
        };
        position.map(|position| offset + position as u64)
    }
}

fn first_difference(expected: &[u8], read_data: &[u8]) -> Option<usize> {
    expected.iter().zip(read_data).position(|(a, b)| a != b)
}

/// Writes the second half of the initiator's data if the first half equals the range.
#[derive(Debug)]
pub struct CompareAndWrite {
    range: Extent,
    fua: bool,
}

impl CompareAndWrite {
    /// Creates the program, which compares the first half with `range`.
    pub fn new(range: Extent, fua: bool) -> Self {
        Self { range, fua }
    }

    pub(super) fn step(&mut self, context: &mut StepContext<'_>, answer: Answer) -> Step {
        match answer {
            Answer::Begin if self.range.length_bytes == 0 => Step::GOOD,
            Answer::Begin => Step::Access(context.lu, read(self.range)),
            Answer::Read(read_data) => {
                let half = read_data.len();
                let difference = first_difference(&context.data[..half], &read_data);
                context.buffers.give(read_data);
                if let Some(offset) = difference {
                    // INFORMATION is an offset in the Data-Out Buffer (SBC-3 section 5.2).
                    let sense = Sense::MISCOMPARE_DURING_VERIFY.with_information(offset as u64);
                    return Step::check(sense);
                }
                context.data.drain(..half);
                let op = IoOp::Write {
                    offset_bytes: self.range.offset_bytes,
                    data: core::mem::take(context.data),
                    fua: self.fua,
                };
                Step::Access(context.lu, op)
            }
            Answer::Written(data) => {
                context.buffers.give(data);
                Step::GOOD
            }
            _ => Step::GOOD,
        }
    }
}

/// ORs the initiator's data into a range.
#[derive(Debug)]
pub struct OrWrite {
    rest: Extent,
    /// The part that is being read or written.
    part: Extent,
    begin: u64,
    fua: bool,
}

impl OrWrite {
    /// Creates the program. The initiator's data is as long as `range`.
    pub fn new(range: Extent, fua: bool) -> Self {
        Self {
            rest: range,
            part: range,
            begin: range.offset_bytes,
            fua,
        }
    }

    /// Returns the bytes to change, before the first step.
    pub(super) fn total_bytes(&self) -> u64 {
        self.rest.length_bytes
    }

    pub(super) fn step(&mut self, context: &mut StepContext<'_>, answer: Answer) -> Step {
        match answer {
            Answer::Read(mut read_data) => {
                let mask = &context.data[(self.part.offset_bytes - self.begin) as usize..];
                read_data.iter_mut().zip(mask).for_each(|(a, b)| *a |= b);
                let op = IoOp::Write {
                    offset_bytes: self.part.offset_bytes,
                    data: read_data,
                    fua: self.fua,
                };
                return Step::Access(context.lu, op);
            }
            Answer::Written(data) => context.buffers.give(data),
            _ => {}
        }
        match take_front(&mut self.rest, CHUNK_BYTES) {
            Some(part) => {
                self.part = part;
                Step::Access(context.lu, read(part))
            }
            None => Step::GOOD,
        }
    }
}
