//! Write data: the budget it is held against, R2Ts, and Data-Out PDUs (RFC 7143 sections 4.2.5.2, 11.7 and 11.8).
//!
//! A write goes: reserve the budget → unsolicited data until its F bit → R2Ts, several at a time, each until its F bit → storage. A write that
//! is refused on the way lets go by what the initiator sends anyway and only then ends, as RFC 7143 section 11.17 wants it.

use hakaru_scsi_device::{Claim, Extent, Io, IoId, IoOp, Verdict};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::{Bhs, DataOut, R2t, RejectReason, Ttt};
use hakaru_wire::scsi::{Sense, Status};

use crate::connection::Sink;
use crate::id::ConnectionId;

use crate::session::Payload;
use hakaru_wire::iscsi::keys::Agreed;

use crate::target::Target;
use crate::task::{Access, Stage, Task, transfer_tag};

impl Target {
    /// Reserves budget for write data, of the target's and the session's own.
    #[must_use]
    pub(crate) fn reserve_write(&mut self, connection: ConnectionId, bytes: u32) -> bool {
        let limit = self.config.limits.session_write_buffer_bytes_max;
        let session = self
            .connections
            .get_mut(connection.0)
            .and_then(|conn| conn.session_mut());
        let Some(session) = session else { return false };
        let fits = session.reserved_bytes + u64::from(bytes) <= limit
            && self.buffers.reserve(u64::from(bytes));
        if fits {
            session.reserved_bytes += u64::from(bytes);
        }
        fits
    }

    /// Gives a payload's buffer and budget back.
    #[inline]
    pub(crate) fn release_payload(&mut self, connection: ConnectionId, payload: &mut Payload) {
        if let Payload::Kept {
            data,
            reserved_bytes,
        } = payload
        {
            self.buffers.give(core::mem::take(data));
            self.release_write(connection, core::mem::take(reserved_bytes));
        }
    }

    /// Gives budget back.
    #[inline]
    pub(crate) fn release_write(&mut self, connection: ConnectionId, bytes: u32) {
        if bytes > 0 {
            self.release_reserved(connection, bytes);
        }
    }

    #[inline(never)]
    fn release_reserved(&mut self, connection: ConnectionId, bytes: u32) {
        self.buffers.release(u64::from(bytes));
        if let Some(session) = self
            .connections
            .get_mut(connection.0)
            .and_then(|conn| conn.session_mut())
        {
            session.reserved_bytes -= u64::from(bytes);
        }
    }

