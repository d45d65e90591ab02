//! READ and WRITE.

use crate::condition::Condition;
use crate::counters::Counters;
use crate::drive::{Drive, Purpose};
use crate::journal::Record;
use crate::medium::{BLOCK_BYTES_MAX, Object, Piece, stride};
use crate::ticket::Ticket;

/// Longest transfer in the region, bytes. Blocks shorter than 256 bytes reach it before they reach
/// [`BLOCK_BYTES_MAX`], because each occupies [`crate::GRANULE_BYTES`].
const REGION_BYTES_MAX: u64 = 2 * BLOCK_BYTES_MAX as u64;

/// Byte of TRANSFER LENGTH in the CDB.
const TRANSFER_LENGTH: u16 = 2;

/// Bytes to move, and the end of the command that moves them.
#[derive(Debug)]
pub struct Transfer {
    /// Places on the cartridge's region, in order.
    pub pieces: Vec<Piece>,
    /// Bytes of the blocks together. Less than the sum of the pieces if the last block of a read
    /// is longer than requested.
    pub bytes: u32,
    /// The condition with which the command ends after the bytes were moved; `None` for GOOD.
    pub end: Option<Condition>,
    /// To be held until the bytes are moved.
    pub ticket: Ticket,
    /// Record that must be durable before the bytes are written.
    pub before: Option<Record>,
    /// Record that must be durable after the bytes were written: the drive does not buffer.
    pub after: Option<Record>,
}

impl Drive {
    fn transfer(
        &mut self,
        pieces: Vec<Piece>,
        bytes: u64,
        end: Option<Condition>,
        (purpose, counters): (Purpose, Counters),
    ) -> Transfer {
        let ticket = self.begin(purpose, counters);
        Transfer {
            pieces,
            bytes: u32::try_from(bytes).expect("a transfer has at most BLOCK_BYTES_MAX bytes"),
            end,
            ticket,
            before: None,
            after: None,
        }
    }

    /// Returns the bytes that READ or WRITE may move at most.
    ///
    /// # Errors
    /// FIXED is set although the block length is 0; more than [`BLOCK_BYTES_MAX`] bytes, or more
    /// than twice as many in the region, where short blocks are padded to 512 bytes.
    pub fn length_bytes(&self, fixed: bool, length: u32) -> Result<u32, Condition> {
        if !fixed {
            return Ok(length);
        }
        if self.block_bytes == 0 {
            return Err(Condition::InvalidField {
                byte: 1,
                bit: Some(0),
            });
        }
        let region_bytes = u64::from(length) * stride(self.block_bytes);
        let bytes = length.checked_mul(self.block_bytes);
        bytes
            .filter(|bytes| *bytes <= BLOCK_BYTES_MAX && region_bytes <= REGION_BYTES_MAX)
            .ok_or(Condition::InvalidField {
                byte: TRANSFER_LENGTH,
                bit: None,
            })
    }

    /// Executes READ: one block of at most `length` bytes, or with `fixed` `length` blocks.
    /// `suppress` is SILI.
    ///
    /// # Errors
    /// As [`Self::loaded`] and [`Self::length_bytes`]; FIXED and SILI are both set. Conditions at
    /// which the read stops are in [`Transfer::end`].
    pub fn read(
        &mut self,
        fixed: bool,
        suppress: bool,
        length: u32,
    ) -> Result<Transfer, Condition> {
        self.loaded()?;
        if fixed && suppress {
            return Err(Condition::InvalidField {
                byte: 1,
                bit: Some(1),
            });
        }
        let bytes_max = self.length_bytes(fixed, length)?;
        let begin = (Purpose::Read, self.counters);
        if bytes_max == 0 {
            return Ok(self.transfer(Vec::new(), 0, None, begin));
        }
        let (pieces, end) = if fixed {
            self.read_fixed(length)?
        } else {
            self.read_block(length, suppress)?
        };
        let whole: u64 = pieces
            .iter()
            .map(|piece| u64::from(piece.blocks) * u64::from(piece.block_bytes))
            .sum();
        self.counters.read_bytes += whole;
        self.counters.read_blocks += pieces
            .iter()
            .map(|piece| u64::from(piece.blocks))
            .sum::<u64>();
        Ok(self.transfer(pieces, whole.min(bytes_max.into()), end, begin))
    }

