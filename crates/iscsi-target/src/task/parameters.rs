//! Commands with a parameter list (MODE SELECT, PERSISTENT RESERVE OUT, UNMAP, EXTENDED COPY).

use hakaru_scsi_device::{Io, IoFailure, IoId, IoOp, IoResult, Job, Outcome, Verdict};
use hakaru_send_queue::Key;
use hakaru_wire::scsi::{Sense, Status};

use crate::connection::Active;
use crate::shared::Core;
use crate::shared::barriers::AfterAbort;
use crate::shared::outbox::Effect;
use crate::task::abort::finish_aborted;
use crate::task::answer::finish;
use crate::task::program::start_operation;
use crate::task::read::begin_program;
use crate::task::{Access, Stage};

/// Executes a command whose parameter list was received.
pub(crate) fn execute_with_list(conn: &mut Active<'_>, core: &mut Core, key: Key) {
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    let list = core::mem::take(&mut task.data);
    // A task that waits for the end of aborted tasks does not wait for its own.
    task.stage = Stage::Io;
    let nexus = &mut conn.session.device;
    let outcome = core
        .device
        .execute_with_list(nexus, task.lun, &task.cdb, &list);
    core.buffers.give(list);
    if core.device.notices.is_empty() {
        resume(conn, core, key, outcome);
    } else {
        core.outbox.effects.push_back(Effect::Notify {
            connection: conn.link.id,
            resume: Some((key, outcome)),
        });
    }
}

/// Continues a command with the outcome of its parameter list.
pub(crate) fn resume(conn: &mut Active<'_>, core: &mut Core, key: Key, outcome: Outcome) {
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    let op = match outcome {
        Outcome::Flush { .. } => IoOp::Flush,
        Outcome::Keep => {
            let length_bytes = task.access.bytes();
            task.access = Access::Keep { length_bytes };
            IoOp::Keep {
                record: core::mem::take(&mut core.device.out),
            }
        }
        Outcome::End(verdict) => {
            task.stage = Stage::Barrier;
            return match verdict {
                Verdict::Status(Status::GOOD) => finish_after_aborts(conn, core, key),
                _ => finish(conn, core, key, verdict),
            };
        }
        Outcome::Program(job) => {
            task.job = Some(job);
            return begin_program(conn, core, key);
        }
        Outcome::Operation { job, immediate } => {
            return resume_operation(conn, core, key, *job, immediate);
        }
        _ => unreachable!("a parameter list leads to an access, a program or a change of state"),
    };
    core.accesses.ready.push_back(Io {
        id: IoId(key),
        lun: task.lu,
        op,
        received_bytes: None,
    });
}

/// Ends a command that was aborted after the execution of its parameter list and before it
/// continued. No access of it is outstanding, so nothing else would end it, and the command that
/// has aborted it would wait for ever. What the command has begun is taken back.
pub(crate) fn abandon(conn: Option<&mut Active<'_>>, core: &mut Core, key: Key, outcome: &Outcome) {
    if matches!(outcome, Outcome::Keep) {
        end_keeping(core, key, &IoResult::Failed(IoFailure::Internal));
    }
    finish_aborted(conn, core, key);
}

/// Begins the operation of a command with a parameter list.
fn resume_operation(conn: &mut Active<'_>, core: &mut Core, key: Key, job: Job, immediate: bool) {
    if immediate {
        finish(conn, core, key, Verdict::Status(Status::GOOD));
        return start_operation(core, job, None);
    }
    if let Some(task) = core.tasks.get_mut(key) {
        task.stage = Stage::Operation;
    }
    start_operation(core, job, Some(key));
}

/// Ends a command whose reservations the storage has stored, or has failed to store.
pub(crate) fn finish_keeping(conn: &mut Active<'_>, core: &mut Core, key: Key, result: &IoResult) {
    if end_keeping(core, key, result) {
        finish_after_aborts(conn, core, key);
    } else {
        let verdict = Verdict::Check(Sense::INTERNAL_TARGET_FAILURE);
        finish(conn, core, key, verdict);
        core.outbox.freed = true;
        conn.link.announce(&mut core.outbox);
    }
}

/// Applies the reservations if the storage has stored them, or keeps the previous ones if it has
/// failed. Returns true if they were stored.
pub(crate) fn end_keeping(core: &mut Core, key: Key, result: &IoResult) -> bool {
    let done = *result == IoResult::Done;
    let lu = core.tasks.get(key).map(|task| task.lu);
    if let Some(unit) = lu.and_then(|lu| core.device.units.get_mut(lu)) {
        unit.end_keeping(done);
    }
    done
}

/// Ends a task with GOOD as soon as the storage has ended the tasks that this task has aborted.
pub(crate) fn finish_after_aborts(conn: &mut Active<'_>, core: &mut Core, key: Key) {
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    task.stage = Stage::Barrier;
    if !core.barriers.has(AfterAbort::FinishTask { task: key }) {
        finish(conn, core, key, Verdict::Status(Status::GOOD));
        core.outbox.freed = true;
        conn.link.announce(&mut core.outbox);
    }
}
