//! Settles the effects of one connection on others.

use hakaru_scsi_device::{Nexus, Notice, Outcome};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::{LoginStatus, TaskManagementResult};
use hakaru_wire::scsi::Sense;

use crate::connection::Phase;
use crate::connection::control::answer_management;
use crate::connection::end::end;
use crate::connection::session::SessionName;
use crate::endpoint::{Entry, Target, owner_of};
use crate::id::ConnectionId;
use crate::login::begin::begin_session;
use crate::login::{hold_text, refuse};
use crate::shared::Core;
use crate::shared::barriers::AfterAbort;
use crate::shared::outbox::Effect;
use crate::task::Stage;
use crate::task::answer::finish;
use crate::task::parameters::{abandon, finish_after_aborts, resume};

impl Target {
    /// Settles all effects, including those that result from settling others.
    pub(super) fn settle(&mut self, now: Time) {
        while self.core.outbox.is_unsettled() {
            if let Some(effect) = self.core.outbox.effects.pop_front() {
                self.settle_effect(now, effect);
            } else {
                self.core.outbox.freed = false;
                self.resume_waiting(now);
            }
        }
    }

    fn settle_effect(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Manage {
                connection,
                request,
            } => self.manage(now, connection, &request),
            Effect::BeginSession { connection } => self.replace_session(now, connection),
            Effect::Notify { connection, resume } => self.notify(connection, resume),
            Effect::FinishTask { task, verdict } => {
                if let Some(mut conn) = owner_of(&mut self.connections, &self.core, task) {
                    finish(&mut conn, &mut self.core, task, verdict);
                    conn.link.announce(&mut self.core.outbox);
                }
            }
            Effect::AfterAbort(action) => self.after_abort(now, action),
        }
    }

    /// Takes the action that waited for aborted tasks, the last of which has ended.
    pub(super) fn after_abort(&mut self, now: Time, action: AfterAbort) {
        match action {
            AfterAbort::Answer { connection, itt } => {
                self.answer_management(connection, itt, TaskManagementResult::Complete);
            }
            AfterAbort::ColdReset { connection, itt } => {
                self.answer_management(connection, itt, TaskManagementResult::Complete);
                self.end_all_sessions(now);
            }
            AfterAbort::FinishTask { task } => {
                // The task may still wait for its reservations to be stored.
                let waits = self.core.tasks.get(task);
                if waits.is_some_and(|task| task.stage == Stage::Barrier)
                    && let Some(mut conn) = owner_of(&mut self.connections, &self.core, task)
                {
                    finish_after_aborts(&mut conn, &mut self.core, task);
                }
            }
            AfterAbort::BeginSession { connection } => self.replace_session(now, connection),
        }
    }

    /// Answers a task management function, if its session still exists.
    pub(super) fn answer_management(
        &mut self,
        connection: ConnectionId,
        itt: hakaru_wire::iscsi::Itt,
        result: TaskManagementResult,
    ) {
        if let Some(entry) = self.connections.get_mut(connection.0)
            && let Some(conn) = entry.conn.active()
        {
            answer_management(conn.link, &mut self.core, itt, result);
        }
    }

    /// Begins the session of a login that has requested full feature phase. An older session of the
    /// same initiator port ends first (session reinstatement, RFC 7143 section 6.3.5), and so does
    /// every access of its sessions that the storage still executes: none of those writes may take
    /// effect after the new session begins. Called again when they have ended.
    fn replace_session(&mut self, now: Time, connection: ConnectionId) {
        let Some(entry) = self.connections.get_mut(connection.0) else {
            return;
        };
        let Phase::Login(Some(login)) = &mut entry.conn.phase else {
            return;
        };
        login.conclude();
        let name = login.session_name(entry.conn.link.portal);
        if !self.core.shutting_down {
            self.end_replaced(now, connection, &name);
        }
        let Some(entry) = self.connections.get_mut(connection.0) else {
            return;
        };
        if let Err(status) = continue_login(entry, &mut self.core, now, name) {
            let conn = &mut entry.conn;
            if let Phase::Login(login) = &conn.phase {
                refuse(&mut conn.link, login.as_deref(), &mut self.core, status);
            }
            end(conn, &mut self.core, now);
        }
        entry.conn.link.announce(&mut self.core.outbox);
    }

    /// Ends the session that a login replaces.
    fn end_replaced(&mut self, now: Time, connection: ConnectionId, name: &SessionName) {
        let Some(old) = self.core.sessions.by_name.get(name).copied() else {
            return;
        };
        let address = |entry: &Entry| entry.conn.link.peer.ip();
        let new_address = self.connections.get(connection.0).map(address);
        let Some(entry) = self.connections.get_mut(old.0) else {
            return;
        };
        let core = &mut self.core;
        core.counters.sessions.reinstatements += 1;
        let elsewhere = Some(address(entry)) != new_address;
        core.counters.sessions.reinstatements_elsewhere += u64::from(elsewhere);
        end(&mut entry.conn, core, now);
        entry.conn.link.discard_transmit(&mut core.outbox);
    }

    /// Delivers the notices of a command to other nexuses, then continues the command.
    fn notify(&mut self, connection: ConnectionId, continued: Option<(Key, Outcome)>) {
        let notices = core::mem::take(&mut self.core.device.notices);
        let task = continued.as_ref().map(|(key, _)| *key);
        for notice in &notices {
            match notice {
                Notice::Attention { nexus, lu, sense } => self.attend(nexus, *lu, *sense),
                Notice::Others { lu, sense } => {
                    self.attend_all(Some(*lu), *sense, Some(connection));
                }
                Notice::Abort { .. } => {}
            }
        }
        if let Some(task) = task {
            self.abort_for(task, &notices);
        }
        if let Some((key, outcome)) = continued {
            self.continue_command(key, outcome);
        }
    }

    /// Continues a command whose notices were delivered, unless it was aborted meanwhile.
    fn continue_command(&mut self, key: Key, outcome: Outcome) {
        let core = &mut self.core;
        let task = core.tasks.get(key);
        let is_aborted = task.is_some_and(|task| task.stage == Stage::Aborted);
        let mut conn = owner_of(&mut self.connections, core, key);
        if is_aborted {
            abandon(conn.as_mut(), core, key, &outcome);
        } else if let Some(conn) = &mut conn {
            resume(conn, core, key, outcome);
        }
        if let Some(conn) = &mut conn {
            conn.link.announce(&mut core.outbox);
        }
    }

    /// Ends the tasks of the nexuses that a PREEMPT AND ABORT named. `task`, the command itself,
    /// waits for the tasks that the storage still executes.
    fn abort_for(&mut self, task: Key, notices: &[Notice]) {
        let Some(lu) = self.core.tasks.get(task).map(|task| task.lu) else {
            return;
        };
        let mut unfinished = Vec::new();
        for notice in notices {
            let Notice::Abort { nexus, .. } = notice else {
                continue;
            };
            let name = SessionName::of(nexus.clone());
            let Some(connection) = self.core.sessions.by_name.get(&name).copied() else {
                // The session has ended, but accesses that the storage still executes must end too.
                unfinished.extend(self.core.remains.of(&name));
                continue;
            };
            let tasks = self.core.tasks.iter();
            let covered: Vec<Key> = tasks
                .filter(|(_, task)| task.connection == Some(connection) && task.lu == lu)
                .map(|(covered, _)| covered)
                .collect();
            if !covered.is_empty() {
                let sense = Sense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR;
                self.attend(nexus, lu, sense);
            }
            unfinished.extend(covered.into_iter().filter(|covered| self.abort(*covered)));
        }
        if !unfinished.is_empty() {
            let action = AfterAbort::FinishTask { task };
            self.core.barriers.add(unfinished, action);
        }
        self.core.outbox.freed = true;
    }

    /// Establishes a unit attention condition for one nexus, if it is logged in.
    fn attend(&mut self, nexus: &Nexus, lu: u8, sense: Sense) {
        let name = SessionName::of(nexus.clone());
        let connection = self.core.sessions.by_name.get(&name).copied();
        let conn = connection.and_then(|connection| self.connection(connection));
        if let Some(session) = conn.and_then(|conn| conn.session_mut()) {
            session.device.attend(lu, sense);
        }
    }

    /// Establishes a unit attention condition on one LU (`None`: all LUs) for every session but
    /// one.
    pub(super) fn attend_all(
        &mut self,
        lu: Option<u8>,
        sense: Sense,
        except: Option<ConnectionId>,
    ) {
        let units: Vec<u8> = match lu {
            Some(lu) => vec![lu],
            None => self.core.device.units.numbers().collect(),
        };
        for entry in self.connections.values_mut() {
            if Some(entry.conn.link.id) == except {
                continue;
            }
            if let Some(session) = entry.conn.session_mut()
                && !session.name.discovery
            {
                let attend = |lu: &u8| session.device.attend(*lu, sense);
                units.iter().for_each(attend);
            }
        }
    }
}

