//! The commands of disks, tape drives and medium changers (SAM-5, SPC-4, SBC-3, SSC-3, SMC-3) and
//! their effects on a logical unit.
//!
//! One file per family. A family has a row for each of its commands ([`info::CommandInfo`]) and the
//! functions that execute them; no other file depends on the command. A command ends at once,
//! answers with parameter data, or requests accesses to the LU's blocks. It never executes an
//! access itself.

mod block;
mod changer;
mod compare;
mod copy;
mod defects;
mod identify;
mod identifying;
mod info;
mod log;
mod medium;
mod mode;
mod mode_select;
mod opcodes;
mod ports;
mod provisioning;
mod readiness;
mod reservation;
mod sanitize;
mod set;
mod stream;

use hakaru_wire::scsi::{Cdb, DeviceType, Lun, Sense, Status};

use self::info::{CommandInfo, Direction, Request, Sanitizing};
use self::reservation::{legacy, out, report};
use self::set::{CommandSet, count, sorted};
use crate::config::LuDescription;
use crate::context::Device;
use crate::nexus::NexusState;
use crate::outcome::{Notice, Outcome, WRONG_DIRECTION};
use crate::port::TargetPorts;
use crate::unit::{LogicalUnit, LogicalUnits};
use crate::verdict::Verdict;

/// Command families of disks.
const FAMILIES: &[&[CommandInfo]] = &[
    block::ROWS,
    compare::ROWS,
    copy::ROWS,
    defects::ROWS,
    identify::ROWS,
    identifying::ROWS,
    legacy::ROWS,
    log::ROWS,
    medium::ROWS,
    mode::ROWS,
    mode_select::ROWS,
    opcodes::ROWS,
    out::ROWS,
    ports::ROWS,
    provisioning::ROWS,
    readiness::ROWS,
    report::ROWS,
    sanitize::ROWS,
];

/// Command families of tape drives.
const TAPE_FAMILIES: &[&[CommandInfo]] = &[
    identify::ROWS,
    identifying::ROWS,
    legacy::ROWS,
    medium::ROWS,
    opcodes::ROWS,
    out::ROWS,
    ports::ROWS,
    report::ROWS,
    stream::attributes::ROWS,
    stream::density::ROWS,
    stream::host_attributes::ROWS,
    stream::load::ROWS,
    stream::log::ROWS,
    stream::mode::ROWS,
    stream::position::ROWS,
    stream::service::ROWS,
    stream::transfer::ROWS,
];

/// Command families of medium changers.
const CHANGER_FAMILIES: &[&[CommandInfo]] = &[
    changer::elements::ROWS,
    changer::log::ROWS,
    changer::mode::ROWS,
    changer::moves::ROWS,
    changer::tags::ROWS,
    identify::ROWS,
    identifying::ROWS,
    legacy::ROWS,
    medium::ROWS,
    opcodes::ROWS,
    out::ROWS,
    ports::ROWS,
    report::ROWS,
];

static DISK_TABLE: [&CommandInfo; count(FAMILIES)] = sorted(FAMILIES);
static TAPE_TABLE: [&CommandInfo; count(TAPE_FAMILIES)] = sorted(TAPE_FAMILIES);
static CHANGER_TABLE: [&CommandInfo; count(CHANGER_FAMILIES)] = sorted(CHANGER_FAMILIES);

/// Commands of disks, and of LUNs without an LU.
static DISK: CommandSet = CommandSet::new(&DISK_TABLE);
static TAPE: CommandSet = CommandSet::new(&TAPE_TABLE);
static CHANGER: CommandSet = CommandSet::new(&CHANGER_TABLE);

fn commands_of(device: DeviceType) -> &'static CommandSet {
    match device {
        DeviceType::Disk => &DISK,
        DeviceType::Tape => &TAPE,
        DeviceType::Changer => &CHANGER,
    }
}

/// Directions in which the initiator moves data, as the transport reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directions {
    /// The initiator has a buffer for data that is read.
    pub read: bool,
    /// The initiator has data to be written.
    pub write: bool,
}

impl Directions {
    fn fit(self, direction: Direction) -> bool {
        match direction {
            Direction::None => true,
            // An initiator without a buffer for data that is read gets no data, and the residual
            // reports it. A device server does not know about buffers (SAM-5 section 5.4.3).
            Direction::In => !self.read || !self.write,
            Direction::Out => !self.read || self.write,
        }
    }
}

/// A device server: logical units, target ports, and the results of the command that was executed
/// last.
#[derive(Debug)]
pub struct DeviceServer {
    /// The logical units.
    pub units: LogicalUnits,
    /// The target ports; relative target port identifiers count from 1.
    pub ports: TargetPorts,
    /// Longest transition of a group so far, seconds, which REPORT TARGET PORT GROUPS reports.
    pub transition_seconds: u8,
    /// Longest transfer of one command, bytes.
    pub transfer_bytes_max: u32,
    /// Parameter data of the last command.
    pub out: Vec<u8>,
    /// Consequences for other nexuses. The transport removes and delivers them.
    pub notices: Vec<Notice>,
}

