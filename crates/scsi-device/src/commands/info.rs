//! Properties of commands, one row each: everything but their execution.

use hakaru_wire::scsi::{AccessState, Cdb, CommandTimeouts, Sense, SupportedCommand};

use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;
use crate::unit::LogicalUnit;

/// NACA, which is looked at in every CONTROL byte.
pub(super) const C: u8 = 0x04;
/// A byte of a CDB whose bits are all looked at.
pub(super) const X: u8 = 0xff;

/// A command that is being carried out.
pub(super) struct Request {
    /// LU of the command. It exists, unless the row has `without_unit`.
    pub(super) lu: u8,
    pub(super) cdb: Cdb,
    /// All commands, ascending by operation code and service action.
    pub(super) table: &'static [&'static CommandInfo],
}

impl Request {
    /// A row names a function of another family: a defect that the test of the table finds.
    pub(super) fn of_another_family(&self) -> ! {
        unreachable!("{:?} is in the row of another family", self.cdb)
    }
}

/// Data that a command moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    None,
    /// To the initiator.
    In,
    /// From the initiator.
    Out,
}

/// LUs that have a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Availability {
    Every,
    Removable,
    Thin,
    Sanitize,
    Atomic,
}

impl Availability {
    pub(super) fn includes(self, unit: &LogicalUnit) -> bool {
        match self {
            Availability::Every => true,
            Availability::Removable => unit.description.removable,
            Availability::Thin => unit.description.thin.is_some(),
            Availability::Sanitize => unit.description.sanitize,
            Availability::Atomic => unit.description.atomic_bytes > 0,
        }
    }
}

/// States of the target port in which a command is carried out (SPC-4 section 5.15.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    Active,
    /// And standby.
    Standby,
    Every,
}

impl Ports {
    /// The reason why a port in this state does not let the command through.
    pub(super) fn refusal(self, state: AccessState) -> Option<Sense> {
        match state {
            AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => None,
            _ if self == Ports::Every => None,
            AccessState::Standby if self == Ports::Standby => None,
            AccessState::Standby => Some(Sense::TARGET_PORT_IN_STANDBY_STATE),
            AccessState::Unavailable => Some(Sense::TARGET_PORT_IN_UNAVAILABLE_STATE),
            AccessState::Transitioning => Some(Sense::ASYMMETRIC_ACCESS_STATE_TRANSITION),
        }
    }
}

/// Whether a command is carried out while the LU is sanitized, or after that has failed (SBC-3
/// section 4.11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sanitizing {
    Refused,
    /// Only after a failure, which it ends.
    AfterFailure,
    Allowed,
}

/// The access that a command needs while another nexus holds a reservation.
#[derive(Clone, Copy)]
pub(super) enum Reservation {
    Always(Need),
    /// It depends on a field of the CDB.
    ByField(fn(&Cdb) -> Need),
}

impl Reservation {
    pub(super) fn need(self, cdb: &Cdb) -> Need {
        match self {
            Reservation::Always(need) => need,
            Reservation::ByField(need) => need(cdb),
        }
    }
}

/// Carries out a command.
pub(super) type Execute = fn(&mut Device<'_>, &Request) -> Outcome;

/// Carries out a command with its parameter list.
pub(super) type ExecuteWithList = fn(&mut Device<'_>, &Request, &[u8]) -> Outcome;

/// A command. Make one with [`CommandInfo::new`] and change what is not as most commands have it.
pub(super) struct CommandInfo {
    /// CDB usage data: the operation code, then ones where a bit is looked at (SPC-4 section
    /// 6.35.3).
    pub(super) usage: &'static [u8],
    pub(super) service_action: Option<u16>,
    pub(super) direction: Direction,
    pub(super) availability: Availability,
    pub(super) reservation: Reservation,
    /// It changes the medium, or what other initiators find or may do: refused where the nexus may
    /// only read.
    pub(super) changes: bool,
    pub(super) ports: Ports,
    pub(super) sanitizing: Sanitizing,
    /// Unit attention conditions wait for another command (SAM-5 section 5.14).
    pub(super) passes_attention: bool,
    /// Carries it out, or asks for its parameter list.
    pub(super) execute: Execute,
    /// Carries it out with its parameter list.
    pub(super) with_list: Option<ExecuteWithList>,
    /// Answers it for a LUN without an LU (SPC-4 section 6.6.1, SAM-5 section 5.11).
    pub(super) without_unit: Option<Execute>,
}

impl CommandInfo {
    /// A command that every LU has, that changes the medium, and that wants full access, an active
    /// port and no sanitize operation.
    pub(super) const fn new(
        usage: &'static [u8],
        direction: Direction,
        execute: fn(&mut Device<'_>, &Request) -> Outcome,
    ) -> Self {
        Self {
            usage,
            service_action: None,
            direction,
            availability: Availability::Every,
            reservation: Reservation::Always(Need::Write),
            changes: true,
            ports: Ports::Active,
            sanitizing: Sanitizing::Refused,
            passes_attention: false,
            execute,
            with_list: None,
            without_unit: None,
        }
    }

    pub(super) const fn action(mut self, service_action: u16) -> Self {
        self.service_action = Some(service_action);
        self
    }

    pub(super) const fn of(mut self, availability: Availability) -> Self {
        self.availability = availability;
        self
    }

    /// It changes nothing, and a reservation of another nexus lets it through as `need` says.
    pub(super) const fn harmless(mut self, need: Need) -> Self {
        self.reservation = Reservation::Always(need);
        self.changes = false;
        self
    }

    /// It changes what others may do, and sees to reservations itself.
    pub(super) const fn unreserved(mut self) -> Self {
        self.reservation = Reservation::Always(Need::Nothing);
        self
    }

    pub(super) const fn reserved_by_field(mut self, need: fn(&Cdb) -> Need) -> Self {
        self.reservation = Reservation::ByField(need);
        self
    }

    pub(super) const fn ports(mut self, ports: Ports) -> Self {
        self.ports = ports;
        self
    }

    pub(super) const fn sanitizing(mut self, sanitizing: Sanitizing) -> Self {
        self.sanitizing = sanitizing;
        self
    }

    pub(super) const fn passing_attention(mut self) -> Self {
        self.passes_attention = true;
        self
    }

    pub(super) const fn with_list(
        mut self,
        with_list: fn(&mut Device<'_>, &Request, &[u8]) -> Outcome,
    ) -> Self {
        self.with_list = Some(with_list);
        self
    }

    pub(super) const fn without_unit(
        mut self,
        without_unit: fn(&mut Device<'_>, &Request) -> Outcome,
    ) -> Self {
        self.without_unit = Some(without_unit);
        self
    }

    pub(super) const fn opcode(&self) -> u8 {
        self.usage[0]
    }

    pub(super) fn supported(&self) -> SupportedCommand<'static> {
        SupportedCommand {
            usage: self.usage,
            service_action: self.service_action,
            // The longest that a store of ours takes, and the time that Linux gives a disk before
            // it aborts.
            timeouts: CommandTimeouts {
                nominal_seconds: 1,
                recommended_seconds: 30,
            },
        }
    }
}
