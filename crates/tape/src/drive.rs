//! A tape drive: the requests of SSC-3 on the cartridge that is loaded.
//!
//! A request changes the position and the index at once. The bytes follow: the caller moves them
//! while it holds the [`Ticket`] of the transfer. [`Drive::settle`] takes back a write whose
//! bytes were lost, so that the index never names bytes that were not stored.

use crate::cartridge::Cartridge;
use crate::condition::Condition;
use crate::generation::Generation;
use crate::journal::Record;
use crate::ticket::Ticket;

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
    /// Whether its motions take time ([`crate::timing`]).
    pub timed: bool,
    cartridge: Option<Cartridge>,
    /// Whether the cartridge is loaded, not ejected.
    threaded: bool,
    /// Number of objects before the position.
    pub(crate) position: u64,
    /// The last transfer, and for a write the position before it.
    pub(crate) transfer: Option<(Ticket, Option<u64>)>,
    pub(crate) counters: Counters,
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
            timed: false,
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

    /// Returns the bytes of the region before the position: the place on the tape.
    #[must_use]
    pub fn place_bytes(&self) -> u64 {
        let cartridge = self.cartridge.as_ref();
        cartridge.map_or(0, |cartridge| cartridge.medium.offset_bytes(self.position))
    }

    /// Keeps the drive busy until the ticket is dropped: its tape moves.
    pub fn hold(&mut self) -> Ticket {
        let ticket = Ticket::default();
        self.transfer = Some((ticket.clone(), None));
        ticket
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
            || self.cartridge.as_ref().is_some_and(Cartridge::is_busy)
    }

    /// Ends the last transfer. If it was a write whose bytes were lost, the position and the end
    /// of data are those before it. If a record of the index was lost, they are those of the last
    /// one. To be called before each request, while the drive is not busy.
    pub fn settle(&mut self) {
        let transfer = self.transfer.take();
        let Some(cartridge) = &mut self.cartridge else {
            return;
        };
        if let Some((ticket, Some(position))) = transfer
            && !ticket.is_done()
        {
            self.position = position;
            cartridge.truncate(position);
        }
        if let Some(end) = cartridge.settle() {
            self.position = self.position.min(end);
        }
    }

    /// Returns the record that makes everything written durable. `None` if everything is, or if
    /// the cartridge is not on a store that survives the process. The caller writes it before the
    /// command ends.
    #[must_use]
    pub fn synchronise(&mut self) -> Option<Record> {
        self.cartridge.as_mut()?.synchronise()
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

    pub(crate) fn loaded_mut(&mut self) -> Result<&mut Cartridge, Condition> {
        let cartridge = self.cartridge.as_mut().filter(|_| self.threaded);
        cartridge.ok_or(Condition::NoMedium)
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
        cartridge.truncate(position);
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
        self.loaded_mut()?.truncate(position);
        Ok(())
    }
}
