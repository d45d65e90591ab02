//! Logical units: their configuration and their state.

use hakaru_wire::scsi::Lun;
use hakaru_wire::scsi::Sense;

use crate::config::{LuDescription, Space};
use crate::nexus::Nexus;
use crate::reservations::Reservations;
use crate::verdict::SenseFormat;
use hakaru_send_queue::Key;

/// A logical unit.
#[derive(Debug)]
pub struct LogicalUnit {
    /// The configuration.
    pub description: LuDescription,
    /// Logical block length, bytes.
    pub block_bytes: u32,
    /// Number of logical blocks.
    pub blocks: u64,
    /// Reads may be answered from the memory of the LU.
    pub in_place: bool,
    /// Names the LU for good: made of the target's name and the LUN, so that it is the same after a
    /// restart.
    pub identity: u64,
    /// START STOP UNIT stopped it.
    pub stopped: bool,
    /// START STOP UNIT ejected its medium.
    pub ejected: bool,
    /// Nexuses that prevent the removal of the medium.
    pub preventing: Vec<Nexus>,
    /// Settings of MODE SELECT.
    pub mode: ModeState,
    pub(crate) reservations: Reservations,
    /// The space that the storage reported last.
    pub space: Option<Space>,
    /// SANITIZE is under way.
    pub operation: Option<Operation>,
    /// The last SANITIZE has failed, and nothing ended that state yet.
    pub sanitize_failed: bool,
}

/// Settings that initiators change by MODE SELECT. It is not kept over a restart, and a reset
/// undoes it.
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
        let kept = description.reservations.as_deref().unwrap_or(&[]);
        let reservations = Reservations::from_record(kept);
        Self {
            block_bytes: description.block_bytes,
            blocks: description.blocks(),
            in_place: description.in_place,
            identity: identity(target_name, description.lun),
            stopped: false,
            ejected: false,
            preventing: Vec::new(),
            mode: ModeState::new(&description),
            reservations: reservations.expect("the shell has checked what was kept"),
            space: None,
            operation: None,
            sanitize_failed: false,
            description,
        }
    }

    /// # Panics
    /// If the size is no whole, positive number of blocks.
    pub fn resize(&mut self, size_bytes: u64) {
        self.description.size_bytes = size_bytes;
        check_size(&self.description);
        self.blocks = self.description.blocks();
    }

    /// The record of the reservations that was asked for is on stable storage, or could not be put
    /// there: then nothing has changed.
    pub fn end_keeping(&mut self, done: bool) {
        self.reservations.kept(done);
    }

    /// Whether the medium can be accessed.
    pub fn ready(&self) -> Result<(), Sense> {
        if self.ejected {
            Err(Sense::MEDIUM_NOT_PRESENT)
        } else if self.stopped {
            Err(Sense::INITIALIZING_COMMAND_REQUIRED)
        } else {
            Ok(())
        }
    }

    /// Whether the medium can be written.
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

    /// Resets the LU, besides the end of its tasks. The medium stays where it is.
    pub fn reset(&mut self) {
        self.stopped = false;
        self.preventing.clear();
        self.mode = ModeState::new(&self.description);
        self.reservations.reset();
    }

    /// An I_T nexus is lost.
    pub fn lose(&mut self, nexus: &Nexus) {
        self.preventing.retain(|one| one != nexus);
        self.reservations.lose(nexus);
    }
}

/// An operation that keeps an LU from its commands until it ends (SANITIZE).
#[derive(Clone, Copy, Debug, Default)]
pub struct Operation {
    /// Progress, of 65 536.
    progress: u16,
    /// The command that is answered at its end.
    waiting: Option<Key>,
}

impl LogicalUnit {
    /// An operation begins; `waiting` is the command that is answered at its end.
    pub fn begin_operation(&mut self, waiting: Option<Key>) {
        self.operation = Some(Operation {
            progress: 0,
            waiting,
        });
    }

    /// Progress of the operation, of 65 536.
    pub fn set_progress(&mut self, progress: u16) {
        if let Some(operation) = &mut self.operation {
            operation.progress = progress;
        }
    }

    /// Ends the operation. Returns the command that waits for it.
    pub fn end_operation(&mut self, good: bool) -> Option<Key> {
        self.sanitize_failed = !good;
        self.operation
            .take()
            .and_then(|operation| operation.waiting)
    }

    /// The sense data that refuses commands while an operation is under way, or after it has
    /// failed.
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
    /// LUN → index into `units`.
    places: [u16; 256],
}

const NONE: u16 = u16::MAX;

impl LogicalUnits {
    /// # Panics
    /// If a LUN occurs twice, a block length is neither 512 nor 4096, a size is no whole, positive
    /// number of blocks, or what was kept of reservations is none ([`crate::check_reservations`]).
    pub fn new(target_name: &str, descriptions: &[LuDescription]) -> Self {
        let mut units = Self {
            target_name: target_name.to_owned(),
            units: Vec::with_capacity(descriptions.len()),
            places: [NONE; 256],
        };
        descriptions
            .iter()
            .for_each(|description| units.add(description.clone()));
        units
    }

    /// # Panics
    /// As [`Self::new`].
    pub fn add(&mut self, description: LuDescription) {
        let lun = description.lun;
        assert!(
            matches!(description.block_bytes, 512 | 4096),
            "LU {lun}: blocks of 512 or 4096 bytes"
        );
        check_size(&description);
        assert!(self.get(lun).is_none(), "LU {lun} is there twice");
        self.units
            .push(LogicalUnit::new(&self.target_name, description));
        self.order();
    }

    /// False: there is none of this number.
    pub fn remove(&mut self, lun: u8) -> bool {
        let before = self.units.len();
        self.units.retain(|unit| unit.description.lun != lun);
        self.order();
        self.units.len() < before
    }

    fn order(&mut self) {
        self.units.sort_by_key(|unit| unit.description.lun);
        self.places = [NONE; 256];
        for (place, unit) in self.units.iter().enumerate() {
            self.places[usize::from(unit.description.lun)] = place as u16;
        }
    }

    /// An I_T nexus is lost.
    pub fn lose(&mut self, nexus: &Nexus) {
        self.units.iter_mut().for_each(|unit| unit.lose(nexus));
    }

    /// How sense data is worded for a LUN.
    pub fn sense_format(&self, lun: Lun) -> SenseFormat {
        let number = lun.number().and_then(|number| u8::try_from(number).ok());
        match number.and_then(|number| self.get(number)) {
            Some(unit) if unit.mode.descriptor_sense => SenseFormat::Descriptor,
            _ => SenseFormat::Fixed,
        }
    }

    /// Name of the SCSI device.
    pub fn target_name(&self) -> &str {
        &self.target_name
    }

    /// The LU of a number.
    pub fn get(&self, lun: u8) -> Option<&LogicalUnit> {
        self.units.get(usize::from(self.places[usize::from(lun)]))
    }

    /// The LU of a number, to change.
    pub fn get_mut(&mut self, lun: u8) -> Option<&mut LogicalUnit> {
        self.units
            .get_mut(usize::from(self.places[usize::from(lun)]))
    }

    /// Numbers, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u8> {
        self.units.iter().map(|unit| unit.description.lun)
    }
}

fn check_size(description: &LuDescription) {
    let block_bytes = u64::from(description.block_bytes);
    assert!(
        description.size_bytes.is_multiple_of(block_bytes) && description.size_bytes > 0,
        "LU {}: a whole, positive number of blocks",
        description.lun
    );
}

/// FNV-1a over name and number.
fn identity(target_name: &str, lun: u8) -> u64 {
    target_name
        .bytes()
        .chain([0, lun])
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