impl DeviceServer {
    /// Creates a device server with these target ports.
    ///
    /// # Panics
    /// In the cases in which [`LogicalUnits::new`] panics.
    #[must_use]
    pub fn new(
        target_name: &str,
        units: &[LuDescription],
        ports: TargetPorts,
        transfer_bytes_max: u32,
    ) -> Self {
        Self {
            units: LogicalUnits::new(target_name, units),
            ports,
            transition_seconds: 0,
            transfer_bytes_max,
            out: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Executes a CDB addressed to `lun`. A command may request its parameter list with
    /// [`Outcome::Parameters`]; pass it to [`Self::execute_with_list`].
    pub fn execute(
        &mut self,
        nexus: &mut NexusState,
        lun: Lun,
        cdb: &[u8],
        directions: Directions,
    ) -> Outcome {
        dispatch(&mut self.device(nexus), lun, cdb, directions)
    }

    /// Executes a command that has requested its parameter list, with that list.
    pub fn execute_with_list(
        &mut self,
        nexus: &mut NexusState,
        lun: Lun,
        cdb: &[u8],
        list: &[u8],
    ) -> Outcome {
        dispatch_with_list(&mut self.device(nexus), lun, cdb, list)
    }

    /// Returns the context of one command.
    fn device<'a>(&'a mut self, nexus: &'a mut NexusState) -> Device<'a> {
        self.out.clear();
        Device {
            units: &mut self.units,
            relative_port: nexus.nexus.port,
            nexus,
            transfer_bytes_max: self.transfer_bytes_max,
            ports: &mut self.ports,
            transition_seconds: self.transition_seconds,
            out: &mut self.out,
            notices: &mut self.notices,
        }
    }
}

fn dispatch(device: &mut Device<'_>, lun: Lun, cdb: &[u8], directions: Directions) -> Outcome {
    let number = lun.number().and_then(|number| u8::try_from(number).ok());
    let Some(lu) = number.filter(|number| device.sees(*number)) else {
        return execute_without_unit(device, Cdb::parse(cdb).ok().zip(DISK.find(cdb)));
    };
    let device_type = device_type_of(device, lu);
    let commands = commands_of(device_type);
    let parsed = Cdb::parse_for(device_type, cdb);
    let row = commands.find(cdb);
    let passes = row.is_some_and(|row| row.passes_attention) && parsed.is_ok();
    if device.nexus.has_attentions()
        && !passes
        && let Some(sense) = device.nexus.take_attention(lu)
    {
        return Outcome::check(sense);
    }
    let (cdb, row) = match (parsed, row) {
        (Ok(cdb), Some(row)) => (cdb, row),
        (Err(error), Some(_)) => return Outcome::check(error.sense()),
        (_, None) => return Outcome::check(Sense::INVALID_COMMAND_OPERATION_CODE),
    };
    if let Err(verdict) = admit(device, lu, &cdb, row) {
        return Outcome::End(verdict);
    }
    if !directions.fit(row.direction) {
        return Outcome::check(WRONG_DIRECTION);
    }
    let table = commands.table;
    (row.execute)(device, &Request { lu, cdb, table })
}

fn device_type_of(device: &Device<'_>, lu: u8) -> DeviceType {
    let unit = device.units.get(lu);
    unit.map_or(DeviceType::Disk, |unit| unit.description.kind.device_type())
}

/// Checks whether LU, port, access list, reservations and a sanitize operation admit a command.
fn admit(device: &Device<'_>, lu: u8, cdb: &Cdb, row: &CommandInfo) -> Result<(), Verdict> {
    let Some(unit) = device.units.get(lu) else {
        return Err(Verdict::Check(Sense::LOGICAL_UNIT_NOT_SUPPORTED));
    };
    if !row.availability.includes(unit) {
        return Err(Verdict::Check(Sense::INVALID_COMMAND_OPERATION_CODE));
    }
    let state = device.ports.state(usize::from(device.relative_port) - 1);
    if let Some(sense) = row.ports.refusal(state) {
        return Err(Verdict::Check(sense));
    }
    if row.changes && !device.nexus.rights.writes(lu) {
        return Err(Verdict::Check(Sense::WRITE_PROTECTED));
    }
    let reservations = &unit.reservations;
    if !reservations.admits_all()
        && !reservations.admit(&device.nexus.nexus, row.reservation.need(cdb))
    {
        return Err(Verdict::Status(Status::RESERVATION_CONFLICT));
    }
    match unit.occupied() {
        Some(sense) if !passes_sanitizing(unit, row) => Err(Verdict::Check(sense)),
        _ => Ok(()),
    }
}

fn passes_sanitizing(unit: &LogicalUnit, row: &CommandInfo) -> bool {
    match row.sanitizing {
        Sanitizing::Refused => false,
        Sanitizing::AfterFailure => unit.operation.is_none(),
        Sanitizing::Allowed => true,
    }
}

fn dispatch_with_list(device: &mut Device<'_>, lun: Lun, cdb: &[u8], list: &[u8]) -> Outcome {
    let number = lun.number().and_then(|number| u8::try_from(number).ok());
    let Some(lu) = number.filter(|number| device.sees(*number)) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let device_type = device_type_of(device, lu);
    let commands = commands_of(device_type);
    let with_list = commands.find(cdb).and_then(|row| row.with_list);
    match (Cdb::parse_for(device_type, cdb), with_list) {
        (Ok(cdb), Some(with_list)) => {
            let table = commands.table;
            with_list(device, &Request { lu, cdb, table }, list)
        }
        _ => unreachable!("only a command that takes a parameter list requests one"),
    }
}

/// Executes a command for a LUN without an LU.
fn execute_without_unit(
    device: &mut Device<'_>,
    command: Option<(Cdb, &'static CommandInfo)>,
) -> Outcome {
    match command.and_then(|(cdb, row)| Some((cdb, row.without_unit?))) {
        Some((cdb, without_unit)) => {
            let table = DISK.table;
            without_unit(device, &Request { lu: 0, cdb, table })
        }
        None => Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
    }
}

#[cfg(test)]
mod tests;
