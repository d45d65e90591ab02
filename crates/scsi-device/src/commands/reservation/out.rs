//! PERSISTENT RESERVE OUT (SPC-4 section 6.16): changes of registrations and of the reservation,
//! and the notices to other nexuses.
//!
//! A request is checked completely before anything changes. If changes survive a restart, the
//! answer waits until they are stored.

use hakaru_wire::scsi::{
    Cdb, CdbError, FieldPointer, PersistentReserveOut, RegisterAndMove, ReservationType,
    ReserveOut, ReserveOutParameters, Sense, Status,
};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use crate::context::Device;
use crate::nexus::Nexus;
use crate::outcome::{Notice, Outcome};
use crate::reservations::{Held, REGISTRATIONS_MAX, Registration, Reservations};
use crate::verdict::Verdict;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x5f, 0x00, 0, 0, 0, X, X, X, X, C], Direction::Out, execute).action(0x00).unreserved().ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x5f, 0x01, X, 0, 0, X, X, X, X, C], Direction::Out, execute).action(0x01).unreserved().ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x5f, 0x02, X, 0, 0, X, X, X, X, C], Direction::Out, execute).action(0x02).unreserved().ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x5f, 0x03, 0, 0, 0, X, X, X, X, C], Direction::Out, execute).action(0x03).unreserved().ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x5f, 0x04, X, 0, 0, X, X, X, X, C], Direction::Out, execute).action(0x04).unreserved().ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x5f, 0x05, X, 0, 0, X, X, X, X, C], Direction::Out, execute).action(0x05).unreserved().ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x5f, 0x06, 0, 0, 0, X, X, X, X, C], Direction::Out, execute).action(0x06).unreserved().ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x5f, 0x07, 0, 0, 0, X, X, X, X, C], Direction::Out, execute).action(0x07).unreserved().ports(Ports::Standby).with_list(with_list),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::PersistentReserveOut(request) => reserve_out(device, lu, request),
        _ => request.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, request: &Request, list: &[u8]) -> Outcome {
    match request.cdb {
        Cdb::PersistentReserveOut(reserve) => {
            reserve_out_with_list(device, request.lu, reserve, list)
        }
        _ => request.of_another_family(),
    }
}

/// Longest parameter list that is accepted, bytes. REGISTER AND MOVE with the longest iSCSI name
/// needs 276.
const LIST_BYTES_MAX: u32 = 1024;

/// Result of a request: `Ok` if it was executed, or the verdict that refuses it.
type Change = Result<(), Verdict>;

const CONFLICT: Verdict = Verdict::Status(Status::RESERVATION_CONFLICT);

fn invalid(byte: u16, bit: u8) -> Sense {
    CdbError::InvalidField {
        byte,
        bit: Some(bit),
    }
    .sense()
}

fn invalid_parameter(byte: u16) -> Verdict {
    let field = FieldPointer {
        in_cdb: false,
        byte,
        bit: None,
    };
    Verdict::Check(Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(field))
}

