//! SCSI Command PDUs: admission, what the SCSI layer says to them, and their beginning.

use hakaru_scsi_device::{
    Device, Directions, Io, IoId, IoOp, LogicalUnit, Outcome, Verdict, WRONG_DIRECTION,
};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::{Itt, RejectReason, Residual, ScsiCommand, ahs};
use hakaru_wire::scsi::{Sense, Status};

use crate::answer::{DataIn, send_good, send_response};
use crate::connection::Connection;
use crate::id::ConnectionId;
use crate::login::port_number;

use crate::session::{Payload, Pdu};

use crate::steps::check_length;
use crate::target::Target;
use crate::task::{Access, Inbound, Stage, Task};

impl Target {
    /// A SCSI command; the payload is its immediate data.
    pub(crate) fn scsi_command(
        &mut self,
        now: Time,
        connection: ConnectionId,
        pdu: &mut Pdu<'_>,
    ) -> Result<(), RejectReason> {
        let Ok(command) = ScsiCommand::parse(pdu.bhs) else {
            return Err(RejectReason::InvalidPduField);
        };
        self.admit(connection, &command, pdu.ahs)?;
        if self.tasks.len() >= self.config.limits.tasks_max as usize {
            let full = Verdict::Status(Status::TASK_SET_FULL);
            self.end_early(now, connection, &command, full);
            return Ok(());
        }
        let directions = Directions {
            read: command.read,
            write: command.write,
        };
        let outcome = self.execute(connection, |device| {
            hakaru_scsi_device::execute(device, command.lun, &command.cdb, directions)
        });
        match self.check_unsolicited(connection, &command, &pdu.payload) {
            Some(verdict) if !matches!(outcome, Outcome::End(Verdict::Check(_))) => {
                self.end_early(now, connection, &command, verdict);
            }
            _ => self.carry_out(now, connection, &command, outcome, &mut pdu.payload),
        }
        Ok(())
    }

