//! Task management (RFC 7143 section 11.5; SAM-5 section 7), which ends tasks of any connection.

use hakaru_scsi_device::Rights;
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::{
    CmdSn, Lun, Opcode, TaskManagementFunction as Function, TaskManagementRequest,
    TaskManagementResult,
};
use hakaru_wire::scsi::Sense;

use crate::connection::end::end;
use crate::connection::pdu::{EarlyPdu, Held};
use crate::connection::receive::deliver_held;
use crate::connection::session::Session;
use crate::endpoint::{Target, owner_of};
use crate::id::ConnectionId;
use crate::shared::Core;
use crate::shared::barriers::AfterAbort;
use crate::task::abort::abort;
use crate::task::{Access, Stage, Task};

/// Tasks that a function aborts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Tasks of one session on one LU.
    SessionAndUnit(ConnectionId, u8),
    /// Tasks of every session on one LU.
    Unit(u8),
    /// Every task.
    Everything,
}

impl Scope {
    fn covers(self, task: &Task) -> bool {
        if task.access == Access::Operation {
            return false;
        }
        match self {
            Scope::SessionAndUnit(connection, lu) => {
                task.connection == Some(connection) && task.names(lu)
            }
            Scope::Unit(lu) => task.names(lu),
            Scope::Everything => true,
        }
    }

    fn unit(self) -> Option<u8> {
        match self {
            Scope::SessionAndUnit(_, lu) | Scope::Unit(lu) => Some(lu),
            Scope::Everything => None,
        }
    }
}

impl Target {
    /// Serves a Task Management Function Request.
    pub(super) fn manage(
        &mut self,
        now: Time,
        connection: ConnectionId,
        request: &TaskManagementRequest,
    ) {
        let conn = self.connection(connection);
        let Some(rights) = conn.and_then(|conn| Some(conn.session()?.device.rights)) else {
            return;
        };
        // An initiator aborts each of its commands at most once before it waits for the answers.
        if self.core.barriers.answers_to(connection)
            >= self.core.config.limits.commands_max as usize
        {
            let itt = request.itt;
            return self.answer_management(connection, itt, TaskManagementResult::Rejected);
        }
        let units = &self.core.device.units;
        let number = request.lun.number();
        let unit = number.and_then(|number| u8::try_from(number).ok());
        let unit = unit.filter(|number| units.get(*number).is_some() && rights.sees(*number));
        let result = match request.function {
            Function::AbortTask => self.abort_one(now, connection, request),
            Function::AbortTaskSet | Function::ClearTaskSet | Function::LogicalUnitReset => {
                match unit {
                    Some(lu) => self.manage_unit(now, connection, request, lu, rights),
                    None => Some(TaskManagementResult::NoSuchLun),
                }
            }
            Function::TargetWarmReset | Function::TargetColdReset => {
                self.reset_target(now, connection, request, rights)
            }
            Function::TaskReassign => Some(TaskManagementResult::ReassignNotSupported),
            Function::ClearAca | Function::Other(_) => Some(TaskManagementResult::NotSupported),
        };
        if let Some(result) = result {
            self.answer_management(connection, request.itt, result);
        }
    }

    /// Serves a function that concerns one LU. Returns `None` if the answer is sent already or
    /// waits for the storage.
    fn manage_unit(
        &mut self,
        now: Time,
        connection: ConnectionId,
        request: &TaskManagementRequest,
        lu: u8,
        rights: Rights,
    ) -> Option<TaskManagementResult> {
        if request.function == Function::AbortTaskSet {
            let scope = Scope::SessionAndUnit(connection, lu);
            self.abort_all(now, scope, request, connection);
            return None;
        }
        // The other functions end tasks of other initiators, which a read-only initiator may not.
        if !rights.writes(lu) {
            return Some(TaskManagementResult::NotAuthorized);
        }
        if request.function == Function::LogicalUnitReset {
            self.reset_units(&[lu]);
        } else {
            self.report_cleared(lu, connection);
        }
        self.abort_all(now, Scope::Unit(lu), request, connection);
        None
    }

    /// Serves TARGET WARM RESET and TARGET COLD RESET. They also reset LUs that the initiator does
    /// not see, so it must be allowed to write all LUs.
    fn reset_target(
        &mut self,
        now: Time,
        connection: ConnectionId,
        request: &TaskManagementRequest,
        rights: Rights,
    ) -> Option<TaskManagementResult> {
        let all: Vec<u8> = self.core.device.units.numbers().collect();
        if !all.iter().all(|lu| rights.writes(*lu)) {
            return Some(TaskManagementResult::NotAuthorized);
        }
        self.reset_units(&all);
        self.abort_all(now, Scope::Everything, request, connection);
        None
    }

