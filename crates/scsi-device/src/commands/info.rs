//! Properties of commands, one row each: everything but their execution.

use hakaru_wire::scsi::{AccessState, Cdb, CommandTimeouts, Sense, SupportedCommand};

use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;
use crate::unit::LogicalUnit;

/// Usage mask of a CONTROL byte, of which only NACA is evaluated.
pub(super) const C: u8 = 0x04;
/// Usage mask of a byte of a CDB whose bits are all evaluated.
pub(super) const X: u8 = 0xff;

/// A command that is being executed.
pub(super) struct Request {
    /// LU of the command. It exists, unless the row has `without_unit`.
    pub(super) lu: u8,
    pub(super) cdb: Cdb,
    /// All commands, ascending by operation code and service action.
    pub(super) table: &'static [&'static CommandInfo],
}

impl Request {
    /// Panics because a row names a function of another family. The test of the table finds this
    /// defect.
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

/// LUs that support a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Availability {
    Every,
    Removable,
    Thin,
    Sanitize,
    Atomic,
    ExplicitAccess,
}

impl Availability {
    pub(super) fn includes(self, unit: &LogicalUnit) -> bool {
        match self {
            Availability::Every => true,
            Availability::Removable => unit.description.removable,
            Availability::Thin => unit.description.thin.is_some(),
            Availability::Sanitize => unit.description.sanitize,
            Availability::ExplicitAccess => unit.description.explicit_access,
            Availability::Atomic => unit.description.atomic_bytes > 0,
        }
    }
}

/// States of the target port in which a command is executed (SPC-4 section 5.15.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    Active,
    /// Active and standby.
    Standby,
    Every,
}

impl Ports {
    /// Returns the sense data with which a port in this state refuses the command.
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

/// Whether a command is executed while the LU is being sanitized, or after a sanitize operation has
/// failed (SBC-3 section 4.11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sanitizing {
    Refused,
    /// Only after a failure, whose state the command ends.
    AfterFailure,
    Allowed,
}

/// The access that a command needs while another nexus holds a reservation.
#[derive(Clone, Copy)]
pub(super) enum Reservation {
    Always(Need),
    /// The need depends on a field of the CDB.
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

/// A function that executes a command.
pub(super) type Execute = fn(&mut Device<'_>, &Request) -> Outcome;

/// A function that executes a command with its parameter list.
pub(super) type ExecuteWithList = fn(&mut Device<'_>, &Request, &[u8]) -> Outcome;

/// Properties of a command. Create them with [`CommandInfo::new`] and change those that differ from
/// the defaults.
pub(super) struct CommandInfo {
    /// CDB usage data: the operation code, then a mask with ones where a bit is evaluated (SPC-4
    /// section 6.35.3).
    pub(super) usage: &'static [u8],
    pub(super) service_action: Option<u16>,
    pub(super) direction: Direction,
    pub(super) availability: Availability,
    pub(super) reservation: Reservation,
    /// The command changes the medium, or data or rights of other initiators. It is refused if the
    /// nexus may only read.
    pub(super) changes: bool,
    pub(super) ports: Ports,
    pub(super) sanitizing: Sanitizing,
    /// The command leaves unit attention conditions pending for a later command (SAM-5 section
    /// 5.14).
    pub(super) passes_attention: bool,
    /// Executes the command, or requests its parameter list.
    pub(super) execute: Execute,
    /// Executes the command with its parameter list.
    pub(super) with_list: Option<ExecuteWithList>,
    /// Executes the command for a LUN without an LU (SPC-4 section 6.6.1, SAM-5 section 5.11).
    pub(super) without_unit: Option<Execute>,
    /// Time limits that REPORT SUPPORTED OPERATION CODES states.
    pub(super) timeouts: CommandTimeouts,
}

/// The longest response time of a store, and the time after which Linux aborts a command of a disk.
const OF_A_DISK: CommandTimeouts = CommandTimeouts {
    nominal_seconds: 1,
    recommended_seconds: 30,
};

impl CommandInfo {
    /// Returns the properties of a command that every LU supports, that changes the medium, and
    /// that requires full access, an active port and no sanitize operation.
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
            timeouts: OF_A_DISK,
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

    /// Marks the command as one that changes nothing. A reservation of another nexus admits it
    /// according to `need`.
    pub(super) const fn harmless(mut self, need: Need) -> Self {
        self.reservation = Reservation::Always(need);
        self.changes = false;
        self
    }

    /// Marks the command as one that checks reservations itself.
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

    pub(super) const fn within(mut self, timeouts: CommandTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    pub(super) const fn opcode(&self) -> u8 {
        self.usage[0]
    }

    pub(super) fn supported(&self) -> SupportedCommand<'static> {
        SupportedCommand {
            usage: self.usage,
            service_action: self.service_action,
            timeouts: self.timeouts,
        }
    }
}