    /// What the SCSI layer, which `ask` calls, says to a command.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        connection: ConnectionId,
        ask: impl FnOnce(&mut Device<'_>) -> Outcome,
    ) -> Outcome {
        self.scratch.clear();
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Outcome::NOTHING;
        };
        let relative_port = port_number(conn.portal);
        let Some(session) = conn.session_mut() else {
            return Outcome::NOTHING;
        };
        let mut device = Device {
            units: &mut self.lus,
            nexus: &mut session.device,
            transfer_bytes_max: self.config.limits.transfer_bytes_max,
            relative_port,
            ports: &self.ports,
            out: &mut self.scratch,
            notices: &mut self.notices,
        };
        let outcome = ask(&mut device);
        if !self.notices.is_empty() {
            self.tell(connection);
        }
        outcome
    }

    /// Begins what the SCSI layer has made of a command.
    fn carry_out(
        &mut self,
        now: Time,
        connection: ConnectionId,
        command: &ScsiCommand,
        outcome: Outcome,
        payload: &mut Payload,
    ) {
        match outcome {
            Outcome::Read {
                lu,
                offset_bytes,
                length_bytes,
            } if !command.write => {
                let range = (offset_bytes, length_bytes);
                self.start_read(now, connection, command, lu, range);
            }
            Outcome::Flush { lu } if command.is_final => {
                self.start_flush(now, connection, command, lu)
            }
            Outcome::Write {
                lu,
                offset_bytes,
                length_bytes,
                fua,
            } => {
                let access = Access::Write {
                    offset_bytes,
                    length_bytes,
                    fua,
                };
                self.start_write(now, connection, command, lu, access, payload);
            }
            Outcome::Parameters { lu, length_bytes } => {
                let access = Access::Parameters { length_bytes };
                self.start_write(now, connection, command, lu, access, payload);
            }
            Outcome::Program(job) => match check_length(command, &job) {
                Ok(()) => self.start_program(now, connection, command, *job, payload),
                Err(sense) => self.end_early(now, connection, command, Verdict::Check(sense)),
            },
            Outcome::Operation { job, immediate } if command.is_final => {
                self.start_operation_of(now, connection, command, *job, immediate);
            }
            Outcome::Data if !command.write => self.send_parameter_data(connection, command),
            Outcome::End(verdict) => self.end_early(now, connection, command, verdict),
            // The initiator prepared for a write and has no buffer for what is read: nothing moves.
            Outcome::Read { .. } | Outcome::Data => {
                let verdict = Verdict::Status(Status::GOOD);
                self.end_early(now, connection, command, verdict);
            }
            // Data is still to come for a command that takes none.
            _ => self.end_early(now, connection, command, Verdict::Check(WRONG_DIRECTION)),
        }
    }

    /// Whether the command may become a task at all.
    fn admit(
        &self,
        connection: ConnectionId,
        command: &ScsiCommand,
        ahs: &[u8],
    ) -> Result<(), RejectReason> {
        let session = self
            .connections
            .get(connection.0)
            .and_then(Connection::session);
        let session = session.ok_or(RejectReason::ProtocolError)?;
        if session.discovery {
            return Err(RejectReason::ProtocolError);
        }
        if command.itt == Itt::RESERVED
            || !ahs.is_empty() && ahs::parse_all(ahs).any(|one| one.is_err())
        {
            return Err(RejectReason::InvalidPduField);
        }
        if session.tasks.contains(command.itt) {
            return Err(RejectReason::TaskInProgress);
        }
        if command.immediate
            && session.immediate_in_flight >= self.config.limits.immediate_commands_max
        {
            return Err(RejectReason::ImmediateCommandReject);
        }
        Ok(())
    }

    /// Data that comes unasked must have been agreed on (RFC 7143 sections 11.4.7.2, 13.10, 13.11 and 13.14).
    fn check_unsolicited(
        &self,
        connection: ConnectionId,
        command: &ScsiCommand,
        payload: &Payload,
    ) -> Option<Verdict> {
        let came = command.data_segment_length;
        if came == 0 && command.is_final {
            return None;
        }
        let agreed = self.connections.get(connection.0)?.session()?.parameters;
        if came > 0 && !agreed.immediate_data || !command.is_final && agreed.initial_r2t {
            return Some(Verdict::Check(Sense::UNEXPECTED_UNSOLICITED_DATA));
        }
        if came
            > agreed
                .first_burst_length
                .min(command.expected_data_transfer_length)
        {
            return Some(Verdict::Check(Sense::UNEXPECTED_UNSOLICITED_DATA));
        }
        matches!(payload, Payload::Refused).then_some(Verdict::Status(Status::TASK_SET_FULL))
    }

    /// Ends a command without an access to its LU; if unsolicited data is still to come, once that went by.
    fn end_early(
        &mut self,
        now: Time,
        connection: ConnectionId,
        command: &ScsiCommand,
        verdict: Verdict,
    ) {
        if command.is_final {
            let residual = Residual::between(command.expected_data_transfer_length, 0);
            let format = self.lus.sense_format(command.lun);
            if let Some(conn) = self.connections.get_mut(connection.0) {
                send_response(conn, command.itt, verdict, format, residual, 0);
            }
            return;
        }
        let mut task = new_task(now, connection, command, 0, Access::Nothing);
        task.verdict = Some(verdict);
        task.inbound.unsolicited_open = true;
        task.inbound.next_offset = command.data_segment_length;
        self.insert_task(connection, command, || task);
    }

    /// Answers with the parameter data that the SCSI layer left in `scratch`.
    fn send_parameter_data(&mut self, connection: ConnectionId, command: &ScsiCommand) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        let expected = if command.read {
            command.expected_data_transfer_length
        } else {
            0
        };
        let available = self.scratch.len();
        let moved = available.min(expected as usize);
        let residual = Residual::between(expected, available as u64);
        if moved == 0 {
            send_good(conn, command.itt, residual, 0);
        } else {
            DataIn {
                itt: command.itt,
                length_bytes: moved as u32,
                residual,
            }
            .send_copy(conn, &self.scratch[..moved]);
        }
    }

    fn start_read(
        &mut self,
        now: Time,
        connection: ConnectionId,
        command: &ScsiCommand,
        lu: u8,
        (offset_bytes, length_bytes): (u64, u32),
    ) {
        let access = Access::Read {
            offset_bytes,
            length_bytes,
        };
        let expected_bytes = if command.read {
            command.expected_data_transfer_length
        } else {
            0
        };
        if expected_bytes.min(access.bytes()) == 0 {
            self.finish_without_io(connection, command.itt, expected_bytes, access);
            return;
        }
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        let Some(unit) = self.lus.get(lu) else {
            return;
        };
        let (key, task) = self.tasks.insert_with(|_| Task {
            stage: Stage::Transmit,
            ..new_task(now, connection, command, lu, access)
        });
        conn.take_up(command, key);
        let first = conn
            .session()
            .is_some_and(|session| session.waiting.is_empty());
        if first && conn.may_read(self.config.limits.transmit_bytes_max) {
            let range = (offset_bytes, length_bytes);
            self.ios.push_back(ask_read(conn, unit, key, task, range));
            return;
        }
        if let Some(session) = conn.session_mut() {
            session.waiting.push_back(key);
        }
        self.start_waiting(now, connection);
    }

    /// Lets tasks that wait for earlier answers of the connection go on, in turn.
    pub(crate) fn start_waiting(&mut self, now: Time, connection: ConnectionId) {
        while let Some(key) = self.next_waiting(connection) {
            self.admit_read(now, key);
        }
    }

    #[inline]
    fn next_waiting(&mut self, connection: ConnectionId) -> Option<Key> {
        let limit = self.config.limits.transmit_bytes_max;
        let conn = self.connections.get_mut(connection.0)?;
        let nobody = conn
            .session()
            .is_none_or(|session| session.waiting.is_empty());
        if nobody || !conn.may_read(limit) {
            return None;
        }
        conn.session_mut()?.waiting.pop_front()
    }

    /// There is room for what a task reads.
    fn admit_read(&mut self, now: Time, key: Key) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let Access::Read {
            offset_bytes,
            length_bytes,
        } = task.access
        else {
            return self.admit_program(now, key);
        };
        let conn = self.connections.get_mut(task.connection.0);
        if let (Some(conn), Some(unit)) = (conn, self.lus.get(task.lu)) {
            let range = (offset_bytes, length_bytes);
            self.ios.push_back(ask_read(conn, unit, key, task, range));
        }
    }

    fn start_flush(&mut self, now: Time, connection: ConnectionId, command: &ScsiCommand, lu: u8) {
        let mut task = new_task(now, connection, command, lu, Access::Flush);
        task.stage = Stage::Io;
        let key = self.insert_task(connection, command, || task);
        self.ios.push_back(Io {
            id: IoId(key),
            lun: lu,
            op: IoOp::Flush,
        });
    }

    fn start_write(
        &mut self,
        now: Time,
        connection: ConnectionId,
        command: &ScsiCommand,
        lu: u8,
        access: Access,
        payload: &mut Payload,
    ) {
        let mut task = new_task(now, connection, command, lu, access);
        if !command.write {
            task.expected_bytes = 0;
        }
        let wanted_bytes = task.expected_bytes.min(access.bytes());
        task.inbound = Inbound {
            wanted_bytes,
            next_offset: command.data_segment_length,
            unsolicited_open: !command.is_final,
            ..Inbound::default()
        };
        // A parameter list that is not there is still a parameter list: one that is too short.
        let takes_list = matches!(task.access, Access::Parameters { .. });
        if wanted_bytes == 0 && command.is_final && !takes_list {
            self.finish_without_io(connection, task.itt, task.expected_bytes, access);
            return;
        }
        task.take_payload(payload);
        task.stage = Stage::DataOut;
        let key = self.insert_task(connection, command, || task);
        self.go_on_writing(now, key);
    }

    /// Ends a command that turned out to move nothing.
    fn finish_without_io(
        &mut self,
        connection: ConnectionId,
        itt: Itt,
        expected_bytes: u32,
        access: Access,
    ) {
        let residual = Residual::between(expected_bytes, u64::from(access.bytes()));
        if let Some(conn) = self.connections.get_mut(connection.0) {
            send_good(conn, itt, residual, 0);
        }
    }
}

