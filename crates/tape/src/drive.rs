//! A tape drive: the requests of SSC-3 on the cartridge that is loaded.
//!
//! A request changes the position and the index at once. The bytes follow: the caller moves them
//! while it holds the [`Ticket`] of the transfer. [`Drive::settle`] takes back a write whose
//! bytes were lost, so that the index never names bytes that were not stored.

use crate::alerts::{Alert, Alerts};
use crate::attributes::HostAttributes;
use crate::cartridge::Cartridge;
use crate::condition::Condition;
use crate::counters::Counters;
use crate::generation::Generation;
use crate::journal::Record;
use crate::ratio::Ratio;
use crate::ticket::Ticket;

/// Number of drives that a cartridge remembers.
const DRIVES_MAX: usize = 4;

/// The bytes that a command moves, or the motion that it lets the tape make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Blocks are written from this position on.
    Write { from: u64 },
    /// Blocks are read.
    Read,
    /// The tape moves.
    Motion,
}

/// The last transfer.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) ticket: Ticket,
    pub(crate) purpose: Purpose,
    /// Totals without it.
    pub(crate) counters: Counters,
}

/// A motion that continues after the command that has begun it (IMMED).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continued {
    /// The tape is positioned, unloaded or erased.
    Positioning,
    /// The cartridge is loaded.
    Loading,
}

/// A tape drive.
#[derive(Debug)]
pub struct Drive {
    /// Generation, which determines its name, and the cartridges that it reads and writes.
    pub generation: Generation,
    /// BLOCK LENGTH of the mode data, bytes: of fixed blocks; 0 means variable blocks only.
    pub block_bytes: u32,
    /// DCE of the data compression page.
    pub compression: bool,
    /// BUFFERED MODE of the mode data.
    pub buffered: bool,
    /// PEWS of the mode data, 10^6 bytes: size of a zone before early warning of whose beginning a
    /// write warns once. 0: none.
    pub warning_megabytes: u16,
    /// Compression, which DCE does not change.
    pub ratio: Ratio,
    /// Whether its motions take time ([`crate::timing`]).
    pub timed: bool,
    /// Number in its library, from 0.
    pub number: u8,
    /// TapeAlert flags.
    pub alerts: Alerts,
    cartridge: Option<Cartridge>,
    /// Whether the cartridge is loaded, not ejected.
    threaded: bool,
    /// Number of objects before the position.
    pub(crate) position: u64,
    pub(crate) pending: Option<Pending>,
    pub(crate) counters: Counters,
    /// Totals when the cartridge was loaded.
    before_mount: Counters,
    /// Totals when an initiator has reset those of the log.
    before_log: Counters,
    /// Whether the zone before early warning was reported since it was entered.
    zone_reported: bool,
    continued: Option<Continued>,
    /// Whether objects of a cartridge were lost, and no command has reported it.
    lost: bool,
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
            warning_megabytes: 0,
            ratio: Ratio::ONE,
            timed: false,
            number: 0,
            alerts: Alerts::default(),
            cartridge: None,
            threaded: false,
            position: 0,
            pending: None,
            counters: Counters::default(),
            before_mount: Counters::default(),
            before_log: Counters::default(),
            zone_reported: false,
            continued: None,
            lost: false,
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
    /// [`Condition::NoMedium`], [`Condition::UnknownFormat`].
    pub fn loaded(&self) -> Result<&Cartridge, Condition> {
        let cartridge = self.cartridge.as_ref().filter(|_| self.threaded);
        let cartridge = cartridge.ok_or(Condition::NoMedium)?;
        let generation = cartridge.generation.unwrap_or(self.generation);
        if !self.generation.reads(generation) {
            return Err(Condition::UnknownFormat);
        }
        Ok(cartridge)
    }

    /// Returns the generation in whose format the drive reads and writes: that of the loaded
    /// cartridge, or its own without one.
    #[must_use]
    pub fn format(&self) -> Generation {
        let cartridge = self.loaded().ok();
        let generation = cartridge.and_then(|cartridge| cartridge.generation);
        generation.unwrap_or(self.generation)
    }

    /// Whether the drive has a cartridge that it has ejected.
    #[must_use]
    pub fn has_ejected(&self) -> bool {
        self.cartridge.is_some() && !self.threaded
    }

