//! Commands that take data from the initiator: write budget, R2Ts, and the start of the access.
//!
//! A write reserves its budget and receives unsolicited data up to the F bit. It then sends R2Ts,
//! several at a time, and receives the data of each up to its F bit. Finally it goes to the
//! storage. A write that is refused before that drains and discards data still in flight, then
//! completes, as RFC 7143 section 11.17 requires.

use hakaru_scsi_device::{Buffers, Claim, Extent, Io, IoId, IoOp, Verdict};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::R2t;
use hakaru_wire::scsi::Status;

use crate::connection::Active;
use crate::shared::Core;
use crate::task::answer::finish;
use crate::task::parameters::execute_with_list;
use crate::task::program::wait_for_range;
use crate::task::read::begin_program;
use crate::task::{Access, Stage, Task, transfer_tag};

/// Advances a write as far as possible: budget, R2Ts, storage, or its end.
pub(crate) fn advance_write(conn: &mut Active<'_>, core: &mut Core, now: Time, key: Key) {
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    let wanted_bytes = task.inbound.wanted_bytes;
    if task.verdict.is_none() && task.reserved_bytes < wanted_bytes {
        let limit = core.config.limits.session_write_buffer_bytes_max;
        let missing = wanted_bytes - task.reserved_bytes;
        // Writes that already wait come first, unless only the shares of other sessions are used up.
        let session = conn.link.id;
        let is_next = task.stage == Stage::Budget || !core.budget_queue.precedes(session);
        let is_reserved = is_next && conn.session.reserve(&mut core.buffers, limit, missing);
        let is_within_share = conn.session.has_room(limit, missing);
        if is_reserved {
            task.reserved_bytes = wanted_bytes;
        } else if task.inbound.unsolicited_open || !task.data.is_empty() {
            // A write whose data already arrives cannot wait.
            task.verdict = Some(Verdict::Status(Status::TASK_SET_FULL));
        } else {
            core.budget_queue.is_short |= is_next && is_within_share;
            if task.stage != Stage::Budget {
                task.stage = Stage::Budget;
                core.budget_queue.push(session, key);
            }
            return;
        }
    }
    if let Some(verdict) = task.verdict {
        if !task.awaits_data() {
            finish(conn, core, key, verdict);
            core.outbox.freed = true;
        }
        return;
    }
    task.stage = Stage::DataOut;
    grow(task, &mut core.buffers, wanted_bytes as usize);
    if task.inbound.unsolicited_open {
        return;
    }
    if task.data.len() < wanted_bytes as usize {
        return solicit(conn, task, now, key);
    }
    match task.access {
        Access::Parameters { .. } => execute_with_list(conn, core, key),
        Access::Program { .. } => begin_program(conn, core, key),
        _ => request_write(conn, core, key),
    }
}

/// Replaces the buffer of a task by a larger one if it cannot hold `bytes`.
fn grow(task: &mut Task, buffers: &mut Buffers, bytes: usize) {
    if task.data.capacity() < bytes {
        let mut larger = buffers.take(bytes);
        larger.extend_from_slice(&task.data);
        buffers.give(core::mem::replace(&mut task.data, larger));
    }
}

/// Sends as many R2Ts as MaxOutstandingR2T allows. The time for their data begins now.
fn solicit(conn: &mut Active<'_>, task: &mut Task, now: Time, key: Key) {
    let parameters = &conn.session.parameters;
    let inbound = &mut task.inbound;
    if inbound.r2ts == 0 {
        inbound.solicited_from = inbound.next_offset;
        inbound.data_sn = 0;
    }
    while inbound.r2ts - inbound.bursts_done < parameters.max_outstanding_r2t {
        let (start, end) = inbound.burst(inbound.r2ts, parameters.max_burst_length);
        if start == end {
            return;
        }
        let r2t = R2t {
            lun: task.lun,
            itt: task.itt,
            ttt: transfer_tag(key, inbound.r2ts),
            numbers: conn.link.numbers(),
            r2t_sn: inbound.r2ts,
            buffer_offset: start,
            desired_data_transfer_length: end - start,
        };
        let mut header = [0; 48];
        r2t.emit(&mut header);
        conn.link.send_header(&header);
        inbound.r2ts += 1;
        task.active = now;
    }
}

/// Passes a write whose data is complete to the storage. The write waits if another command holds
/// its blocks.
pub(crate) fn request_write(conn: &mut Active<'_>, core: &mut Core, key: Key) {
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    let Access::Write {
        offset_bytes, fua, ..
    } = task.access
    else {
        return;
    };
    let Some(unit) = core.device.units.get(task.lu) else {
        return;
    };
    if !core.ranges.is_idle() && task.stage != Stage::Range {
        let extent = Extent {
            offset_bytes,
            length_bytes: task.data.len() as u64,
        };
        let lu = task.lu;
        let claim = Claim { lu, extent };
        if !core.ranges.is_free(&claim, core.ranges.waiting_now()) {
            return wait_for_range(core, key, claim);
        }
    }
    let mut data = core::mem::take(&mut task.data);
    // An initiator may expect to send less than the command writes, and end within a block. Only
    // whole blocks are written.
    let block_bytes = unit.block_bytes as usize;
    data.truncate(data.len() / block_bytes * block_bytes);
    if data.is_empty() {
        core.buffers.give(data);
        finish(conn, core, key, Verdict::Status(Status::GOOD));
        core.outbox.freed = true;
        return;
    }
    task.stage = Stage::Io;
    core.accesses.ready.push_back(Io {
        id: IoId(key),
        lun: task.lu,
        op: IoOp::Write {
            offset_bytes,
            data,
            fua,
        },
        received_bytes: None,
    });
}