    /// Reads one block. A block is longer than requested without an error if SILI is set and the
    /// block length of the mode data is 0 (SSC-3 section 7.4).
    fn read_block(
        &mut self,
        length: u32,
        suppress: bool,
    ) -> Result<(Vec<Piece>, Option<Condition>), Condition> {
        let medium = &self.loaded()?.medium;
        match medium.after(self.position) {
            Object::EndOfData => {
                let undone = Some(length.into());
                Ok((Vec::new(), Some(Condition::EndOfData { undone })))
            }
            Object::Filemarks { .. } => {
                self.position += 1;
                let undone = length.into();
                Ok((Vec::new(), Some(Condition::Filemark { undone })))
            }
            Object::Blocks {
                block_bytes,
                offset_bytes,
                ..
            } => {
                self.position += 1;
                let difference = i64::from(length) - i64::from(block_bytes);
                let silent = suppress && (difference > 0 || self.block_bytes == 0);
                let end = (difference != 0 && !silent)
                    .then_some(Condition::IncorrectLength { difference });
                let piece = Piece {
                    offset_bytes,
                    blocks: 1,
                    block_bytes,
                };
                Ok((vec![piece], end))
            }
        }
    }

    /// Reads blocks of the length in the mode data, up to a filemark, the end of data or a block
    /// of another length, whose data is not read.
    fn read_fixed(&mut self, blocks: u32) -> Result<(Vec<Piece>, Option<Condition>), Condition> {
        let mut pieces = Vec::new();
        let mut left = blocks;
        while left > 0 {
            let undone = u64::from(left);
            let end = match self.loaded()?.medium.after(self.position) {
                Object::Blocks {
                    block_bytes,
                    offset_bytes,
                    count,
                } if block_bytes == self.block_bytes => {
                    let blocks = count.min(undone) as u32;
                    pieces.push(Piece {
                        offset_bytes,
                        blocks,
                        block_bytes,
                    });
                    self.position += u64::from(blocks);
                    left -= blocks;
                    continue;
                }
                Object::Blocks { .. } => {
                    self.position += 1;
                    Condition::IncorrectLength {
                        difference: left.into(),
                    }
                }
                Object::Filemarks { .. } => {
                    self.position += 1;
                    Condition::Filemark { undone }
                }
                Object::EndOfData => Condition::EndOfData {
                    undone: Some(undone),
                },
            };
            return Ok((pieces, Some(end)));
        }
        Ok((pieces, None))
    }

    /// Executes WRITE: one block of `length` bytes, or with `fixed` `length` blocks. Everything
    /// after the position is lost. Blocks that do not fit are not written, and none are if the
    /// index is full ([`crate::RUNS_MAX`]).
    ///
    /// # Errors
    /// As [`Self::writable`] and [`Self::length_bytes`].
    pub fn write(&mut self, fixed: bool, length: u32) -> Result<Transfer, Condition> {
        self.writable()?;
        let bytes = self.length_bytes(fixed, length)?;
        let from = self.position;
        let begin = (Purpose::Write { from }, self.counters);
        if bytes == 0 {
            return Ok(self.transfer(Vec::new(), 0, None, begin));
        }
        self.leave_zone();
        let (position, block_bytes) =
            (self.position, if fixed { self.block_bytes } else { length });
        let blocks = if fixed { length } else { 1 };
        let cartridge = self.loaded_mut()?;
        cartridge.truncate(position);
        let fitting = if cartridge.medium.takes_blocks(block_bytes) {
            (cartridge.left_bytes() / stride(block_bytes)).min(blocks.into()) as u32
        } else {
            0
        };
        let (mut pieces, mut before) = (Vec::new(), None);
        if fitting > 0 {
            before = cartridge.give_up();
            pieces.push(cartridge.medium.append_blocks(block_bytes, fitting));
        }
        let written = u64::from(fitting) * u64::from(block_bytes);
        self.position += u64::from(fitting);
        let end = if fitting < blocks {
            let undone = if fixed { blocks - fitting } else { length };
            Some(Condition::Overflow {
                undone: undone.into(),
            })
        } else {
            self.warning()
        };
        self.counters.written_blocks += u64::from(fitting);
        self.counters.written_bytes += written;
        let after = if self.buffered || fitting == 0 {
            None
        } else {
            self.synchronise()
        };
        let transfer = self.transfer(pieces, written, end, begin);
        Ok(Transfer {
            before,
            after,
            ..transfer
        })
    }
}
