//! Task management (RFC 7143 section 11.5; SAM-5 section 7), and the end of tasks that nobody answers any more.
//!
//! A task that is with the storage cannot be called back. It is marked aborted; what was to follow its end (the answer to the function, the
//! login that replaces its session) waits in a [`Barrier`], so that an aborted write never changes a block afterwards.

use hakaru_scsi_device::{IoId, Rights};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::{
    Bhs, CmdSn, Itt, LoginStatus, Lun, Opcode, RejectReason, TaskManagementFunction,
    TaskManagementRequest, TaskManagementResponse, TaskManagementResult,
};
use hakaru_wire::scsi::Sense;

use crate::connection::{Phase, Sink};
use crate::id::ConnectionId;
use crate::session::{EarlyPdu, Held};

use crate::target::Target;
use crate::task::{Access, Stage, Task};

/// What follows when the last of some tasks has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// A task management function is answered: function complete.
    Answer { connection: ConnectionId, itt: Itt },
    /// The same, and every session ends.
    ColdReset { connection: ConnectionId, itt: Itt },
    /// A command that has aborted others ends.
    FinishTask { task: Key },
    /// A session takes the place of an older one.
    BeginSession { connection: ConnectionId },
}

/// Tasks that must end before something.
#[derive(Debug)]
pub(crate) struct Barrier {
    pub(crate) tasks: Vec<Key>,
    pub(crate) then: Then,
}

/// Which tasks a function aborts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Those of one session on one LU.
    SessionAndUnit(ConnectionId, u8),
    /// Those of every session on one LU.
    Unit(u8),
    /// All.
    Everything,
}

impl Scope {
    fn covers(self, task: &Task) -> bool {
        if task.access == Access::Operation {
            return false;
        }
        match self {
            Scope::SessionAndUnit(connection, lu) => task.connection == connection && task.lu == lu,
            Scope::Unit(lu) => task.lu == lu,
            Scope::Everything => true,
        }
    }
}

impl Target {
    /// A Task Management Function Request.
    pub(crate) fn task_management(
        &mut self,
        now: Time,
        connection: ConnectionId,
        bhs: &Bhs,
    ) -> Result<(), RejectReason> {
        use TaskManagementFunction as Function;
        let request =
            TaskManagementRequest::parse(bhs).map_err(|_| RejectReason::InvalidPduField)?;
        let session = self
            .connections
            .get(connection.0)
            .and_then(|conn| conn.session());
        if session.is_none_or(|session| session.discovery) {
            return Err(RejectReason::ProtocolError);
        }
        self.counters.sessions.task_management += 1;
        let unit = request
            .lun
            .number()
            .and_then(|number| u8::try_from(number).ok());
        let rights = session.map_or(Rights::ALL, |session| session.device.rights);
        let unit = unit.filter(|number| self.lus.get(*number).is_some() && rights.sees(*number));
        let everything = self.lus.numbers().all(|lu| rights.writes(lu));
        let result = match (request.function, unit) {
            (Function::AbortTask, _) => self.abort_one(now, connection, &request),
            (
                Function::AbortTaskSet | Function::ClearTaskSet | Function::LogicalUnitReset,
                None,
            ) => Some(TaskManagementResult::NoSuchLun),
            (Function::AbortTaskSet, Some(lu)) => self.abort_all(
                now,
                Scope::SessionAndUnit(connection, lu),
                None,
                &request,
                connection,
            ),
            // These end the tasks of others: not for who may only read.
            (Function::ClearTaskSet | Function::LogicalUnitReset, Some(lu))
                if !rights.writes(lu) =>
            {
                Some(TaskManagementResult::NotAuthorized)
            }
            (Function::ClearTaskSet, Some(lu)) => {
                self.clear_task_set(now, lu, &request, connection)
            }
            (Function::LogicalUnitReset, Some(lu)) => {
                self.reset_units(&[lu]);
                self.abort_all(now, Scope::Unit(lu), Some(lu), &request, connection)
            }
            // And these on LUs that this initiator does not even see.
            (Function::TargetWarmReset | Function::TargetColdReset, _) if !everything => {
                Some(TaskManagementResult::NotAuthorized)
            }
            (Function::TargetWarmReset | Function::TargetColdReset, _) => {
                let all: Vec<u8> = self.lus.numbers().collect();
                self.reset_units(&all);
                self.abort_all(now, Scope::Everything, None, &request, connection)
            }
            (Function::TaskReassign, _) => Some(TaskManagementResult::ReassignNotSupported),
            (Function::ClearAca | Function::Other(_), _) => {
                Some(TaskManagementResult::NotSupported)
            }
        };
        if let Some(result) = result {
            self.answer_management(connection, request.itt, result);
        }
        Ok(())
    }