    /// Takes a write one step on: budget, R2Ts, storage, or its end.
    pub(crate) fn go_on_writing(&mut self, now: Time, key: Key) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        if let Some(verdict) = task.verdict {
            if !task.awaits_data() {
                self.finish(key, verdict);
                self.start_budgeted(now);
            }
            return;
        }
        let connection = task.connection;
        let wanted_bytes = task.inbound.wanted_bytes;
        if task.reserved_bytes < wanted_bytes {
            let missing = wanted_bytes - task.reserved_bytes;
            // In turn: not past those who wait already.
            let reserved = (task.stage == Stage::Budget || self.budget_queue.is_empty())
                && self.reserve_write(connection, missing);
            let Some(task) = self.tasks.get_mut(key) else {
                return;
            };
            if reserved {
                task.reserved_bytes = wanted_bytes;
            } else if task.inbound.unsolicited_open || !task.data.is_empty() {
                task.verdict = Some(Verdict::Status(Status::TASK_SET_FULL));
                return self.go_on_writing(now, key);
            } else if task.stage != Stage::Budget {
                task.stage = Stage::Budget;
                self.budget_queue.push_back(key);
                return;
            } else {
                return;
            }
        }
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        task.stage = Stage::DataOut;
        if task.data.capacity() < wanted_bytes as usize {
            let mut whole = self.buffers.take(wanted_bytes as usize);
            whole.extend_from_slice(&task.data);
            self.buffers.give(core::mem::replace(&mut task.data, whole));
        }
        if task.inbound.unsolicited_open {
            return;
        }
        if task.data.len() as u32 == wanted_bytes {
            match task.access {
                Access::Parameters { .. } => self.take_parameters(now, key),
                Access::Program { .. } => self.begin_program(now, key),
                _ => self.ask_write(now, key),
            }
        } else {
            self.solicit(key);
        }
    }

    /// Lets writes that wait for budget go on, in turn, and before them those that wait for a range.
    #[inline]
    pub(crate) fn start_budgeted(&mut self, now: Time) {
        if self.ranges.has_waiting() {
            self.start_ranged(now);
        }
        if !self.budget_queue.is_empty() {
            self.start_queued(now);
        }
    }

    #[cold]
    fn start_queued(&mut self, now: Time) {
        while let Some(&key) = self.budget_queue.front() {
            self.go_on_writing(now, key);
            if self
                .tasks
                .get(key)
                .is_some_and(|task| task.stage == Stage::Budget)
            {
                return;
            }
            self.budget_queue.pop_front();
            if let Some(task) = self.tasks.get(key) {
                self.announce(task.connection);
            }
        }
    }

    /// Sends R2Ts as far as MaxOutstandingR2T lets it.
    fn solicit(&mut self, key: Key) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let Some(conn) = self.connections.get_mut(task.connection.0) else {
            return;
        };
        let Some(session) = conn.session() else {
            return;
        };
        let Agreed {
            max_burst_length,
            max_outstanding_r2t,
            ..
        } = session.parameters;
        let inbound = &mut task.inbound;
        if inbound.r2ts == 0 {
            inbound.solicited_from = inbound.next_offset;
            inbound.data_sn = 0;
        }
        while inbound.r2ts - inbound.bursts_done < max_outstanding_r2t {
            let (start, end) = inbound.burst(inbound.r2ts, max_burst_length);
            if start == end {
                return;
            }
            let r2t = R2t {
                lun: task.lun,
                itt: task.itt,
                ttt: transfer_tag(key, inbound.r2ts),
                numbers: conn.numbers(),
                r2t_sn: inbound.r2ts,
                buffer_offset: start,
                desired_data_transfer_length: end - start,
            };
            let mut header = [0; 48];
            r2t.emit(&mut header);
            conn.send_header(&header);
            inbound.r2ts += 1;
        }
    }

    /// All data of a write is there: hands it to the storage, unless another command has its blocks for itself.
    pub(crate) fn ask_write(&mut self, now: Time, key: Key) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let Access::Write {
            offset_bytes, fua, ..
        } = task.access
        else {
            return;
        };
        let Some(lu) = self.lus.get(task.lu) else {
            return;
        };
        if !self.ranges.is_idle() && task.stage != Stage::Range {
            let extent = Extent {
                offset_bytes,
                length_bytes: task.data.len() as u64,
            };
            let claim = Claim {
                lu: task.lu,
                extent,
            };
            if !self.ranges.is_free(&claim, self.ranges.waiting_now()) {
                return self.wait_for_range(key, claim);
            }
        }
        let mut data = core::mem::take(&mut task.data);
        // An initiator that expects to send less than the command writes, and ends inside a block: whole blocks only.
        data.truncate(data.len() / lu.block_bytes as usize * lu.block_bytes as usize);
        if data.is_empty() {
            self.buffers.give(data);
            self.finish(key, Verdict::Status(Status::GOOD));
            return self.start_budgeted(now);
        }
        task.stage = Stage::Io;
        let op = IoOp::Write {
            offset_bytes,
            data,
            fua,
        };
        self.ios.push_back(Io {
            id: IoId(key),
            lun: task.lu,
            op,
        });
    }

    /// A Data-Out PDU begins: checks it against what was asked for, and says how much of it is kept.
    pub(crate) fn begin_data_out(&mut self, now: Time, connection: ConnectionId, bhs: &Bhs) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        let Some(session) = conn.session() else {
            return;
        };
        let parameters = session.parameters;
        // Data of a task that was aborted or refused is let go by.
        let Some(key) = session.tasks.get(bhs.itt()) else {
            return;
        };
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        if !matches!(task.stage, Stage::DataOut | Stage::Budget) {
            self.counters.sessions.protocol_errors += 1;
            return;
        }
        let keep = match DataOut::parse(bhs) {
            Ok(_) if task.verdict.is_some() => 0,
            Ok(pdu) => match check_data_out(task, key, &pdu, parameters) {
                Ok(keep) => keep,
                Err(fault) => {
                    self.counters.sessions.protocol_errors += 1;
                    task.verdict = Some(Verdict::Check(fault.sense));
                    if !fault.counts {
                        // It belongs to no sequence; nothing of the task's is over with it.
                        self.refuse_data_out(now, connection, key, bhs);
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
        if let Some(conn) = self.connections.get_mut(connection.0) {
            conn.sink = Sink::Task { task: key, keep };
        }
    }

    /// A Data-Out PDU that no sequence of its task has room for: the PDU is rejected and the task ends at once.
    fn refuse_data_out(&mut self, now: Time, connection: ConnectionId, key: Key, bhs: &Bhs) {
        self.reject(connection, RejectReason::InvalidPduField, bhs);
        if let Some(verdict) = self.tasks.get(key).and_then(|task| task.verdict) {
            self.finish(key, verdict);
            self.start_budgeted(now);
        }
    }

    /// A Data-Out PDU is whole. `task`: whose it is, if it is anyone's.
    pub(crate) fn end_data_out(
        &mut self,
        now: Time,
        connection: ConnectionId,
        bhs: &Bhs,
        task: Option<Key>,
        digest_ok: bool,
    ) {
        if !digest_ok {
            self.reject(connection, RejectReason::DataDigestError, bhs);
        }
        let Some(key) = task else { return };
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        if task.stage == Stage::Aborted {
            return;
        }
        task.active = now;
        let inbound = &mut task.inbound;
        if !digest_ok {
            // RFC 7143 section 7.8: with a verdict none of its data is used, and the task ends once all of it went by.
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
            self.go_on_writing(now, key);
        }
    }
}

/// What is wrong with a Data-Out PDU.
struct Fault {
    sense: Sense,
    /// It belongs to a sequence, whose F bit is still waited for.
    counts: bool,
}

/// How many bytes of the PDU the command wants.
fn check_data_out(task: &Task, key: Key, pdu: &DataOut, parameters: Agreed) -> Result<u32, Fault> {
    let inbound = &task.inbound;
    let end = pdu.buffer_offset.saturating_add(pdu.data_segment_length);
    let solicited = pdu.ttt != Ttt::RESERVED;
    let sequence_end = if solicited {
        let known =
            inbound.bursts_done < inbound.r2ts && pdu.ttt == transfer_tag(key, inbound.bursts_done);
        if !known || pdu.lun != task.lun {
            return Err(Fault {
                sense: Sense::DATA_PHASE_ERROR,
                counts: false,
            });
        }
        inbound
            .burst(inbound.bursts_done, parameters.max_burst_length)
            .1
    } else {
        if !inbound.unsolicited_open {
            return Err(Fault {
                sense: Sense::UNEXPECTED_UNSOLICITED_DATA,
                counts: false,
            });
        }
        parameters.first_burst_length.min(task.expected_bytes)
    };
    if pdu.data_sn != inbound.data_sn {
        // A PDU before this one was lost (RFC 7143 section 7.9).
        return Err(Fault {
            sense: Sense::PROTOCOL_SERVICE_CRC_ERROR,
            counts: true,
        });
    }
    if pdu.buffer_offset != inbound.next_offset || end > sequence_end {
        return Err(Fault {
            sense: Sense::DATA_PHASE_ERROR,
            counts: true,
        });
    }
    // A burst ends with F, where it was asked to end and nowhere else.
    if solicited && pdu.is_final != (end == sequence_end) {
        return Err(Fault {
            sense: Sense::NOT_ENOUGH_UNSOLICITED_DATA,
            counts: true,
        });
    }
    Ok(pdu
        .data_segment_length
        .min(inbound.wanted_bytes.saturating_sub(pdu.buffer_offset)))
}