/// Checks the CDB before its parameter list arrives.
pub(crate) fn reserve_out(device: &Device<'_>, lu: u8, request: PersistentReserveOut) -> Outcome {
    let Some(unit) = device.units.get(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    if ReserveOut::from_code(request.service_action).is_none() {
        return Outcome::check(invalid(1, 4));
    }
    if unit.reservations.reserved_by.is_some() {
        return Outcome::End(CONFLICT);
    }
    if !(ReserveOutParameters::LENGTH as u32..=LIST_BYTES_MAX)
        .contains(&request.parameter_list_length)
    {
        return Outcome::check(Sense::PARAMETER_LIST_LENGTH_ERROR);
    }
    Outcome::Parameters {
        lu,
        length_bytes: request.parameter_list_length,
    }
}

/// Executes PERSISTENT RESERVE OUT with its parameter list.
pub(crate) fn reserve_out_with_list(
    device: &mut Device<'_>,
    lu: u8,
    request: PersistentReserveOut,
    list: &[u8],
) -> Outcome {
    let nexus = device.nexus.nexus.clone();
    let ports = device.ports.count() as u16;
    let Some(unit) = device.units.get_mut(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    // Both may have changed after the CDB was checked.
    if unit.reservations.reserved_by.is_some() {
        return Outcome::End(CONFLICT);
    }
    if unit.reservations.keeping.is_some() {
        return Outcome::End(Verdict::Status(Status::BUSY));
    }
    let before = unit.reservations.clone();
    let mut order = Order {
        reservations: &mut unit.reservations,
        nexus: &nexus,
        lu,
        ports,
        can_keep: unit.description.reservations.is_some(),
        notices: device.notices,
    };
    if let Err(verdict) = order.apply(request, list) {
        return Outcome::End(verdict);
    }
    let record = unit.reservations.record();
    if record == before.record() {
        return Outcome::GOOD;
    }
    unit.reservations.keeping = Some(Box::new(before));
    device.out.extend_from_slice(&record);
    Outcome::Keep
}

/// A request that is being executed.
struct Order<'a> {
    reservations: &'a mut Reservations,
    /// Nexus that sent the request.
    nexus: &'a Nexus,
    lu: u8,
    /// Number of target ports.
    ports: u16,
    can_keep: bool,
    notices: &'a mut Vec<Notice>,
}

impl Order<'_> {
    fn apply(&mut self, request: PersistentReserveOut, list: &[u8]) -> Change {
        let Some(action) = ReserveOut::from_code(request.service_action) else {
            return Err(Verdict::Check(invalid(1, 4)));
        };
        if action == ReserveOut::RegisterAndMove {
            let parameters = RegisterAndMove::parse(list).map_err(Verdict::Check)?;
            return self.register_and_move(&parameters);
        }
        let parameters = ReserveOutParameters::parse(list).map_err(Verdict::Check)?;
        let registered = self.reservations.key_of(self.nexus);
        match action {
            ReserveOut::Register if registered.unwrap_or(0) != parameters.key => Err(CONFLICT),
            ReserveOut::Register | ReserveOut::RegisterAndIgnoreExistingKey => {
                self.register(&parameters)
            }
            _ if registered != Some(parameters.key) => Err(CONFLICT),
            ReserveOut::Reserve => self.reserve(scoped_type(request)?),
            ReserveOut::Release => self.release(request),
            ReserveOut::Clear => {
                self.clear();
                Ok(())
            }
            ReserveOut::Preempt => self.preempt(request, parameters.service_action_key, false),
            ReserveOut::PreemptAndAbort => {
                self.preempt(request, parameters.service_action_key, true)
            }
            ReserveOut::RegisterAndMove => unreachable!("REGISTER AND MOVE was handled above"),
        }
    }

    fn attend(&mut self, nexus: &Nexus, sense: Sense) {
        self.notices.push(Notice::Attention {
            nexus: nexus.clone(),
            lu: self.lu,
            sense,
        });
    }

    /// Establishes a unit attention condition for every other registrant.
    fn attend_others(&mut self, sense: Sense) {
        let others = self.reservations.registrations.iter();
        let others: Vec<Nexus> = others
            .filter(|registration| registration.nexus != *self.nexus)
            .map(|registration| registration.nexus.clone())
            .collect();
        others.iter().for_each(|nexus| self.attend(nexus, sense));
    }

    fn set_persistence(&mut self, wanted: bool) -> Change {
        if wanted && !self.can_keep {
            return Err(invalid_parameter(20));
        }
        self.reservations.persistent = wanted;
        Ok(())
    }

    /// Executes REGISTER and REGISTER AND IGNORE EXISTING KEY (SPC-4 sections 5.12.7 and
    /// 5.12.11.2).
    fn register(&mut self, parameters: &ReserveOutParameters) -> Change {
        let key = parameters.service_action_key;
        let nexuses = if parameters.all_target_ports {
            (1..=self.ports)
                .map(|port| Nexus {
                    port,
                    ..self.nexus.clone()
                })
                .collect()
        } else {
            vec![self.nexus.clone()]
        };
        if key == 0 {
            if self.reservations.key_of(self.nexus).is_none() {
                return Ok(());
            }
            self.set_persistence(parameters.persist_through_power_loss)?;
            nexuses.iter().for_each(|nexus| self.unregister(nexus));
        } else {
            let known = |nexus: &&Nexus| self.reservations.key_of(nexus).is_some();
            let new = nexuses.len() - nexuses.iter().filter(known).count();
            if self.reservations.registrations.len() + new > REGISTRATIONS_MAX {
                return Err(Verdict::Check(Sense::INSUFFICIENT_REGISTRATION_RESOURCES));
            }
            self.set_persistence(parameters.persist_through_power_loss)?;
            nexuses.into_iter().for_each(|nexus| self.enter(nexus, key));
        }
        self.advance_generation();
        Ok(())
    }

    fn enter(&mut self, nexus: Nexus, key: u64) {
        let registrations = &mut self.reservations.registrations;
        match registrations
            .iter_mut()
            .find(|registration| registration.nexus == nexus)
        {
            Some(registration) => registration.key = key,
            None => registrations.push(Registration { nexus, key }),
        }
    }

    /// Removes a registration. The reservation ends with its last holder. Registrants that had
    /// access through it get a unit attention condition.
    fn unregister(&mut self, nexus: &Nexus) {
        self.reservations
            .registrations
            .retain(|registration| registration.nexus != *nexus);
        let Some(held) = &self.reservations.held else {
            return;
        };
        let kind = held.kind;
        let released = if kind.all_registrants() {
            self.reservations.registrations.is_empty()
        } else {
            held.holder == *nexus
        };
        if released {
            self.reservations.held = None;
            if kind.registrants_have_access() {
                self.attend_others(Sense::RESERVATIONS_RELEASED);
            }
        }
    }

    fn reserve(&mut self, kind: ReservationType) -> Change {
        let nexus = self.nexus.clone();
        match &self.reservations.held {
            None => {
                let holder = nexus;
                self.reservations.held = Some(Held { kind, holder });
                Ok(())
            }
            // A holder repeats the same reservation, which changes nothing.
            Some(held) if held.kind == kind && self.reservations.holds(&nexus).is_some() => Ok(()),
            Some(_) => Err(CONFLICT),
        }
    }

    /// Executes RELEASE (SPC-4 section 5.12.11.2.2).
    fn release(&mut self, request: PersistentReserveOut) -> Change {
        let Some(kind) = self.reservations.holds(self.nexus) else {
            return Ok(());
        };
        if scoped_type(request) != Ok(kind) {
            let sense = Sense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION;
            return Err(Verdict::Check(sense));
        }
        self.reservations.held = None;
        if kind.registrants_have_access() {
            self.attend_others(Sense::RESERVATIONS_RELEASED);
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.attend_others(Sense::RESERVATIONS_PREEMPTED);
        self.reservations.held = None;
        self.reservations.registrations.clear();
        self.advance_generation();
    }

    /// Executes PREEMPT and PREEMPT AND ABORT (SPC-4 sections 5.12.11.2.3 to 5.12.11.2.6).
    fn preempt(&mut self, request: PersistentReserveOut, key: u64, abort: bool) -> Change {
        let kind = scoped_type(request)?;
        let all_registrants = |held: &Held| held.kind.all_registrants();
        // Registrations to remove, and whether the sender takes over the reservation.
        let (victims, takes_over) = match &self.reservations.held {
            Some(held) if all_registrants(held) && key == 0 => (self.registered(|_| true), true),
            Some(held) if all_registrants(held) => (
                self.registered(|registration| registration.key == key),
                false,
            ),
            Some(held) if self.reservations.key_of(&held.holder) == Some(key) => (
                self.registered(|registration| registration.key == key),
                true,
            ),
            _ if key == 0 => return Err(invalid_parameter(8)),
            _ => (
                self.registered(|registration| registration.key == key),
                false,
            ),
        };
        if victims.is_empty() && !takes_over {
            return Err(CONFLICT);
        }
        let before = self.reservations.held.as_ref().map(|held| held.kind);
        for victim in victims.iter().filter(|victim| **victim != *self.nexus) {
            self.reservations
                .registrations
                .retain(|registration| registration.nexus != *victim);
            self.attend(victim, Sense::REGISTRATIONS_PREEMPTED);
        }
        if takes_over {
            let holder = self.nexus.clone();
            self.reservations.held = Some(Held { kind, holder });
            // The remaining registrants now have access by another type.
            if before != Some(kind) {
                self.attend_others(Sense::RESERVATIONS_RELEASED);
            }
        } else if victims.contains(self.nexus) {
            // The sender preempts its own registration, without holding the reservation.
            let nexus = self.nexus.clone();
            self.unregister(&nexus);
        }
        if abort {
            let others = victims.into_iter().filter(|victim| victim != self.nexus);
            let lu = self.lu;
            self.notices
                .extend(others.map(|nexus| Notice::Abort { nexus, lu }));
        }
        self.advance_generation();
        Ok(())
    }

    fn registered(&self, matches: impl Fn(&Registration) -> bool) -> Vec<Nexus> {
        let registrations = self.reservations.registrations.iter();
        registrations
            .filter(|registration| matches(registration))
            .map(|registration| registration.nexus.clone())
            .collect()
    }

    /// Executes REGISTER AND MOVE (SPC-4 section 5.12.8).
    fn register_and_move(&mut self, parameters: &RegisterAndMove) -> Change {
        if self.reservations.key_of(self.nexus) != Some(parameters.key) {
            return Err(CONFLICT);
        }
        let kind = match self.reservations.holds(self.nexus) {
            Some(kind) if !kind.all_registrants() => kind,
            _ => return Err(CONFLICT),
        };
        if parameters.service_action_key == 0 {
            return Err(invalid_parameter(8));
        }
        let Some(isid) = parameters.initiator_port.isid else {
            return Err(invalid_parameter(24));
        };
        if !(1..=self.ports).contains(&parameters.relative_target_port) {
            return Err(invalid_parameter(18));
        }
        let to = Nexus {
            initiator_name: parameters.initiator_port.name.clone(),
            isid,
            port: parameters.relative_target_port,
        };
        if to == *self.nexus {
            return Err(invalid_parameter(24));
        }
        let full = self.reservations.registrations.len() == REGISTRATIONS_MAX;
        if full && self.reservations.key_of(&to).is_none() {
            return Err(Verdict::Check(Sense::INSUFFICIENT_REGISTRATION_RESOURCES));
        }
        self.set_persistence(parameters.persist_through_power_loss)?;
        self.enter(to.clone(), parameters.service_action_key);
        self.reservations.held = Some(Held { kind, holder: to });
        if parameters.unregister {
            let nexus = self.nexus.clone();
            self.unregister(&nexus);
        }
        self.advance_generation();
        Ok(())
    }

    fn advance_generation(&mut self) {
        self.reservations.generation = self.reservations.generation.wrapping_add(1);
    }
}

/// Returns the TYPE of a request, which must be one of the six. SCOPE must be the LU.
fn scoped_type(request: PersistentReserveOut) -> Result<ReservationType, Verdict> {
    if request.scope != 0 {
        return Err(Verdict::Check(invalid(2, 7)));
    }
    ReservationType::from_code(request.kind).ok_or(Verdict::Check(invalid(2, 3)))
}