    /// ABORT TASK. `None`: the answer waits for the storage.
    fn abort_one(
        &mut self,
        now: Time,
        connection: ConnectionId,
        request: &TaskManagementRequest,
    ) -> Option<TaskManagementResult> {
        let conn = self.connections.get(connection.0)?;
        let window = conn.window;
        let key = conn.session()?.tasks.get(request.referenced_task_tag);
        if let Some(key) = key.filter(|key| {
            self.tasks
                .get(*key)
                .is_some_and(|task| task.lun == request.lun)
        }) {
            if self.abort(key) {
                self.wait_for(
                    vec![key],
                    Then::Answer {
                        connection,
                        itt: request.itt,
                    },
                );
                return None;
            }
            self.start_budgeted(now);
            return Some(TaskManagementResult::Complete);
        }
        // A command that did not come yet, or is held: it counts as come, and as aborted (RFC 7143 section 11.6.1).
        let missing = request
            .ref_cmd_sn
            .within(window.expected, request.cmd_sn.minus(1));
        if key.is_none() && missing && window.contains(request.ref_cmd_sn) {
            self.abort_held(connection, request.ref_cmd_sn);
            self.deliver_held(now, connection);
            return Some(TaskManagementResult::Complete);
        }
        Some(TaskManagementResult::NoSuchTask)
    }

    fn abort_held(&mut self, connection: ConnectionId, cmd_sn: CmdSn) {
        let Some(session) = self
            .connections
            .get_mut(connection.0)
            .and_then(|conn| conn.session_mut())
        else {
            return;
        };
        let held = session.take_held(cmd_sn);
        session.held.push((cmd_sn, Held::Aborted));
        if let Some(Held::Pdu(mut pdu)) = held {
            self.release_payload(connection, &mut pdu.payload);
        }
    }

    /// CLEAR TASK SET: the other sessions whose tasks it ends are told (SAM-5 section 7.5).
    fn clear_task_set(
        &mut self,
        now: Time,
        lu: u8,
        request: &TaskManagementRequest,
        connection: ConnectionId,
    ) -> Option<TaskManagementResult> {
        let others: Vec<ConnectionId> = self
            .tasks
            .iter()
            .filter(|(_, task)| {
                task.lu == lu
                    && task.connection != connection
                    && task.stage != Stage::Aborted
                    && task.access != Access::Operation
            })
            .map(|(_, task)| task.connection)
            .collect();
        for other in others {
            if let Some(session) = self
                .connections
                .get_mut(other.0)
                .and_then(|conn| conn.session_mut())
            {
                session
                    .device
                    .attend(lu, Sense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR);
            }
        }
        self.abort_all(now, Scope::Unit(lu), Some(lu), request, connection)
    }

    /// Establishes what a reset of LUs does besides ending tasks: they run, and every session is told.
    fn reset_units(&mut self, units: &[u8]) {
        for &lu in units {
            if let Some(unit) = self.lus.get_mut(lu) {
                unit.reset();
            }
            self.attend_all(Some(lu), Sense::BUS_DEVICE_RESET_FUNCTION, None);
        }
    }

    /// Aborts every task in scope, held commands before the request among them. `None`: the answer waits for the storage.
    fn abort_all(
        &mut self,
        now: Time,
        scope: Scope,
        unit: Option<u8>,
        request: &TaskManagementRequest,
        connection: ConnectionId,
    ) -> Option<TaskManagementResult> {
        let covered = self.tasks.iter().filter(|(_, task)| scope.covers(task));
        let covered: Vec<(Key, bool)> = covered
            .map(|(key, task)| (key, task.stage == Stage::Aborted))
            .collect();
        let mut unfinished = Vec::new();
        for (key, aborted_before) in covered {
            if aborted_before || self.abort(key) {
                unfinished.push(key);
            }
        }
        let of_unit = unit.or(match scope {
            Scope::SessionAndUnit(_, lu) | Scope::Unit(lu) => Some(lu),
            Scope::Everything => None,
        });
        self.abort_held_commands(connection, of_unit, request.cmd_sn);
        self.start_budgeted(now);
        let then = match request.function {
            TaskManagementFunction::TargetColdReset => Then::ColdReset {
                connection,
                itt: request.itt,
            },
            _ => Then::Answer {
                connection,
                itt: request.itt,
            },
        };
        if unfinished.is_empty() {
            self.go_on(now, then);
        } else {
            self.wait_for(unfinished, then);
        }
        None
    }

    /// Commands that are held for their order and were sent before the function are in its scope too.
    fn abort_held_commands(&mut self, connection: ConnectionId, lu: Option<u8>, before: CmdSn) {
        let lun = lu.map(|lu| Lun::new(lu.into()));
        let Some(session) = self
            .connections
            .get_mut(connection.0)
            .and_then(|conn| conn.session_mut())
        else {
            return;
        };
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
        covered
            .into_iter()
            .for_each(|cmd_sn| self.abort_held(connection, cmd_sn));
    }

