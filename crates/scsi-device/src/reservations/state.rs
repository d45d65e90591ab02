//! Reservations of an LU: registrations, the persistent reservation (SPC-4 section 5.12) and the
//! older RESERVE and RELEASE (SPC-2 section 7.21), which exclude each other.

use hakaru_wire::scsi::ReservationType;

use crate::nexus::Nexus;

/// Maximum number of registrations of an LU. A host in a cluster makes one for each of its paths.
pub(crate) const REGISTRATIONS_MAX: usize = 4096;

/// The access that a command needs while another nexus holds a reservation (SPC-4 table 66, SBC-3
/// table 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// None: the command is always allowed.
    Nothing,
    /// The command is allowed if the reservation lets others read.
    Read,
    /// The command is allowed only with full access.
    Write,
}

/// A registered I_T nexus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) nexus: Nexus,
    pub(crate) key: u64,
}

/// A persistent reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) kind: ReservationType,
    /// The nexus that made the reservation. If all registrants are holders, it has no more rights
    /// than the others and may no longer be registered.
    pub(crate) holder: Nexus,
}

/// All reservations of an LU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    /// PRGENERATION. It does not survive a restart (SPC-4 section 6.15.2).
    pub(crate) generation: u32,
    /// Registrations, at most one per nexus.
    pub(crate) registrations: Vec<Registration>,
    pub(crate) held: Option<Held>,
    /// APTPL of the last registration: whether changes survive a restart.
    pub(crate) persistent: bool,
    /// The previous reservations, while the storage stores the record of the current ones.
    pub(crate) keeping: Option<Box<Reservations>>,
    /// The nexus that holds the LU by RESERVE and has exclusive access.
    pub(crate) reserved_by: Option<Nexus>,
}

impl Reservations {
    /// Whether every nexus has access.
    pub(crate) fn admits_all(&self) -> bool {
        self.reserved_by.is_none() && self.held.is_none()
    }

    /// Whether a command that needs this access may be executed.
    pub(crate) fn admit(&self, nexus: &Nexus, need: Need) -> bool {
        if need == Need::Nothing {
            return true;
        }
        if let Some(by) = &self.reserved_by {
            return by == nexus;
        }
        let Some(held) = &self.held else { return true };
        if need == Need::Read && held.kind.others_may_read() {
            return true;
        }
        if held.kind.registrants_have_access() {
            self.key_of(nexus).is_some()
        } else {
            held.holder == *nexus
        }
    }

    /// Executes RESERVE. Returns false on RESERVATION CONFLICT. A holder of a persistent
    /// reservation already has the requested access (CRH, SPC-4 section 5.12.3).
    pub(crate) fn reserve(&mut self, nexus: &Nexus) -> bool {
        if self.has_persistent_access(nexus) {
            return true;
        }
        if !self.registrations.is_empty() || self.reserved_by.as_ref().is_some_and(|by| by != nexus)
        {
            return false;
        }
        self.reserved_by = Some(nexus.clone());
        true
    }

    /// Executes RELEASE, which has no effect if the nexus holds no reservation. Returns false on
    /// RESERVATION CONFLICT.
    pub(crate) fn release(&mut self, nexus: &Nexus) -> bool {
        if !self.registrations.is_empty() {
            return self.has_persistent_access(nexus);
        }
        if self.reserved_by.as_ref() == Some(nexus) {
            self.reserved_by = None;
        }
        true
    }

    /// Handles the loss of an I_T nexus: a reservation by RESERVE ends, a persistent reservation
    /// stays.
    pub(crate) fn lose(&mut self, nexus: &Nexus) {
        if self.reserved_by.as_ref() == Some(nexus) {
            self.reserved_by = None;
        }
    }

    /// Handles a reset of the LU.
    pub(crate) fn reset(&mut self) {
        self.reserved_by = None;
    }

    /// Whether the nexus holds the reservation, or is registered and the type of the reservation
    /// gives registrants access.
    pub(crate) fn has_persistent_access(&self, nexus: &Nexus) -> bool {
        self.held.as_ref().is_some_and(|held| {
            self.holds(nexus).is_some()
                || held.kind.registrants_have_access() && self.key_of(nexus).is_some()
        })
    }

    /// Returns the type of the reservation if the nexus is a holder in the sense of SPC-4 section
    /// 5.12.10.
    pub(crate) fn holds(&self, nexus: &Nexus) -> Option<ReservationType> {
        let held = self.held.as_ref()?;
        let holds = if held.kind.all_registrants() {
            self.key_of(nexus).is_some()
        } else {
            held.holder == *nexus
        };
        holds.then_some(held.kind)
    }

    pub(crate) fn key_of(&self, nexus: &Nexus) -> Option<u64> {
        self.registrations
            .iter()
            .find(|registration| registration.nexus == *nexus)
            .map(|registration| registration.key)
    }

    /// Handles the result of [`crate::IoOp::Keep`]. If the record is not on stable storage, the
    /// previous reservations are restored. Unit attention conditions that were established
    /// meanwhile stay, because a superfluous condition is harmless.
    pub(crate) fn end_keeping(&mut self, done: bool) {
        if let Some(before) = self.keeping.take().filter(|_| !done) {
            *self = *before;
        }
    }
}
