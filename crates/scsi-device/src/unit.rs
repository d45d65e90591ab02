//! Logical units: their configuration and their state.

use hakaru_wire::scsi::Lun;
use hakaru_wire::scsi::Sense;

use crate::config::{DeviceKind, LuDescription, Space};
use crate::identifying::IdentifyingInformation;
use crate::nexus::Nexus;
use crate::reservations::Reservations;
use crate::tape::Tape;
use crate::verdict::SenseFormat;
use hakaru_send_queue::Key;
use hakaru_tape::Record;

/// A logical unit.
#[derive(Debug)]
pub struct LogicalUnit {
    /// The configuration.
    pub description: LuDescription,
    /// Logical block length, bytes.
    pub block_bytes: u32,
    /// Number of logical blocks.
    pub blocks: u64,
    /// Whether reads may be answered from the memory of the LU.
    pub in_place: bool,
    /// Permanent identity of the LU. It is derived from the target's name and the LUN, so it is the
    /// same after a restart.
    pub identity: u64,
    /// Whether START STOP UNIT has stopped the LU.
    pub stopped: bool,
    /// Whether START STOP UNIT has ejected the medium.
    pub ejected: bool,
    /// Nexuses that prevent the removal of the medium.
    pub preventing: Vec<Nexus>,
    /// Settings of MODE SELECT.
    pub mode: ModeState,
    pub(crate) reservations: Reservations,
    pub(crate) identifying: IdentifyingInformation,
    /// The space that the storage has reported last.
    pub space: Option<Space>,
    /// The SANITIZE operation in progress, if any.
    pub operation: Option<Operation>,
    /// Whether the last SANITIZE has failed and no command has ended that state yet.
    pub sanitize_failed: bool,
}

/// Settings that initiators change with MODE SELECT. They do not survive a restart or a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeState {
    /// SWP.
    pub write_protect: bool,
    /// D_SENSE.
    pub descriptor_sense: bool,
    /// WCE.
    pub write_cache: bool,
}

impl ModeState {
    pub fn new(description: &LuDescription) -> Self {
        Self {
            write_protect: false,
            descriptor_sense: false,
            write_cache: description.write_cache,
        }
    }
}

impl LogicalUnit {
    fn new(target_name: &str, description: LuDescription) -> Self {
        let record = description.reservations.as_deref().unwrap_or(&[]);
        let reservations = Reservations::from_record(record);
        Self {
            block_bytes: description.block_bytes,
            blocks: description.blocks(),
            in_place: description.in_place,
            identity: identity(target_name, description.lun),
            stopped: false,
            ejected: false,
            preventing: Vec::new(),
            mode: ModeState::new(&description),
            reservations: reservations.expect("the shell has checked the record of reservations"),
            identifying: IdentifyingInformation::default(),
            space: None,
            operation: None,
            sanitize_failed: false,
            description,
        }
    }

    /// Changes the size of the LU.
    ///
    /// # Panics
    /// If the size is not a positive multiple of the block length.
    pub fn resize(&mut self, size_bytes: u64) {
        self.description.size_bytes = size_bytes;
        check_size(&self.description);
        self.blocks = self.description.blocks();
    }

    /// Handles the result of storing the reservations. If they are not on stable storage (`done` is
    /// false), the previous reservations are restored.
    pub fn end_keeping(&mut self, done: bool) {
        self.reservations.end_keeping(done);
    }

    /// Checks that the medium can be accessed.
    pub fn ready(&self) -> Result<(), Sense> {
        if self.ejected {
            Err(Sense::MEDIUM_NOT_PRESENT)
        } else if self.stopped {
            Err(Sense::INITIALIZING_COMMAND_REQUIRED)
        } else {
            Ok(())
        }
    }

    /// Checks that the medium can be written.
    pub fn writable(&self) -> Result<(), Sense> {
        if self.description.read_only {
            Err(Sense::WRITE_PROTECTED)
        } else if self.mode.write_protect {
            Err(Sense::LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED)
        } else {
            Ok(())
        }
    }

    /// Whether a write bypasses the cache: on request (FUA), or because the cache was switched off.
    pub fn writes_through(&self, fua: bool) -> bool {
        fua || self.description.write_cache && !self.mode.write_cache
    }

    fn reset(&mut self) {
        self.stopped = false;
        self.preventing.clear();
        self.mode = ModeState::new(&self.description);
        self.reservations.reset();
    }

    /// Handles the loss of an I_T nexus.
    pub fn lose(&mut self, nexus: &Nexus) {
        self.preventing.retain(|preventing| preventing != nexus);
        self.reservations.lose(nexus);
    }
}

/// An operation during which the LU refuses commands (SANITIZE).
#[derive(Clone, Copy, Debug, Default)]
pub struct Operation {
    /// Progress in units of 1/65 536.
    progress: u16,
    /// The command that is answered at the end of the operation.
    waiting: Option<Key>,
}

impl LogicalUnit {
    /// Begins an operation. `waiting` is the command that is answered at its end.
    pub fn begin_operation(&mut self, waiting: Option<Key>) {
        self.operation = Some(Operation {
            progress: 0,
            waiting,
        });
    }

    /// Sets the progress of the operation, in units of 1/65 536.
    pub fn set_progress(&mut self, progress: u16) {
        if let Some(operation) = &mut self.operation {
            operation.progress = progress;
        }
    }

    /// Ends an operation, if one is in progress; `good` is true if it was successful. Returns the
    /// command that waits for it.
    pub fn end_operation(&mut self, good: bool) -> Option<Key> {
        let operation = self.operation.take()?;
        self.sanitize_failed = !good;
        operation.waiting
    }