/// Begins the session of a login. If accesses of an older session have not ended yet, the login
/// waits for them.
fn continue_login(
    entry: &mut Entry,
    core: &mut Core,
    now: Time,
    name: SessionName,
) -> Result<(), LoginStatus> {
    if core.shutting_down {
        return Err(LoginStatus::SERVICE_UNAVAILABLE);
    }
    let unfinished = core.remains.of(&name);
    if unfinished.is_empty() {
        return begin_session(&mut entry.conn, &mut entry.framer, core, now, name);
    }
    let connection = entry.conn.link.id;
    let action = AfterAbort::BeginSession { connection };
    core.barriers.add(unfinished, action);
    match &mut entry.conn.phase {
        Phase::Login(Some(login)) => hold_text(&entry.conn.link, login, core),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::access::Access as AccessList;
    use crate::task::{Access, Task};
    use crate::{Limits, LuDescription, TargetConfig};
    use hakaru_wire::iscsi::{CmdSn, Itt, Lun, ScsiCommand, StatSn, TaskAttribute};

    #[test]
    fn a_command_that_was_aborted_before_it_continued_accesses_nothing_and_ends_the_wait_for_it() {
        let mut target = Target::new(TargetConfig {
            target_name: "iqn.2026-01.net.example:array".to_owned(),
            portals: vec!["10.0.0.1:3260".parse().expect("an address")],
            port_groups: Vec::new(),
            lus: vec![LuDescription::new(0, 1 << 20)],
            access: AccessList::default(),
            limits: Limits::default(),
        });
        let key = |index| Key {
            index,
            generation: 0,
        };
        let connection = ConnectionId(key(7));
        let access = Access::Parameters { length_bytes: 24 };
        let command = ScsiCommand {
            immediate: true,
            is_final: true,
            read: false,
            write: true,
            attribute: TaskAttribute::Simple,
            lun: Lun::default(),
            itt: Itt(1),
            expected_data_transfer_length: 24,
            cmd_sn: CmdSn(0),
            exp_stat_sn: StatSn(0),
            cdb: [0; 16],
            data_segment_length: 0,
        };
        let (aborted, task) = target
            .core
            .tasks
            .insert_with(|_| Task::new(Time::ZERO, connection, &command, 0, access));
        task.stage = Stage::Aborted;
        let answer = AfterAbort::FinishTask { task: key(99) };
        target.core.barriers.add(vec![aborted], answer);
        let resume = Some((aborted, Outcome::Flush { lu: 0 }));
        let notify = Effect::Notify { connection, resume };
        target.core.outbox.effects.push_back(notify);
        target.settle(Time::ZERO);
        assert!(target.poll_io().is_none());
        assert!(!target.core.barriers.has(answer));
        assert!(target.core.tasks.get(aborted).is_none());
    }
}
