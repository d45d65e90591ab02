//! Commands that a parameter list settles (MODE SELECT, PERSISTENT RESERVE OUT), and what a command means to other initiators.

use hakaru_scsi_device::{Io, IoId, IoOp, IoResult, Nexus, Notice, Outcome, Verdict};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::scsi::{Sense, Status};

use crate::id::ConnectionId;
use crate::management::Then;

use crate::session::SessionName;
use crate::target::Target;
use crate::task::{Access, Stage};

impl Target {
    /// The parameter list of a command is there.
    pub(crate) fn take_parameters(&mut self, now: Time, key: Key) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let list = core::mem::take(&mut task.data);
        let (connection, lun, lu, cdb) = (task.connection, task.lun, task.lu, task.cdb);
        // Its own end is not among those that it may wait for.
        task.stage = Stage::Io;
        let outcome = self.execute(connection, |device| {
            hakaru_scsi_device::execute_with_list(device, lun, &cdb, &list)
        });
        self.buffers.give(list);
        self.abort_for(now, lu, key);
        let op = match outcome {
            Outcome::Flush { .. } => IoOp::Flush,
            Outcome::Keep => {
                let record = core::mem::take(&mut self.scratch);
                if let Some(task) = self.tasks.get_mut(key) {
                    let length_bytes = task.access.bytes();
                    task.access = Access::Keep { length_bytes };
                }
                IoOp::Keep { record }
            }
            Outcome::End(verdict) => {
                if let Some(task) = self.tasks.get_mut(key) {
                    task.stage = Stage::Barrier;
                }
                match verdict {
                    Verdict::Status(Status::GOOD) => self.finish_when_alone(now, key),
                    _ => self.finish(key, verdict),
                }
                return;
            }
            Outcome::Program(job) => return self.take_up(now, key, *job),
            Outcome::Operation { job, immediate } => {
                return self.take_up_operation(now, key, *job, immediate);
            }
            _ => unreachable!("a parameter list settles what is to be done, or changes state"),
        };
        self.ios.push_back(Io {
            id: IoId(key),
            lun: lu,
            op,
        });
    }

    /// The storage has kept the reservations, or has not.
    pub(crate) fn finish_keeping(&mut self, now: Time, key: Key, result: &IoResult) {
        match self.end_keeping(key, result) {
            Ok(()) => self.finish_when_alone(now, key),
            Err(sense) => {
                let connection = self.tasks.get(key).map(|task| task.connection);
                self.finish(key, Verdict::Check(sense));
                self.start_budgeted(now);
                connection.into_iter().for_each(|conn| self.announce(conn));
            }
        }
    }

    pub(crate) fn end_keeping(&mut self, key: Key, result: &IoResult) -> Result<(), Sense> {
        let lu = self.tasks.get(key).map(|task| task.lu);
        let done = *result == IoResult::Done;
        if let Some(unit) = lu.and_then(|lu| self.lus.get_mut(lu)) {
            unit.end_keeping(done);
        }
        if done {
            Ok(())
        } else {
            Err(Sense::INTERNAL_TARGET_FAILURE)
        }
    }

    /// Ends a task with GOOD, unless tasks that it has aborted are still with the storage: then when they are done.
    pub(crate) fn finish_when_alone(&mut self, now: Time, key: Key) {
        let waits = self
            .barriers
            .iter()
            .any(|barrier| barrier.then == Then::FinishTask { task: key });
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let connection = task.connection;
        task.stage = Stage::Barrier;
        if !waits {
            self.finish(key, Verdict::Status(Status::GOOD));
            self.start_budgeted(now);
            self.announce(connection);
        }
    }

    /// Tells other initiators what a command has changed for them. Aborts are left for [`Self::abort_for`].
    #[cold]
    pub(crate) fn tell(&mut self, connection: ConnectionId) {
        let notices = core::mem::take(&mut self.notices);
        for notice in &notices {
            match notice {
                Notice::Attention { nexus, lu, sense } => self.attend(nexus, *lu, *sense),
                Notice::Others { lu, sense } => {
                    self.attend_all(Some(*lu), *sense, Some(connection))
                }
                Notice::Abort { .. } => {}
            }
        }
        self.notices = notices;
        self.notices
            .retain(|notice| matches!(notice, Notice::Abort { .. }));
    }

    /// Establishes a unit attention condition for one nexus, if it is logged in.
    fn attend(&mut self, nexus: &Nexus, lu: u8, sense: Sense) {
        let name = SessionName {
            nexus: nexus.clone(),
            discovery: false,
        };
        let connection = self.sessions.by_name.get(&name);
        if let Some(session) = connection
            .and_then(|connection| self.connections.get_mut(connection.0))
            .and_then(|conn| conn.session_mut())
        {
            session.device.attend(lu, sense);
        }
    }

    /// Establishes a unit attention condition for every session, except one; on one LU or on all.
    pub(crate) fn attend_all(
        &mut self,
        lu: Option<u8>,
        sense: Sense,
        except: Option<ConnectionId>,
    ) {
        let units: Vec<u8> = match lu {
            Some(lu) => vec![lu],
            None => self.lus.numbers().collect(),
        };
        for conn in self.connections.values_mut() {
            if Some(conn.id) == except {
                continue;
            }
            if let Some(session) = conn.session_mut().filter(|session| !session.discovery) {
                units
                    .iter()
                    .for_each(|lu| session.device.attend(*lu, sense));
            }
        }
    }

    /// PREEMPT AND ABORT: ends the tasks of the nexuses it named; `key` waits for those that the storage has.
    fn abort_for(&mut self, now: Time, lu: u8, key: Key) {
        let notices = core::mem::take(&mut self.notices);
        let mut unfinished = Vec::new();
        for notice in notices {
            let Notice::Abort { nexus, .. } = notice else {
                continue;
            };
            let name = SessionName {
                nexus,
                discovery: false,
            };
            let Some(connection) = self.sessions.by_name.get(&name).copied() else {
                // Its session has gone; what that left with the storage is to be over all the same.
                unfinished.extend(self.remains.of(&name));
                continue;
            };
            let tasks = self.tasks.iter();
            let covered: Vec<Key> = tasks
                .filter(|(_, task)| task.connection == connection && task.lu == lu)
                .map(|(covered, _)| covered)
                .collect();
            if !covered.is_empty() {
                self.attend(
                    &name.nexus,
                    lu,
                    Sense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR,
                );
            }
            unfinished.extend(covered.into_iter().filter(|covered| self.abort(*covered)));
        }
        if !unfinished.is_empty() {
            self.wait_for(unfinished, Then::FinishTask { task: key });
        }
        self.start_budgeted(now);
    }
}
