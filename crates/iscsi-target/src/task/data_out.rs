//! Data-Out PDUs (RFC 7143 section 11.7).

use hakaru_scsi_device::Verdict;
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::keys::Agreed;
use hakaru_wire::iscsi::{Bhs, DataOut, RejectReason, Ttt};
use hakaru_wire::scsi::Sense;

use crate::connection::Active;
use crate::connection::control::reject;
use crate::connection::pdu::Sink;
use crate::shared::Core;
use crate::task::answer::finish;
use crate::task::write::advance_write;
use crate::task::{Stage, Task, transfer_tag};

/// Checks a Data-Out PDU that begins against its request, and determines how much of its data is
/// kept. Data of a task that was aborted or refused is discarded.
pub(crate) fn begin_data_out(conn: &mut Active<'_>, core: &mut Core, bhs: &Bhs) {
    let Some(key) = conn.session.tasks.get(bhs.itt()) else {
        return;
    };
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    if !matches!(task.stage, Stage::DataOut | Stage::Budget) {
        core.counters.sessions.protocol_errors += 1;
        return;
    }
    let keep = match DataOut::parse(bhs) {
        Ok(_) if task.verdict.is_some() => 0,
        Ok(pdu) => match check_data_out(task, key, &pdu, &conn.session.parameters) {
            Ok(keep) => keep,
            Err(fault) => {
                core.counters.sessions.protocol_errors += 1;
                let verdict = Verdict::Check(fault.sense);
                task.verdict = Some(verdict);
                if !fault.in_sequence {
                    // No sequence of the task has room for the PDU, so it is rejected and the task
                    // ends at once.
                    reject(conn.link, core, RejectReason::InvalidPduField, bhs);
                    finish(conn, core, key, verdict);
                    core.outbox.freed = true;
                    return;
                }
                0
            }
        },
        Err(_) => {
            task.verdict = Some(Verdict::Check(Sense::DATA_PHASE_ERROR));
            0
        }
    };
    conn.link.sink = Sink::Task { task: key, keep };
}

/// Handles a complete Data-Out PDU. `task` is the task that it belongs to, if any.
pub(crate) fn end_data_out(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    bhs: &Bhs,
    task: Option<Key>,
    digest_ok: bool,
) {
    if !digest_ok {
        reject(conn.link, core, RejectReason::DataDigestError, bhs);
    }
    let Some(key) = task else { return };
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    if task.stage == Stage::Aborted {
        return;
    }
    task.active = now;
    let inbound = &mut task.inbound;
    if !digest_ok {
        // A task with a verdict uses none of its data and ends once all data was received (RFC 7143
        // section 7.8).
        task.verdict
            .get_or_insert(Verdict::Check(Sense::PROTOCOL_SERVICE_CRC_ERROR));
    }
    inbound.next_offset = inbound
        .next_offset
        .saturating_add(bhs.data_segment_length());
    inbound.data_sn = inbound.data_sn.wrapping_add(1);
    if bhs.is_final() {
        inbound.data_sn = 0;
        if bhs.ttt() == Ttt::RESERVED {
            inbound.unsolicited_open = false;
        } else {
            inbound.bursts_done = inbound.r2ts.min(inbound.bursts_done + 1);
        }
        advance_write(conn, core, now, key);
    }
}

/// A defect of a Data-Out PDU.
struct Fault {
    sense: Sense,
    /// The PDU belongs to a sequence whose F bit was not received yet.
    in_sequence: bool,
}

impl Fault {
    fn in_sequence(sense: Sense) -> Self {
        Self {
            sense,
            in_sequence: true,
        }
    }

    fn outside(sense: Sense) -> Self {
        Self {
            sense,
            in_sequence: false,
        }
    }
}

/// Returns how many bytes of the PDU the command uses.
fn check_data_out(task: &Task, key: Key, pdu: &DataOut, parameters: &Agreed) -> Result<u32, Fault> {
    let inbound = &task.inbound;
    let end = pdu.buffer_offset.saturating_add(pdu.data_segment_length);
    let solicited = pdu.ttt != Ttt::RESERVED;
    let sequence_end = if solicited {
        let burst = inbound.bursts_done;
        let known = burst < inbound.r2ts && pdu.ttt == transfer_tag(key, burst);
        if !known || pdu.lun != task.lun {
            return Err(Fault::outside(Sense::DATA_PHASE_ERROR));
        }
        inbound.burst(burst, parameters.max_burst_length).1
    } else {
        if !inbound.unsolicited_open {
            return Err(Fault::outside(Sense::UNEXPECTED_UNSOLICITED_DATA));
        }
        parameters.first_burst_length.min(task.expected_bytes)
    };
    if pdu.data_sn != inbound.data_sn {
        // A PDU before this one was lost (RFC 7143 section 7.9).
        return Err(Fault::in_sequence(Sense::PROTOCOL_SERVICE_CRC_ERROR));
    }
    if pdu.buffer_offset != inbound.next_offset || end > sequence_end {
        return Err(Fault::in_sequence(Sense::DATA_PHASE_ERROR));
    }
    // A burst ends with F exactly where its R2T ends.
    if solicited && pdu.is_final != (end == sequence_end) {
        return Err(Fault::in_sequence(Sense::NOT_ENOUGH_UNSOLICITED_DATA));
    }
    let wanted_bytes = inbound.wanted_bytes.saturating_sub(pdu.buffer_offset);
    Ok(pdu.data_segment_length.min(wanted_bytes))
}
