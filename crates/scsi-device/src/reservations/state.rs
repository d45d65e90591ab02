//! Reservations of an LU: registrations, the persistent reservation (SPC-4 section 5.12) and the
//! older RESERVE and RELEASE (SPC-2 section 7.21), which exclude each other.

use hakaru_wire::scsi::ReservationType;

use crate::nexus::Nexus;

/// Registrations one LU takes. One host in a cluster makes one for each of its paths.
pub(crate) const REGISTRATIONS_MAX: usize = 4096;

/// The access that a command needs while another nexus holds a reservation (SPC-4 table 66, SBC-3
/// table 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// None: the command is always allowed.
    Nothing,
    /// Allowed where others may read.
    Read,
    /// Allowed only with full access.
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
    /// The nexus that made it. If all registrants are holders, it has no more rights than the others,
    /// and may have gone.
    pub(crate) holder: Nexus,
}

/// Everything an LU knows of reservations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    /// PRGENERATION. Not kept over a restart (SPC-4 section 6.15.2).
    pub(crate) generation: u32,
    /// Each nexus has at most one.
    pub(crate) registrations: Vec<Registration>,
    pub(crate) held: Option<Held>,
    /// APTPL of the registration that was made last: changes are kept over a restart.
    pub(crate) persistent: bool,
    /// A record is on its way to stable storage, with the reservations as they were before.
    pub(crate) keeping: Option<Box<Reservations>>,
    /// RESERVE: the one nexus with access.
    pub(crate) reserved_by: Option<Nexus>,
}

impl Reservations {
    /// Everyone has access.
    pub(crate) fn are_none(&self) -> bool {
        self.reserved_by.is_none() && self.held.is_none()
    }

    /// Whether a command that needs this access may be carried out.
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

    /// RESERVE. False: RESERVATION CONFLICT. A holder of a persistent reservation has what it asks
    /// for (CRH, SPC-4 section 5.12.3).
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

    /// RELEASE. Without a reservation, or with another's, it does nothing. False: RESERVATION
    /// CONFLICT.
    pub(crate) fn release(&mut self, nexus: &Nexus) -> bool {
        if !self.registrations.is_empty() {
            return self.has_persistent_access(nexus);
        }
        if self.reserved_by.as_ref() == Some(nexus) {
            self.reserved_by = None;
        }
        true
    }

    /// An I_T nexus is lost: what RESERVE made goes with it, what is persistent stays.
    pub(crate) fn lose(&mut self, nexus: &Nexus) {
        if self.reserved_by.as_ref() == Some(nexus) {
            self.reserved_by = None;
        }
    }

    /// The LU is reset.
    pub(crate) fn reset(&mut self) {
        self.reserved_by = None;
    }

    /// The nexus holds the reservation, or is registered where that is enough for access.
    pub(crate) fn has_persistent_access(&self, nexus: &Nexus) -> bool {
        self.held.as_ref().is_some_and(|held| {
            self.holds(nexus).is_some()
                || held.kind.registrants_have_access() && self.key_of(nexus).is_some()
        })
    }

    /// The nexus is a holder in the sense of SPC-4 section 5.12.10.
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
            .find(|one| one.nexus == *nexus)
            .map(|one| one.key)
    }

    /// The record that [`crate::IoOp::Keep`] was asked for is on stable storage, or could not be
    /// put there: then nothing has changed. What was told to other initiators meanwhile stays told;
    /// a unit attention condition too many does no harm.
    pub(crate) fn kept(&mut self, done: bool) {
        if let Some(before) = self.keeping.take().filter(|_| !done) {
            *self = *before;
        }
    }
}
