//! A tape drive: the requests of SSC-3 on the cartridge that is loaded.
//!
//! A request changes the position and the index at once. The bytes follow: the caller moves them
//! while it holds the [`Ticket`] of the [`Transfer`]. [`Drive::settle`] takes back a write whose
//! bytes were lost, so that the index never names bytes that were not stored.

use crate::cartridge::Cartridge;
use crate::condition::Condition;
use crate::generation::Generation;
use crate::medium::{Object, Piece, stride};
use crate::ticket::Ticket;

/// Longest block and longest transfer, bytes: the largest TRANSFER LENGTH of READ(6) with variable
/// blocks.
pub const BLOCK_BYTES_MAX: u32 = (1 << 24) - 1;

/// Longest transfer in the region, bytes. Blocks shorter than 256 bytes reach it before they reach
/// [`BLOCK_BYTES_MAX`], because each occupies [`GRANULE_BYTES`].
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
}

/// Totals of a drive since it was created.
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
}

/// A tape drive.
#[derive(Debug)]
pub struct Drive {
    /// Generation, which determines density and name.
    pub generation: Generation,
    /// BLOCK LENGTH of the mode data, bytes: of fixed blocks; 0 means variable blocks only.
    pub block_bytes: u32,
    /// DCE of the data compression page.
    pub compression: bool,
    /// BUFFERED MODE of the mode data.
    pub buffered: bool,
    cartridge: Option<Cartridge>,
    /// Whether the cartridge is loaded, not ejected.
    threaded: bool,
    /// Number of objects before the position.
    position: u64,
    /// The last transfer, and for a write the position before it.
    transfer: Option<(Ticket, Option<u64>)>,
    counters: Counters,
}

impl Drive {
    /// Creates an empty drive.
    #[must_use]
    pub fn new(generation: Generation) -> Drive {
        Drive {
            generation,
            block_bytes: 0,
            compression: true,
            buffered: true,
            cartridge: None,
            threaded: false,
            position: 0,
            transfer: None,
            counters: Counters::default(),
        }
    }

    /// Returns the cartridge in the drive, loaded or ejected.
    #[must_use]
    pub fn cartridge(&self) -> Option<&Cartridge> {
        self.cartridge.as_ref()
    }

    /// Returns the loaded cartridge.
    ///
    /// # Errors
    /// [`Condition::NoMedium`].
    pub fn loaded(&self) -> Result<&Cartridge, Condition> {
        let cartridge = self.cartridge.as_ref().filter(|_| self.threaded);
        cartridge.ok_or(Condition::NoMedium)
    }

    /// Returns the number of objects before the position.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the totals.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Puts a cartridge into an empty drive and loads it.
    ///
    /// # Panics
    /// If the drive has a cartridge.
    pub fn insert(&mut self, cartridge: Cartridge) {
        assert!(self.cartridge.is_none(), "a drive holds one cartridge");
        self.cartridge = Some(cartridge);
        self.thread();
    }

    /// Ejects and removes the cartridge.
    pub fn remove(&mut self) -> Option<Cartridge> {
        self.threaded = false;
        self.transfer = None;
        self.cartridge.take()
    }

    fn thread(&mut self) {
        self.threaded = true;
        self.position = 0;
        self.counters.loads += 1;
        if let Some(cartridge) = &mut self.cartridge {
            cartridge.loads += 1;
        }
    }

    /// Executes LOAD UNLOAD. Returns whether a cartridge was loaded that was not loaded before.
    ///
    /// # Errors
    /// [`Condition::NoMedium`]: the drive has no cartridge to load.
    pub fn load_or_unload(&mut self, load: bool) -> Result<bool, Condition> {
        if !load {
            self.threaded = false;
            return Ok(false);
        }
        if self.cartridge.is_none() {
            return Err(Condition::NoMedium);
        }
        let before = self.threaded;
        self.thread();
        Ok(!before)
    }

    /// Resets the settings of MODE SELECT. Cartridge and position stay.
    pub fn reset(&mut self) {
        let Drive {
            block_bytes,
            compression,
            buffered,
            ..
        } = Drive::new(self.generation);
        (self.block_bytes, self.compression, self.buffered) = (block_bytes, compression, buffered);
    }

