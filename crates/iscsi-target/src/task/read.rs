//! Commands that read. They wait for room in the send queue of their connection, then for the
//! storage.

use hakaru_scsi_device::{Io, IoId, IoOp, LogicalUnit};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::ScsiCommand;

use crate::connection::Active;
use crate::shared::Core;
use crate::task::program;
use crate::task::{Access, Stage, Task};

/// Begins a READ of at least 1 byte.
pub(crate) fn start_read(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    command: &ScsiCommand,
    lu: u8,
    range: (u64, u32),
) {
    let Some(unit) = core.device.units.get(lu) else {
        return;
    };
    let connection = conn.link.id;
    let access = Access::Read {
        offset_bytes: range.0,
        length_bytes: range.1,
    };
    let (key, task) = core.tasks.insert_with(|_| Task {
        stage: Stage::Transmit,
        ..Task::new(now, connection, command, lu, access)
    });
    conn.register(command, key);
    if conn.session.waiting.is_empty() && conn.may_read(core.config.limits.transmit_bytes_max) {
        core.accesses
            .ready
            .push_back(request_read(conn, unit, key, task, range));
    } else {
        conn.session.waiting.push_back(key);
        start_waiting(conn, core);
    }
}

/// Begins a program that has received its data. A program that reads first waits for room in the
/// send queue.
pub(crate) fn begin_program(conn: &mut Active<'_>, core: &mut Core, key: Key) {
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    if task.job.as_ref().is_some_and(|job| job.reads_bytes == 0) {
        return program::claim(Some(conn), core, key);
    }
    task.stage = Stage::Transmit;
    conn.session.waiting.push_back(key);
    start_waiting(conn, core);
}

/// Resumes tasks that wait for room in the send queue, in order.
pub(crate) fn start_waiting(conn: &mut Active<'_>, core: &mut Core) {
    while !conn.session.waiting.is_empty() && conn.may_read(core.config.limits.transmit_bytes_max) {
        let Some(key) = conn.session.waiting.pop_front() else {
            return;
        };
        let Some(task) = core.tasks.get_mut(key) else {
            continue;
        };
        if let Access::Read {
            offset_bytes,
            length_bytes,
        } = task.access
        {
            let range = (offset_bytes, length_bytes);
            if let Some(unit) = core.device.units.get(task.lu) {
                core.accesses
                    .ready
                    .push_back(request_read(conn, unit, key, task, range));
            }
        } else {
            let reads_bytes = task.job.as_ref().map_or(0, |job| job.reads_bytes);
            task.copying_bytes = reads_bytes;
            conn.session.copying_bytes += u64::from(reads_bytes);
            program::claim(Some(conn), core, key);
        }
    }
}

/// Moves a task that reads to `Stage::Io` and returns its access.
fn request_read(
    conn: &mut Active<'_>,
    unit: &LogicalUnit,
    key: Key,
    task: &mut Task,
    range: (u64, u32),
) -> Io {
    task.stage = Stage::Io;
    let (offset_bytes, length_bytes) = range;
    // Read only as much as will be sent, in whole blocks.
    let length_bytes = if task.expected_bytes < length_bytes {
        task.expected_bytes.next_multiple_of(unit.block_bytes)
    } else {
        length_bytes
    };
    let in_place = unit.in_place && conn.sends_in_place(unit.block_bytes);
    if !in_place {
        conn.session.copying_bytes += u64::from(length_bytes);
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
        received_bytes: None,
    }
}