    /// Returns the sense data that refuses commands while an operation is in progress or after it
    /// has failed.
    pub(super) fn occupied(&self) -> Option<Sense> {
        match self.operation {
            Some(operation) => Some(Sense::SANITIZE_IN_PROGRESS.with_progress(operation.progress)),
            None if self.sanitize_failed => Some(Sense::SANITIZE_COMMAND_FAILED),
            None => None,
        }
    }
}

/// All LUs, indexed by LUN.
#[derive(Debug)]
pub struct LogicalUnits {
    target_name: String,
    units: Vec<LogicalUnit>,
    /// Index into `units` by LUN, or [`NONE`].
    index_by_lun: [u16; 256],
    tape: Option<Tape>,
}

const NONE: u16 = u16::MAX;

impl LogicalUnits {
    /// Creates the LUs of these descriptions.
    ///
    /// # Panics
    /// If a LUN occurs twice, a block length is neither 512 nor 4096, a size is not a positive
    /// multiple of the block length, a record of reservations is invalid
    /// ([`crate::check_reservations`]), there are two tape libraries, or one is invalid
    /// ([`hakaru_tape::Library::new`]).
    pub fn new(target_name: &str, descriptions: &[LuDescription]) -> Self {
        let mut units = Self {
            target_name: target_name.to_owned(),
            units: Vec::with_capacity(descriptions.len()),
            index_by_lun: [NONE; 256],
            tape: None,
        };
        descriptions
            .iter()
            .for_each(|description| units.add(description.clone()));
        units
    }

    /// Adds an LU.
    ///
    /// # Panics
    /// In the cases in which [`Self::new`] panics.
    pub fn add(&mut self, description: LuDescription) {
        let lun = description.lun;
        assert!(
            matches!(description.block_bytes, 512 | 4096),
            "LU {lun} must have blocks of 512 or 4096 bytes"
        );
        check_size(&description);
        assert!(self.get(lun).is_none(), "LU {lun} already exists");
        let mut description = description;
        if let DeviceKind::Changer(library) = &mut description.kind {
            assert!(self.tape.is_none(), "an array has one tape library");
            self.tape = Some(Tape::new(lun, library));
            // The contents of the cartridges are now in the library, and need memory only once.
            for placed in &mut library.library.cartridges {
                placed.recovered = None;
            }
        }
        self.units
            .push(LogicalUnit::new(&self.target_name, description));
        self.index_units();
    }

    /// Removes an LU. Returns false if it does not exist.
    pub fn remove(&mut self, lun: u8) -> bool {
        let before = self.units.len();
        self.units.retain(|unit| unit.description.lun != lun);
        self.index_units();
        self.units.len() < before
    }

    /// Resets an LU, and the settings of the tape drive behind it. The caller ends its tasks. The
    /// medium stays loaded or ejected.
    pub fn reset(&mut self, lun: u8) {
        if let Some(unit) = self.get_mut(lun) {
            unit.reset();
        }
        if let Some(drive) = self.tape_mut().and_then(|tape| tape.drive_mut(lun)) {
            drive.reset();
        }
    }

    fn index_units(&mut self) {
        self.units.sort_by_key(|unit| unit.description.lun);
        self.index_by_lun = [NONE; 256];
        for (index, unit) in self.units.iter().enumerate() {
            self.index_by_lun[usize::from(unit.description.lun)] = index as u16;
        }
    }

    /// Handles the loss of an I_T nexus.
    pub fn lose(&mut self, nexus: &Nexus) {
        self.units.iter_mut().for_each(|unit| unit.lose(nexus));
    }

    /// Returns the format of sense data for a LUN.
    pub fn sense_format(&self, lun: Lun) -> SenseFormat {
        let number = lun.number().and_then(|number| u8::try_from(number).ok());
        match number.and_then(|number| self.get(number)) {
            Some(unit) if unit.mode.descriptor_sense => SenseFormat::Descriptor,
            _ => SenseFormat::Fixed,
        }
    }

    /// Returns the name of the SCSI device.
    pub fn target_name(&self) -> &str {
        &self.target_name
    }

    /// Returns the LU with this number.
    pub fn get(&self, lun: u8) -> Option<&LogicalUnit> {
        self.units
            .get(usize::from(self.index_by_lun[usize::from(lun)]))
    }

    /// Returns the LU with this number, mutably.
    pub fn get_mut(&mut self, lun: u8) -> Option<&mut LogicalUnit> {
        self.units
            .get_mut(usize::from(self.index_by_lun[usize::from(lun)]))
    }

    /// Returns the records that make everything that tape drives have written durable, and the LU
    /// on which they are to be written.
    pub fn synchronise_tapes(&mut self) -> Option<(u8, Vec<Record>)> {
        let tape = self.tape.as_mut()?;
        Some((tape.changer_lun, tape.library.synchronise()))
    }

    /// Returns the tape library.
    pub(crate) fn tape(&self) -> Option<&Tape> {
        self.tape.as_ref()
    }

    /// Returns the tape library, mutably.
    pub(crate) fn tape_mut(&mut self) -> Option<&mut Tape> {
        self.tape.as_mut()
    }

    /// Returns the numbers of all LUs, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u8> {
        self.units.iter().map(|unit| unit.description.lun)
    }
}

fn check_size(description: &LuDescription) {
    let block_bytes = u64::from(description.block_bytes);
    assert!(
        description.size_bytes.is_multiple_of(block_bytes) && description.size_bytes > 0,
        "the size of LU {} must be a positive multiple of its block length",
        description.lun
    );
}

/// Returns the FNV-1a hash of name and number.
fn identity(target_name: &str, lun: u8) -> u64 {
    target_name
        .bytes()
        .chain([0, lun])
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