    fn answer_management(
        &mut self,
        connection: ConnectionId,
        itt: Itt,
        result: TaskManagementResult,
    ) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        if conn.session().is_none() {
            return;
        }
        let response = TaskManagementResponse {
            result,
            itt,
            numbers: conn.status_numbers(),
        };
        let mut header = [0; 48];
        response.emit(&mut header);
        conn.send(&header, &[]);
        self.announce(connection);
    }

    /// Ends a task without an answer. True: it is with the storage, and its end is still to come.
    pub(crate) fn abort(&mut self, key: Key) -> bool {
        match self.tasks.get(key).map(|task| task.stage) {
            None => false,
            Some(Stage::Aborted) => true,
            Some(Stage::Io) => {
                self.release_copying(key);
                self.list_unwanted(key);
                if let Some(task) = self.tasks.get_mut(key) {
                    task.stage = Stage::Aborted;
                    let (connection, itt) = (task.connection, task.itt);
                    if let Some(session) = self
                        .connections
                        .get_mut(connection.0)
                        .and_then(|conn| conn.session_mut())
                    {
                        session.tasks.remove(itt);
                        session.aborted.push(key);
                    }
                }
                true
            }
            Some(
                Stage::DataOut
                | Stage::Budget
                | Stage::Transmit
                | Stage::Range
                | Stage::Operation
                | Stage::Barrier,
            ) => {
                self.release_copying(key);
                self.remove_task(key);
                false
            }
        }
    }

    /// Lists an access that the storage may end early. A shell need not ask for them, so those that have ended meanwhile are dropped now and
    /// then.
    fn list_unwanted(&mut self, key: Key) {
        if self.unwanted.len() > 64 + 2 * self.tasks.len() {
            self.unwanted.retain(|id| self.tasks.get(id.0).is_some());
        }
        self.unwanted.push_back(IoId(key));
    }

    /// The storage has ended an aborted task.
    pub(crate) fn finish_aborted(&mut self, now: Time, key: Key) {
        let Some(task) = self.remove_task(key) else {
            return;
        };
        match self
            .connections
            .get_mut(task.connection.0)
            .and_then(|conn| conn.session_mut())
        {
            Some(session) => session.aborted.retain(|aborted| *aborted != key),
            None => self.remains.remove(task.connection, key),
        }
        let mut done = Vec::new();
        self.barriers.retain_mut(|barrier| {
            barrier.tasks.retain(|task| *task != key);
            if barrier.tasks.is_empty() {
                done.push(barrier.then);
            }
            !barrier.tasks.is_empty()
        });
        done.into_iter().for_each(|then| self.go_on(now, then));
        self.start_budgeted(now);
    }

    pub(crate) fn wait_for(&mut self, tasks: Vec<Key>, then: Then) {
        self.barriers.push(Barrier { tasks, then });
    }

    fn go_on(&mut self, now: Time, then: Then) {
        match then {
            Then::Answer { connection, itt } => {
                self.answer_management(connection, itt, TaskManagementResult::Complete);
            }
            Then::ColdReset { connection, itt } => {
                self.answer_management(connection, itt, TaskManagementResult::Complete);
                self.end_all_sessions(now);
            }
            Then::FinishTask { task } => {
                // Its reservations may still be on their way to stable storage; then that is the last.
                let waits = self.tasks.get(task);
                if waits.is_some_and(|task| task.stage == Stage::Barrier) {
                    self.finish_when_alone(now, task);
                }
            }
            Then::BeginSession { connection } => {
                if let Err(status) = self.begin_session(now, connection) {
                    self.refuse_login(now, connection, status);
                }
                self.announce(connection);
            }
        }
    }

    /// TARGET COLD RESET ends every session; each initiator port is told when it comes again (RFC 7143 section 11.5.1).
    fn end_all_sessions(&mut self, now: Time) {
        let all: Vec<ConnectionId> = self.sessions.by_name.values().copied().collect();
        let names: Vec<_> = self.sessions.by_name.keys().cloned().collect();
        for name in names.iter().filter(|name| !name.discovery) {
            self.sessions.owe_attention(name);
        }
        all.into_iter()
            .for_each(|connection| self.end(now, connection));
    }

    /// Ends every task of a session without an answer, and lets go of everything it holds against a budget. Gives the tasks that the
    /// storage still has.
    pub(crate) fn abort_session(&mut self, connection: ConnectionId) -> Vec<Key> {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Vec::new();
        };
        let sink = core::mem::replace(&mut conn.sink, Sink::DISCARD);
        let Phase::FullFeature(session) = &mut conn.phase else {
            return Vec::new();
        };
        let tasks: Vec<Key> = session.tasks.tasks().collect();
        let held = core::mem::take(&mut session.held);
        session.waiting.clear();
        if let Sink::Payload(mut payload) = sink {
            self.release_payload(connection, &mut payload);
        }
        for (_, held) in held {
            if let Held::Pdu(mut pdu) = held {
                self.release_payload(connection, &mut pdu.payload);
            }
        }
        for key in tasks {
            self.abort(key);
        }
        let session = self
            .connections
            .get_mut(connection.0)
            .and_then(|conn| conn.session_mut());
        session.map_or_else(Vec::new, |session| core::mem::take(&mut session.aborted))
    }

    /// A login that waited for too long for an older session to end.
    pub(crate) fn give_up_login(&mut self, now: Time, connection: ConnectionId) {
        self.barriers
            .retain(|barrier| barrier.then != Then::BeginSession { connection });
        self.refuse_login(now, connection, LoginStatus::SERVICE_UNAVAILABLE);
    }
}