    /// Whether a command still moves bytes, so that the drive takes no other command.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let transfer = self.transfer.as_ref();
        transfer.is_some_and(|(ticket, _)| ticket.is_held())
    }

    /// Ends the last transfer. If it was a write whose bytes were lost, the position and the end
    /// of data are those before it. To be called before each request, while the drive is not busy.
    pub fn settle(&mut self) {
        let Some((ticket, written_from)) = self.transfer.take() else {
            return;
        };
        if let (false, Some(position)) = (ticket.is_done(), written_from) {
            self.position = position;
            if let Some(cartridge) = &mut self.cartridge {
                cartridge.medium.truncate(position);
            }
        }
    }

    fn transfer(
        &mut self,
        pieces: Vec<Piece>,
        bytes: u64,
        end: Option<Condition>,
        written_from: Option<u64>,
    ) -> Transfer {
        let ticket = Ticket::default();
        self.transfer = Some((ticket.clone(), written_from));
        Transfer {
            pieces,
            bytes: u32::try_from(bytes).expect("a transfer has at most BLOCK_BYTES_MAX bytes"),
            end,
            ticket,
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
        if bytes_max == 0 {
            return Ok(self.transfer(Vec::new(), 0, None, None));
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
        Ok(self.transfer(pieces, whole.min(bytes_max.into()), end, None))
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

    /// Checks that the loaded cartridge may be written.
    ///
    /// # Errors
    /// [`Condition::NoMedium`], [`Condition::WriteProtected`].
    pub fn writable(&self) -> Result<(), Condition> {
        if self.loaded()?.write_protected {
            return Err(Condition::WriteProtected);
        }
        Ok(())
    }

    fn loaded_mut(&mut self) -> Result<&mut Cartridge, Condition> {
        let cartridge = self.cartridge.as_mut().filter(|_| self.threaded);
        cartridge.ok_or(Condition::NoMedium)
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
        if bytes == 0 {
            return Ok(self.transfer(Vec::new(), 0, None, None));
        }
        let (position, block_bytes) =
            (self.position, if fixed { self.block_bytes } else { length });
        let blocks = if fixed { length } else { 1 };
        let cartridge = self.loaded_mut()?;
        cartridge.medium.truncate(position);
        let fitting = if cartridge.medium.takes_blocks(block_bytes) {
            (cartridge.left_bytes() / stride(block_bytes)).min(blocks.into()) as u32
        } else {
            0
        };
        let mut pieces = Vec::new();
        if fitting > 0 {
            pieces.push(cartridge.medium.append_blocks(block_bytes, fitting));
        }
        let end = if fitting < blocks {
            let undone = if fixed { blocks - fitting } else { length };
            Some(Condition::Overflow {
                undone: undone.into(),
            })
        } else {
            let warned = cartridge.is_past_early_warning();
            warned.then_some(Condition::EarlyWarning)
        };
        let written = u64::from(fitting) * u64::from(block_bytes);
        self.position += u64::from(fitting);
        self.counters.written_blocks += u64::from(fitting);
        self.counters.written_bytes += written;
        Ok(self.transfer(pieces, written, end, Some(position)))
    }

    /// Executes WRITE FILEMARKS. Returns [`Condition::EarlyWarning`] if they were written past
    /// early warning.
    ///
    /// # Errors
    /// As [`Self::writable`], unless `count` is 0; [`Condition::Overflow`] if the index is full
    /// ([`crate::RUNS_MAX`]).
    pub fn write_filemarks(&mut self, count: u32) -> Result<Option<Condition>, Condition> {
        if count == 0 {
            return self.loaded().map(|_| None);
        }
        self.writable()?;
        let position = self.position;
        let cartridge = self.loaded_mut()?;
        cartridge.medium.truncate(position);
        if !cartridge.medium.takes_filemarks() {
            let undone = count.into();
            return Err(Condition::Overflow { undone });
        }
        cartridge.medium.append_filemarks(count.into());
        let warned = cartridge.is_past_early_warning();
        self.position += u64::from(count);
        self.counters.written_filemarks += u64::from(count);
        Ok(warned.then_some(Condition::EarlyWarning))
    }

    /// Executes ERASE: everything after the position is lost.
    ///
    /// # Errors
    /// As [`Self::writable`].
    pub fn erase(&mut self) -> Result<(), Condition> {
        self.writable()?;
        let position = self.position;
        self.loaded_mut()?.medium.truncate(position);
        Ok(())
    }

    /// Executes REWIND.
    ///
    /// # Errors
    /// [`Condition::NoMedium`].
    pub fn rewind(&mut self) -> Result<(), Condition> {
        self.loaded()?;
        self.position = 0;
        Ok(())
    }

    /// Executes SPACE over blocks, backward if `count` is negative.
    ///
    /// # Errors
    /// [`Condition::NoMedium`], or the filemark or end at which it has stopped: after a filemark
    /// forward, before it backward.
    pub fn space_blocks(&mut self, count: i64) -> Result<(), Condition> {
        let medium = &self.loaded()?.medium;
        let (mut position, mut undone) = (self.position, count.unsigned_abs());
        let forward = count > 0;
        while undone > 0 {
            let (passed, stop) = if forward {
                match medium.after(position) {
                    Object::Blocks { count, .. } => (count.min(undone), None),
                    Object::Filemarks { .. } => (1, Some(Condition::Filemark { undone })),
                    Object::EndOfData => {
                        let undone = Some(undone);
                        (0, Some(Condition::EndOfData { undone }))
                    }
                }
            } else {
                match medium.before(position) {
                    Some((count, false)) => (count.min(undone), None),
                    Some((_, true)) => (1, Some(Condition::Filemark { undone })),
                    None => (0, Some(Condition::Beginning { undone })),
                }
            };
            position = if forward {
                position + passed
            } else {
                position - passed
            };
            if let Some(stop) = stop {
                self.position = position;
                return Err(stop);
            }
            undone -= passed;
        }
        self.position = position;
        Ok(())
    }

    /// Executes SPACE over filemarks, backward if `count` is negative: the position is after the
    /// last one forward, before it backward.
    ///
    /// # Errors
    /// [`Condition::NoMedium`], or the end at which it has stopped.
    pub fn space_filemarks(&mut self, count: i64) -> Result<(), Condition> {
        let medium = &self.loaded()?.medium;
        let before = medium.marks_before(self.position);
        let wanted = count.unsigned_abs();
        let (position, stop) = if count > 0 {
            let found = before
                .checked_add(wanted - 1)
                .and_then(|mark| medium.mark(mark));
            match found {
                Some(position) => (position + 1, None),
                None => {
                    let undone = Some(wanted - (medium.filemarks() - before));
                    (medium.end(), Some(Condition::EndOfData { undone }))
                }
            }
        } else if count == 0 {
            (self.position, None)
        } else {
            match before
                .checked_sub(wanted)
                .and_then(|mark| medium.mark(mark))
            {
                Some(position) => (position, None),
                None => {
                    let undone = wanted - before;
                    (0, Some(Condition::Beginning { undone }))
                }
            }
        };
        self.position = position;
        stop.map_or(Ok(()), Err)
    }

    /// Executes SPACE to the end of data.
    ///
    /// # Errors
    /// [`Condition::NoMedium`].
    pub fn space_to_end(&mut self) -> Result<(), Condition> {
        self.position = self.loaded()?.medium.end();
        Ok(())
    }

    /// Executes LOCATE of an object.
    ///
    /// # Errors
    /// [`Condition::NoMedium`]; [`Condition::EndOfData`] if there is no such object, with the
    /// position at the end of data.
    pub fn locate(&mut self, object: u64) -> Result<(), Condition> {
        let end = self.loaded()?.medium.end();
        self.position = object.min(end);
        if object > end {
            return Err(Condition::EndOfData { undone: None });
        }
        Ok(())
    }

    /// Executes LOCATE of a file: the position is after `file` filemarks.
    ///
    /// # Errors
    /// As [`Self::locate`].
    pub fn locate_file(&mut self, file: u64) -> Result<(), Condition> {
        let medium = &self.loaded()?.medium;
        let mark = file.checked_sub(1).map(|mark| medium.mark(mark));
        let (position, found) = match mark {
            None => (0, true),
            Some(Some(position)) => (position + 1, true),
            Some(None) => (medium.end(), false),
        };
        self.position = position;
        if found {
            return Ok(());
        }
        Err(Condition::EndOfData { undone: None })
    }
}