pub(crate) fn new_task(
    now: Time,
    connection: ConnectionId,
    command: &ScsiCommand,
    lu: u8,
    access: Access,
) -> Task {
    Task {
        connection,
        itt: command.itt,
        lun: command.lun,
        lu,
        cdb: command.cdb,
        immediate: command.immediate,
        expected_bytes: command.expected_data_transfer_length,
        access,
        stage: Stage::DataOut,
        active: now,
        inbound: Inbound::default(),
        data: Vec::new(),
        reserved_bytes: 0,
        copying_bytes: 0,
        verdict: None,
        job: None,
    }
}

/// What the storage is asked for a task that reads.
#[inline]
fn ask_read(
    conn: &mut Connection,
    unit: &LogicalUnit,
    key: Key,
    task: &mut Task,
    (offset_bytes, length_bytes): (u64, u32),
) -> Io {
    task.stage = Stage::Io;
    // Only as much as will be sent, in whole blocks.
    let length_bytes = if task.expected_bytes < length_bytes {
        task.expected_bytes.next_multiple_of(unit.block_bytes)
    } else {
        length_bytes
    };
    let in_place = unit.in_place && conn.sends_in_place(unit.block_bytes);
    if !in_place && let Some(session) = conn.session_mut() {
        session.copying_bytes += u64::from(length_bytes);
        task.copying_bytes = length_bytes;
    }
    Io {
        id: IoId(key),
        lun: task.lu,
        op: IoOp::Read {
            offset_bytes,
            length_bytes,
            in_place,
        },
    }
}
