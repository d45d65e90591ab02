//! An I_T nexus, an initiator port and a target port, and its state in the device server.

use hakaru_wire::scsi::{Isid, Sense};

use crate::rights::Rights;
use crate::volumes::VolumeSearch;

/// Maximum number of copy results kept for a nexus.
pub const COPIES_MAX: u8 = 32;

/// An I_T nexus (SAM-5 section 4.6): an initiator port and a target port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nexus {
    /// Name of the initiator, as its TransportID gives it (SPC-4 section 7.6.4.6), at most 223
    /// bytes.
    pub initiator_name: String,
    /// The initiator port.
    pub isid: Isid,
    /// Relative target port identifier, from 1.
    pub port: u16,
}

/// State of a nexus in the device server.
#[derive(Debug)]
pub struct NexusState {
    /// Name of the initiator.
    pub nexus: Nexus,
    /// LUs that the nexus may see and write.
    pub rights: Rights,
    /// Unit attention conditions by LU, oldest first.
    unit_attentions: Vec<(u8, Sense)>,
    /// Results of copies that the initiator may still request.
    pub copies: Copies,
    /// TapeAlert events that were read, by LU of a tape drive: their number.
    alerts_read: Vec<(u8, u64)>,
    /// Its last search for volume tags.
    pub(crate) volume_search: Option<VolumeSearch>,
}

impl NexusState {
    /// Creates the state of a nexus without unit attention conditions.
    #[must_use]
    pub fn new(nexus: Nexus, rights: Rights) -> Self {
        Self {
            nexus,
            rights,
            unit_attentions: Vec::new(),
            copies: Copies::default(),
            alerts_read: Vec::new(),
            volume_search: None,
        }
    }

    /// Forgets the unit attention conditions of an LU that was removed.
    pub fn forget_unit(&mut self, lun: u8) {
        self.unit_attentions.retain(|(unit, _)| *unit != lun);
        self.alerts_read.retain(|(unit, _)| *unit != lun);
    }

    /// Returns the number of TapeAlert events of a drive that the nexus has read.
    pub(crate) fn alerts_read(&self, lu: u8) -> u64 {
        let read = self.alerts_read.iter().find(|(unit, _)| *unit == lu);
        read.map_or(0, |(_, events)| *events)
    }

    /// Notes that the nexus has read all TapeAlert events of a drive so far.
    pub(crate) fn read_alerts(&mut self, lu: u8, events: u64) {
        self.alerts_read.retain(|(unit, _)| *unit != lu);
        self.alerts_read.push((lu, events));
    }

    /// Establishes a unit attention condition, unless the same condition is pending. Conditions of
    /// a reset precede all others (SAM-5 section 5.14.3).
    pub fn attend(&mut self, lu: u8, sense: Sense) {
        const RESET: u8 = 0x29;
        if self.unit_attentions.contains(&(lu, sense)) {
            return;
        }
        let is_reset = |sense: &Sense| sense.additional.code == RESET;
        let first = self
            .unit_attentions
            .iter()
            .position(|(unit, other)| *unit == lu && !is_reset(other))
            .filter(|_| is_reset(&sense));
        self.unit_attentions
            .insert(first.unwrap_or(self.unit_attentions.len()), (lu, sense));
    }

    /// Ends unit attention conditions of a kind, on all LUs.
    pub fn end_attention(&mut self, sense: Sense) {
        self.unit_attentions.retain(|(_, other)| *other != sense);
    }

    /// Whether any LU has a unit attention condition for this nexus.
    pub fn has_attentions(&self) -> bool {
        !self.unit_attentions.is_empty()
    }

    /// Reports and ends the oldest unit attention condition of an LU.
    pub fn take_attention(&mut self, lu: u8) -> Option<Sense> {
        let at = self
            .unit_attentions
            .iter()
            .position(|(unit, _)| *unit == lu)?;
        Some(self.unit_attentions.remove(at).1)
    }
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyResult {
    /// LIST IDENTIFIER of the copy.
    pub list: u8,
    /// Every segment was copied.
    pub good: bool,
    /// Number of segments copied completely.
    pub segments: u16,
    /// Bytes copied.
    pub bytes: u64,
}

/// Results of a session's last copies, kept until they are requested or replaced (SPC-4 section
/// 5.17.4.3).
#[derive(Debug, Default)]
pub struct Copies {
    kept: Vec<(u8, CopyResult)>,
}

impl Copies {
    const KEPT_MAX: usize = COPIES_MAX as usize;

    /// Keeps the result of a copy. It replaces the oldest one if [`COPIES_MAX`] are kept.
    pub fn keep(&mut self, lu: u8, result: CopyResult) {
        self.kept
            .retain(|(unit, kept)| (*unit, kept.list) != (lu, result.list));
        if self.kept.len() == Self::KEPT_MAX {
            self.kept.remove(0);
        }
        self.kept.push((lu, result));
    }

    pub(crate) fn take(&mut self, lu: u8, list: u8) -> Option<CopyResult> {
        let at = self
            .kept
            .iter()
            .position(|(unit, kept)| (*unit, kept.list) == (lu, list))?;
        Some(self.kept.remove(at).1)
    }
}