    /// Serves ABORT TASK. Returns `None` if the answer waits for the storage.
    fn abort_one(
        &mut self,
        now: Time,
        connection: ConnectionId,
        request: &TaskManagementRequest,
    ) -> Option<TaskManagementResult> {
        let entry = self.connections.get(connection.0)?;
        let window = entry.conn.link.window;
        let key = entry.conn.session()?.tasks.get(request.referenced_task_tag);
        let on_lun = |key: &Key| {
            let task = self.core.tasks.get(*key);
            task.is_some_and(|task| task.lun == request.lun)
        };
        if let Some(key) = key.filter(on_lun) {
            if self.abort(key) {
                let itt = request.itt;
                let action = AfterAbort::Answer { connection, itt };
                self.core.barriers.add(vec![key], action);
                return None;
            }
            self.resume_waiting(now);
            return Some(TaskManagementResult::Complete);
        }
        // A command that is still to come, or is held, counts as received and aborted (RFC 7143
        // section 11.6.1).
        let ref_cmd_sn = request.ref_cmd_sn;
        let missing = ref_cmd_sn.within(window.expected, request.cmd_sn.minus(1));
        if key.is_none() && missing && window.contains(ref_cmd_sn) {
            if let Some(entry) = self.connections.get_mut(connection.0)
                && let Some(session) = entry.conn.session_mut()
            {
                abort_held(session, &mut self.core, ref_cmd_sn);
            }
            self.deliver_held(now, connection);
            return Some(TaskManagementResult::Complete);
        }
        Some(TaskManagementResult::NoSuchTask)
    }

    /// Delivers the held PDUs that are next in order.
    fn deliver_held(&mut self, now: Time, connection: ConnectionId) {
        while let Some(entry) = self.connections.get_mut(connection.0)
            && deliver_held(&mut entry.conn, &mut self.core, now)
        {
            self.settle(now);
        }
    }

    /// Establishes a unit attention condition for the other sessions whose tasks CLEAR TASK SET
    /// ends (SAM-5 section 7.5).
    fn report_cleared(&mut self, lu: u8, connection: ConnectionId) {
        for (_, task) in self.core.tasks.iter() {
            if task.names(lu)
                && task.stage != Stage::Aborted
                && let Some(owner) = task.connection
                && owner != connection
                && let Some(entry) = self.connections.get_mut(owner.0)
                && let Some(session) = entry.conn.session_mut()
            {
                let sense = Sense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR;
                session.device.attend(lu, sense);
            }
        }
    }

    /// Resets LUs, except for their tasks. The LUs are started, and every session gets a unit
    /// attention condition.
    fn reset_units(&mut self, units: &[u8]) {
        for &lu in units {
            self.core.device.units.reset(lu);
            self.attend_all(Some(lu), Sense::BUS_DEVICE_RESET_FUNCTION, None);
        }
    }

    /// Aborts every task in scope, and held commands that precede the request. The request is
    /// answered when the storage has ended the tasks.
    fn abort_all(
        &mut self,
        now: Time,
        scope: Scope,
        request: &TaskManagementRequest,
        connection: ConnectionId,
    ) {
        let tasks = self.core.tasks.iter();
        let covered = tasks.filter(|(_, task)| scope.covers(task));
        let covered: Vec<Key> = covered.map(|(key, _)| key).collect();
        let unfinished: Vec<Key> = covered.into_iter().filter(|key| self.abort(*key)).collect();
        if let Some(entry) = self.connections.get_mut(connection.0)
            && let Some(session) = entry.conn.session_mut()
        {
            abort_held_commands(session, &mut self.core, scope.unit(), request.cmd_sn);
        }
        self.resume_waiting(now);
        let itt = request.itt;
        let action = match request.function {
            Function::TargetColdReset => AfterAbort::ColdReset { connection, itt },
            _ => AfterAbort::Answer { connection, itt },
        };
        if unfinished.is_empty() {
            self.after_abort(now, action);
        } else {
            self.core.barriers.add(unfinished, action);
        }
    }

    /// Ends a task of any connection without an answer. Returns true if the storage still executes
    /// it.
    pub(super) fn abort(&mut self, key: Key) -> bool {
        let mut conn = owner_of(&mut self.connections, &self.core, key);
        abort(conn.as_mut(), &mut self.core, key)
    }

    /// Ends every session for TARGET COLD RESET. Each initiator port gets a unit attention
    /// condition when it logs in again (RFC 7143 section 11.5.1).
    pub(super) fn end_all_sessions(&mut self, now: Time) {
        let sessions = self.core.sessions.by_name.clone();
        for name in sessions.keys().filter(|name| !name.discovery) {
            self.core.sessions.owe_attention(name);
        }
        for connection in sessions.into_values() {
            if let Some(entry) = self.connections.get_mut(connection.0) {
                end(&mut entry.conn, &mut self.core, now);
            }
        }
    }
}

/// Notes that the command with this number was aborted before it was delivered.
fn abort_held(session: &mut Session, core: &mut Core, cmd_sn: CmdSn) {
    let held = session.take_held(cmd_sn);
    session.held.push((cmd_sn, Held::Aborted));
    if let Some(Held::Pdu(pdu)) = held {
        core.outbox.freed |= session.release_payload(&mut core.buffers, pdu.payload);
    }
}

/// Aborts held commands that were sent before a function and are in its scope.
fn abort_held_commands(session: &mut Session, core: &mut Core, lu: Option<u8>, before: CmdSn) {
    let lun = lu.map(|lu| Lun::new(lu.into()));
    let in_scope = |cmd_sn: &CmdSn, held: &Held| match held {
        Held::Pdu(EarlyPdu { bhs, .. }) => {
            cmd_sn.precedes(before)
                && bhs.opcode() == Some(Opcode::ScsiCommand)
                && lun.is_none_or(|lun| bhs.lun() == lun)
        }
        Held::Aborted => false,
    };
    let covered: Vec<CmdSn> = session
        .held
        .iter()
        .filter(|(cmd_sn, held)| in_scope(cmd_sn, held))
        .map(|(cmd_sn, _)| *cmd_sn)
        .collect();
    for cmd_sn in covered {
        abort_held(session, core, cmd_sn);
    }
}