    /// Whether the drive has a cartridge that it cannot write, because of its tab or its format.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        let cartridge = self.cartridge.as_ref();
        cartridge.is_some_and(|cartridge| cartridge.write_protected)
            || !self.generation.writes(self.format())
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
        let counters = self.counters;
        self.begin(Purpose::Motion, counters)
    }

    /// Begins a transfer. `counters` are the totals without it.
    pub(crate) fn begin(&mut self, purpose: Purpose, counters: Counters) -> Ticket {
        let ticket = Ticket::default();
        self.pending = Some(Pending {
            ticket: ticket.clone(),
            purpose,
            counters,
        });
        ticket
    }

    /// Notes that the motion for which the drive is held continues after its command.
    pub fn continue_as(&mut self, motion: Continued) {
        self.continued = Some(motion);
    }

    /// Returns the motion that keeps the drive busy after the command that has begun it.
    #[must_use]
    pub fn continued(&self) -> Option<Continued> {
        self.continued.filter(|_| self.is_busy())
    }

    /// Returns the totals.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the totals since [`Self::reset_log`].
    #[must_use]
    pub fn logged(&self) -> Counters {
        self.counters.since(self.before_log)
    }

    /// Lets the totals of the log begin at 0.
    pub fn reset_log(&mut self) {
        self.before_log = self.counters;
    }

    /// Returns the totals since the cartridge was loaded. After its removal, they are 0.
    #[must_use]
    pub fn mount(&self) -> Counters {
        self.counters.since(self.before_mount)
    }

    /// Returns the totals of the life of the cartridge in the drive, in this drive and in others.
    /// `None`: there is no cartridge, or its earlier life is unknown.
    #[must_use]
    pub fn life(&self) -> Option<Counters> {
        Some(self.cartridge()?.life?.plus(self.mount()))
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
        self.end_mount();
        self.alerts.clear();
        self.threaded = false;
        self.pending = None;
        self.cartridge.take()
    }

    /// Loads the cartridge. One of a format that the drive does not read is not mounted.
    fn thread(&mut self) {
        self.end_mount();
        self.zone_reported = false;
        self.threaded = true;
        self.position = 0;
        if self.loaded().is_err() {
            self.alerts.raise(Alert::UnsupportedFormat);
            return;
        }
        if !self.generation.writes(self.format()) {
            self.alerts.raise(Alert::ReadOnlyFormat);
        }
        self.counters.loads += 1;
        self.before_mount = self.counters;
        if let Some(cartridge) = &mut self.cartridge {
            cartridge.loads += 1;
            cartridge.drives.insert(0, self.number);
            cartridge.drives.truncate(DRIVES_MAX);
        }
    }

    /// Adds the totals since the last load to the life of the cartridge.
    fn end_mount(&mut self) {
        let mount = self.mount();
        if let Some(cartridge) = &mut self.cartridge {
            cartridge.life = cartridge.life.map(|life| life.plus(mount));
        }
        self.before_mount = self.counters;
    }

    /// Executes LOAD UNLOAD. Returns whether a cartridge was loaded that was not loaded before.
    ///
    /// # Errors
    /// [`Condition::NoMedium`]: the drive has no cartridge to load. [`Condition::UnknownFormat`].
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
        self.loaded()?;
        Ok(!before)
    }

    /// Resets the settings of MODE SELECT. Cartridge and position stay.
    pub fn reset(&mut self) {
        let Drive {
            block_bytes,
            compression,
            buffered,
            warning_megabytes,
            ..
        } = Drive::new(self.generation);
        (self.block_bytes, self.compression, self.buffered) = (block_bytes, compression, buffered);
        self.warning_megabytes = warning_megabytes;
    }

    /// Whether a command still moves bytes, so that the drive takes no other command.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.ticket.is_held())
            || self.cartridge.as_ref().is_some_and(Cartridge::is_busy)
    }

    /// Ends the last transfer. If it was a write whose bytes were not moved, the position and the
    /// end of data are those before it. If the store has refused a record of the index, they are
    /// those of the last one. To be called before each request, while the drive is not busy.
    pub fn settle(&mut self) {
        self.continued = None;
        let lost = self.pending.take().filter(|last| !last.ticket.is_done());
        if let Some(lost) = lost {
            self.take_back(&lost);
        }
        let Some(cartridge) = &mut self.cartridge else {
            return;
        };
        let refused = cartridge.settle();
        self.lost |= std::mem::take(&mut cartridge.lost);
        if let Some(lost) = refused {
            self.position = lost.end.map_or(self.position, |end| self.position.min(end));
            self.count_write_error();
        }
    }

    /// Whether objects were lost that a command had written with GOOD, and no command has reported
    /// it. The caller reports it now. To be called after [`Self::settle`].
    #[must_use]
    pub fn take_loss(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    fn take_back(&mut self, lost: &Pending) {
        match lost.purpose {
            Purpose::Motion => return,
            Purpose::Read => {}
            Purpose::Write { from } => {
                self.position = from;
                if let Some(cartridge) = &mut self.cartridge {
                    cartridge.truncate(from);
                }
            }
        }
        self.counters = lost.counters;
        if !lost.ticket.has_failed() {
            return;
        }
        if lost.purpose == Purpose::Read {
            self.count_read_error();
        } else {
            self.count_write_error();
        }
    }

    fn count_write_error(&mut self) {
        self.counters.write_errors += 1;
        self.alerts.raise(Alert::HardError);
        self.alerts.raise(Alert::WriteFailure);
    }

    fn count_read_error(&mut self) {
        self.counters.read_errors += 1;
        self.alerts.raise(Alert::HardError);
        self.alerts.raise(Alert::ReadFailure);
    }

    /// Returns the record that makes everything written durable. `None` if everything is, or if
    /// the cartridge is not on a store that survives the process. The caller writes it before the
    /// command ends.
    #[must_use]
    pub fn synchronise(&mut self) -> Option<Record> {
        self.cartridge.as_mut()?.synchronise()
    }

    /// Checks that the loaded cartridge may be written. If it is write-protected, sets the
    /// TapeAlert flag for that.
    ///
    /// # Errors
    /// As [`Self::loaded`]; [`Condition::WriteProtected`], [`Condition::ReadOnlyFormat`].
    pub fn writable(&mut self) -> Result<(), Condition> {
        if self.loaded()?.write_protected {
            self.alerts.raise(Alert::WriteProtect);
            return Err(Condition::WriteProtected);
        }
        if !self.generation.writes(self.format()) {
            return Err(Condition::ReadOnlyFormat);
        }
        Ok(())
    }

    /// Replaces the host attributes in the memory of the loaded cartridge. Returns the record that
    /// makes them durable, as [`Cartridge::write_attributes`].
    ///
    /// # Errors
    /// As [`Self::writable`].
    pub fn write_attributes(
        &mut self,
        attributes: HostAttributes,
    ) -> Result<Option<Record>, Condition> {
        self.writable()?;
        Ok(self.loaded_mut()?.write_attributes(attributes))
    }

    pub(crate) fn loaded_mut(&mut self) -> Result<&mut Cartridge, Condition> {
        self.loaded()?;
        self.cartridge.as_mut().ok_or(Condition::NoMedium)
    }

    /// Executes WRITE FILEMARKS. Returns [`Condition::EarlyWarning`] if they were written past
    /// early warning, or [`Condition::ProgrammableWarning`].
    ///
    /// # Errors
    /// As [`Self::writable`], unless `count` is 0; [`Condition::Overflow`] if the index is full
    /// ([`crate::RUNS_MAX`]).
    pub fn write_filemarks(&mut self, count: u32) -> Result<Option<Condition>, Condition> {
        if count == 0 {
            return self.loaded().map(|_| None);
        }
        self.writable()?;
        self.leave_zone();
        let position = self.position;
        let cartridge = self.loaded_mut()?;
        cartridge.truncate(position);
        if !cartridge.medium.takes_filemarks() {
            let undone = count.into();
            return Err(Condition::Overflow { undone });
        }
        cartridge.medium.append_filemarks(count.into());
        self.position += u64::from(count);
        self.counters.written_filemarks += u64::from(count);
        Ok(self.warning())
    }

    /// Whether the position is in the zone before early warning, or behind it.
    fn is_in_zone(&self) -> bool {
        let zone_bytes = u64::from(self.warning_megabytes) * 1_000_000;
        let zone_bytes = self.ratio.taken_bytes(zone_bytes);
        self.loaded().is_ok_and(|cartridge| {
            let left = cartridge.region.length_bytes - self.place_bytes();
            left <= cartridge.region.early_warning_bytes + zone_bytes
        })
    }

    /// Notes before a write that the position has left the zone before early warning.
    pub(crate) fn leave_zone(&mut self) {
        self.zone_reported &= self.is_in_zone();
    }

    /// Returns the warning with which a write ends: of the zone before early warning, once after it
    /// was entered, otherwise of early warning.
    pub(crate) fn warning(&mut self) -> Option<Condition> {
        let past = self.loaded().is_ok_and(Cartridge::is_past_early_warning);
        if self.warning_megabytes > 0 && (past || self.is_in_zone()) && !self.zone_reported {
            self.zone_reported = true;
            return Some(Condition::ProgrammableWarning);
        }
        past.then_some(Condition::EarlyWarning)
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
