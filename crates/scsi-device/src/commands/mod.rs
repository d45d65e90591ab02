//! The commands of disks (SAM-5, SPC-4, SBC-3) and their effects on a logical unit.
//!
//! One file per family. A family has a row for each of its commands ([`info::CommandInfo`]) and the
//! functions that execute them; no other file depends on the command. A command ends at once,
//! answers with parameter data, or requests accesses to the LU's blocks. It never executes an
//! access itself.

mod block;
mod compare;
mod copy;
mod defects;
mod identify;
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

use hakaru_wire::scsi::{AccessState, Cdb, Lun, Sense, Status};

use self::info::{CommandInfo, Direction, Request, Sanitizing};
use self::reservation::{legacy, out, report};
use crate::config::LuDescription;
use crate::context::Device;
use crate::nexus::NexusState;
use crate::outcome::{Notice, Outcome, WRONG_DIRECTION};
use crate::port::Port;
use crate::unit::{LogicalUnit, LogicalUnits};
use crate::verdict::Verdict;

/// Command families of disks. Another device type would have its own list.
const FAMILIES: &[&[CommandInfo]] = &[
    block::ROWS,
    compare::ROWS,
    copy::ROWS,
    defects::ROWS,
    identify::ROWS,
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

const COMMANDS: usize = count();

/// All commands, ascending by operation code and service action.
static TABLE: [&CommandInfo; COMMANDS] = sorted();

/// Index in `TABLE` of the first command with an operation code.
static FIRST: [Option<u8>; 256] = first();

const fn count() -> usize {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
}

const fn sort_key(row: &CommandInfo) -> u32 {
    let action = match row.service_action {
        Some(action) => action as u32,
        None => 0,
    };
    (row.opcode() as u32) << 16 | action
}

/// Sorts the commands with an insertion sort at compile time.
const fn sorted() -> [&'static CommandInfo; COMMANDS] {
    let mut table = [&FAMILIES[0][0]; COMMANDS];
    let (mut length, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let mut row = 0;
        while row < FAMILIES[family].len() {
            let command = &FAMILIES[family][row];
            let mut at = length;
            while at > 0 && sort_key(table[at - 1]) > sort_key(command) {
                table[at] = table[at - 1];
                at -= 1;
            }
            table[at] = command;
            length += 1;
            row += 1;
        }
        family += 1;
    }
    table
}

const fn first() -> [Option<u8>; 256] {
    let mut first = [None; 256];
    let mut at = COMMANDS;
    while at > 0 {
        at -= 1;
        first[TABLE[at].opcode() as usize] = Some(at as u8);
    }
    first
}

/// Returns the row of a CDB. An unknown service action gets the first row of its operation code;
/// parsing refuses such a CDB.
fn find(cdb: &[u8]) -> Option<&'static CommandInfo> {
    let opcode = *cdb.first()?;
    let at = usize::from(FIRST[usize::from(opcode)]?);
    let row = TABLE[at];
    if row.service_action.is_none() {
        return Some(row);
    }
    let action = u16::from(cdb.get(1)? & 0x1f);
    let mut rows = TABLE[at..].iter().take_while(|row| row.opcode() == opcode);
    Some(
        rows.find(|row| row.service_action == Some(action))
            .unwrap_or(&row),
    )
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
    pub ports: Vec<Port>,
    /// Longest transfer of one command, bytes.
    pub transfer_bytes_max: u32,
    /// Parameter data of the last command.
    pub out: Vec<u8>,
    /// Consequences for other nexuses. The transport removes and delivers them.
    pub notices: Vec<Notice>,
}

impl DeviceServer {
    /// Creates a device server with `ports` target ports.
    ///
    /// # Panics
    /// In the cases in which [`LogicalUnits::new`] panics.
    #[must_use]
    pub fn new(
        target_name: &str,
        units: &[LuDescription],
        ports: usize,
        transfer_bytes_max: u32,
    ) -> Self {
        Self {
            units: LogicalUnits::new(target_name, units),
            ports: vec![Port::default(); ports],
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
            ports: &self.ports,
            out: &mut self.out,
            notices: &mut self.notices,
        }
    }
}

fn dispatch(device: &mut Device<'_>, lun: Lun, cdb: &[u8], directions: Directions) -> Outcome {
    let parsed = Cdb::parse(cdb);
    let row = find(cdb);
    let number = lun.number().and_then(|number| u8::try_from(number).ok());
    let Some(lu) = number.filter(|number| device.sees(*number)) else {
        return execute_without_unit(device, parsed.ok().zip(row));
    };
    let passes = row.is_some_and(|row| row.passes_attention) && parsed.is_ok();
    if device.nexus.has_attentions()
        && !passes
        && let Some(sense) = device.nexus.take_attention(lu)
    {
        return Outcome::check(sense);
    }
    let (cdb, row) = match (parsed, row) {
        (Ok(cdb), Some(row)) => (cdb, row),
        (Err(error), _) => return Outcome::check(error.sense()),
        (Ok(_), None) => return Outcome::check(Sense::INVALID_COMMAND_OPERATION_CODE),
    };
    if let Err(verdict) = admit(device, lu, &cdb, row) {
        return Outcome::End(verdict);
    }
    if !directions.fit(row.direction) {
        return Outcome::check(WRONG_DIRECTION);
    }
    let table = &TABLE;
    (row.execute)(device, &Request { lu, cdb, table })
}

/// Checks whether LU, port, access list, reservations and a sanitize operation admit a command.
fn admit(device: &Device<'_>, lu: u8, cdb: &Cdb, row: &CommandInfo) -> Result<(), Verdict> {
    let Some(unit) = device.units.get(lu) else {
        return Err(Verdict::Check(Sense::LOGICAL_UNIT_NOT_SUPPORTED));
    };
    if !row.availability.includes(unit) {
        return Err(Verdict::Check(Sense::INVALID_COMMAND_OPERATION_CODE));
    }
    let port = device.ports.get(usize::from(device.relative_port) - 1);
    let state = port.map_or(AccessState::default(), |port| port.state);
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
    match (Cdb::parse(cdb), find(cdb).and_then(|row| row.with_list)) {
        (Ok(cdb), Some(with_list)) => {
            let table = &TABLE;
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
            let table = &TABLE;
            without_unit(device, &Request { lu: 0, cdb, table })
        }
        None => Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
    }
}

#[cfg(test)]
mod tests;
