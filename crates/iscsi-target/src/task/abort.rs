//! The end of tasks without an answer.

use hakaru_scsi_device::{IoId, IoOp};
use hakaru_send_queue::Key;

use crate::connection::Active;
use crate::connection::pdu::{Held, Sink};
use crate::shared::Core;
use crate::shared::outbox::Effect;
use crate::task::Stage;
use crate::task::answer::remove_task;

/// Ends a task without an answer. Returns true if the storage still executes the task, which then
/// ends later. `conn` is its connection, if that still has a session.
pub(crate) fn abort(conn: Option<&mut Active<'_>>, core: &mut Core, key: Key) -> bool {
    let Some(stage) = core.tasks.get(key).map(|task| task.stage) else {
        return false;
    };
    match stage {
        Stage::Aborted => true,
        Stage::Io if withdraw_access(core, key) => {
            remove_task(conn, core, key);
            core.outbox.freed = true;
            false
        }
        Stage::Io => {
            core.accesses.list_unwanted(key, &core.tasks);
            if let Some(task) = core.tasks.get_mut(key) {
                task.stage = Stage::Aborted;
                let copying_bytes = core::mem::take(&mut task.copying_bytes);
                if let Some(conn) = conn {
                    conn.session.copying_bytes -= u64::from(copying_bytes);
                    conn.session.tasks.remove(task.itt);
                    conn.session.aborted.push(key);
                }
            }
            true
        }
        Stage::DataOut
        | Stage::Budget
        | Stage::Transmit
        | Stage::Range
        | Stage::Operation
        | Stage::Barrier => {
            remove_task(conn, core, key);
            core.outbox.freed = true;
            false
        }
    }
}

/// Withdraws the access of a task if it still waits for its turn among those of long commands.
/// Returns false if the storage has it. Without this, the access of an aborted command would reach
/// the storage after the list of unwanted accesses was polled, and nothing would end it early.
fn withdraw_access(core: &mut Core, key: Key) -> bool {
    let job = core.tasks.get(key).and_then(|task| task.job.as_ref());
    let waits = job.filter(|job| job.background_bytes > 0);
    let Some(lu) = waits.and_then(|job| job.accessing) else {
        return false;
    };
    let Some(io) = core.accesses.background.cancel(lu, IoId(key)) else {
        return false;
    };
    if let IoOp::Write { data, .. } = io.op {
        core.buffers.give(data);
    }
    true
}

/// Ends every task of a session without an answer, and frees its share of the write budget. Returns
/// the tasks that the storage still executes.
pub(crate) fn abort_session(conn: &mut Active<'_>, core: &mut Core) -> Vec<Key> {
    let tasks: Vec<Key> = conn.session.tasks.tasks().collect();
    let held = core::mem::take(&mut conn.session.held);
    conn.session.waiting.clear();
    let sink = core::mem::replace(&mut conn.link.sink, Sink::DISCARD);
    if let Sink::Payload(payload) = sink {
        core.outbox.freed |= conn.session.release_payload(&mut core.buffers, payload);
    }
    for (_, held) in held {
        if let Held::Pdu(pdu) = held {
            core.outbox.freed |= conn.session.release_payload(&mut core.buffers, pdu.payload);
        }
    }
    for key in tasks {
        abort(Some(conn), core, key);
    }
    core::mem::take(&mut conn.session.aborted)
}

/// Removes an aborted task that the storage has ended, and queues the actions that waited for it.
pub(crate) fn finish_aborted(mut conn: Option<&mut Active<'_>>, core: &mut Core, key: Key) {
    let Some(task) = remove_task(conn.as_deref_mut(), core, key) else {
        return;
    };
    match (conn, task.connection) {
        (Some(conn), _) => conn.session.aborted.retain(|aborted| *aborted != key),
        (None, Some(connection)) => core.remains.remove(connection, key),
        (None, None) => {}
    }
    let due = core.barriers.end(key).into_iter();
    core.outbox.effects.extend(due.map(Effect::AfterAbort));
    core.outbox.freed = true;
}
