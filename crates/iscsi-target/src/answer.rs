//! The end of a SCSI command: what the storage answered becomes data, status and a response.

use hakaru_scsi_device::{IoFailure, IoId, IoResult, SenseFormat, Verdict};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::{
    self, DataInStatus, Itt, Lun, Residual, ScsiResponse, TargetNumbers, Ttt,
};
use hakaru_wire::scsi::{Sense, Status};

use crate::connection::Connection;

use crate::target::Target;
use crate::task::{Access, Stage};

impl Target {
    /// An [`Io`] ended.
    pub fn handle_io_done(&mut self, now: Time, id: IoId, result: IoResult) {
        let key = id.0;
        let Some(task) = self.tasks.get(key) else {
            self.buffers.give_back(result);
            return;
        };
        let (connection, copying) = (task.connection, task.copying_bytes > 0);
        if let Some(job) = &task.job
            && job.background_bytes > 0
        {
            self.background.end(job.background_bytes);
        }
        match task.stage {
            Stage::Io => {}
            Stage::Aborted => {
                if matches!(task.access, Access::Keep { .. }) {
                    // Nobody waits for the answer; the reservations are as kept, or as before.
                    let _ = self.end_keeping(key, &result);
                }
                self.buffers.give_back(result);
                self.finish_aborted(now, key);
                return;
            }
            _ => unreachable!("an Io is asked for once and answered once"),
        }
        if matches!(task.access, Access::Keep { .. }) {
            return self.finish_keeping(now, key, &result);
        }
        if task.job.is_some() {
            self.handle_step_done(now, key, result);
        } else {
            if copying {
                self.release_copying(key);
            }
            self.answer(key, result);
        }
        self.start_waiting(now, connection);
        self.start_budgeted(now);
        self.announce(connection);
    }

    /// Ends a task: queues its data and status.
    fn answer(&mut self, key: Key, result: IoResult) {
        let Some(task) = self.remove_task(key) else {
            return;
        };
        let Some(conn) = self.connections.get_mut(task.connection.0) else {
            return self.buffers.give_back(result);
        };
        let available = task.access.bytes();
        let residual = Residual::between(task.expected_bytes, available.into());
        let moved = task.expected_bytes.min(available);
        let data_in = DataIn {
            itt: task.itt,
            length_bytes: moved,
            residual,
        };
        let lu = usize::from(task.lu);
        let r2ts = task.r2ts;
        match (task.access, result) {
            (Access::Read { offset_bytes, .. }, IoResult::ReadInPlace) => {
                let block_bytes = self.lus.get(task.lu).map_or(512, |lu| lu.block_bytes);
                data_in.send_in_place(conn, task.lu, offset_bytes, block_bytes);
                self.counters.lus[lu].read(moved);
            }
            (Access::Read { .. }, IoResult::ReadData(data)) if data.len() >= moved as usize => {
                data_in.send_buffer(conn, data);
                self.counters.lus[lu].read(moved);
            }
            (Access::Write { .. }, IoResult::Written(data)) => {
                self.counters.lus[lu].written(data.len() as u32);
                self.buffers.give(data);
                send_good(conn, task.itt, residual, r2ts);
            }
            (Access::Flush | Access::Parameters { .. }, IoResult::Flushed) => {
                send_good(conn, task.itt, residual, r2ts);
            }
            (_, result) => {
                let verdict = Verdict::Check(match result {
                    IoResult::Failed(failure) => failure_sense(failure),
                    _ => Sense::INTERNAL_TARGET_FAILURE,
                });
                let residual = Residual::between(task.expected_bytes, 0);
                let format = self.lus.sense_format(task.lun);
                send_response(conn, task.itt, verdict, format, residual, r2ts);
                self.buffers.give_back(result);
            }
        }
    }

    /// What the storage was asked to copy for a task is under way no more.
    pub(crate) fn release_copying(&mut self, key: Key) {
        let Some(task) = self
            .tasks
            .get_mut(key)
            .filter(|task| task.copying_bytes > 0)
        else {
            return;
        };
        let bytes = core::mem::take(&mut task.copying_bytes);
        if let Some(session) = self
            .connections
            .get_mut(task.connection.0)
            .and_then(Connection::session_mut)
        {
            session.copying_bytes -= u64::from(bytes);
        }
    }

    /// Ends a task that is not with the storage.
    pub(crate) fn finish(&mut self, key: Key, verdict: Verdict) {
        let Some(task) = self.remove_task(key) else {
            return;
        };
        if let Some(conn) = self.connections.get_mut(task.connection.0) {
            let good = verdict == Verdict::Status(Status::GOOD);
            let available = if good { task.access.bytes() } else { 0 };
            let residual = Residual::between(task.expected_bytes, available.into());
            let format = self.lus.sense_format(task.lun);
            send_response(conn, task.itt, verdict, format, residual, task.r2ts);
        }
    }
}

pub(crate) fn failure_sense(failure: IoFailure) -> Sense {
    match failure {
        IoFailure::Read => Sense::UNRECOVERED_READ_ERROR,
        IoFailure::Write => Sense::WRITE_ERROR,
        IoFailure::Space => Sense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT,
        IoFailure::Protected => Sense::WRITE_PROTECTED,
        IoFailure::Internal => Sense::INTERNAL_TARGET_FAILURE,
    }
}

/// Queues a SCSI Response with status GOOD.
pub(crate) fn send_good(conn: &mut Connection, itt: Itt, residual: Residual, data_pdus: u32) {
    let good = Verdict::Status(Status::GOOD);
    send_response(conn, itt, good, SenseFormat::Fixed, residual, data_pdus);
}

/// Queues a SCSI Response. `data_pdus`: R2Ts that were sent for the task.
pub(crate) fn send_response(
    conn: &mut Connection,
    itt: Itt,
    verdict: Verdict,
    format: SenseFormat,
    residual: Residual,
    data_pdus: u32,
) {
    let (fixed, descriptor);
    let (status, data) = match (verdict, format) {
        (Verdict::Status(status), _) => (status, &[][..]),
        (Verdict::Check(sense), SenseFormat::Fixed) => {
            fixed = sense.emit_response_data();
            (Status::CHECK_CONDITION, &fixed[..])
        }
        (Verdict::Check(sense), SenseFormat::Descriptor) => {
            descriptor = sense.emit_descriptor_response_data();
            (Status::CHECK_CONDITION, &descriptor[..])
        }
    };
    let response = ScsiResponse {
        residual,
        status: status.0,
        itt,
        numbers: conn.status_numbers(),
        exp_data_sn: data_pdus,
        data_segment_length: data.len() as u32,
        ..ScsiResponse::default()
    };
    let mut header = [0; 48];
    response.emit(&mut header);
    conn.send(&header, data);
}

/// What is said of the data of one command.
pub(crate) struct DataIn {
    pub(crate) itt: Itt,
    /// Bytes to send, at least 1.
    pub(crate) length_bytes: u32,
    pub(crate) residual: Residual,
}

impl DataIn {
    /// Sends a range of an LU in place. PDUs end on block boundaries, so that no PDU header stands inside a block.
    pub(crate) fn send_in_place(
        &self,
        conn: &mut Connection,
        lu: u8,
        offset_bytes: u64,
        block_bytes: u32,
    ) {
        self.cut(conn, block_bytes, |conn, start, length, _| {
            conn.send_lu_part(lu, offset_bytes + u64::from(start), length)
        });
    }

    /// Sends a buffer without copying it.
    pub(crate) fn send_buffer(&self, conn: &mut Connection, buffer: Vec<u8>) {
        conn.transmit.adopt_buffer(buffer);
        self.cut(conn, 4, Connection::send_buffer_part);
    }

    /// Sends a copy.
    pub(crate) fn send_copy(&self, conn: &mut Connection, data: &[u8]) {
        self.cut(conn, 4, |conn, start, length, _| {
            conn.send_data(&data[start as usize..][..length as usize])
        });
    }

    /// Queues the headers, and has `send` queue each data segment: `(start, length, last)`. Segments are multiples of `unit` bytes, except
    /// the last.
    fn cut(
        &self,
        conn: &mut Connection,
        unit: u32,
        mut send: impl FnMut(&mut Connection, u32, u32, bool),
    ) {
        let Some(session) = conn.session() else {
            return;
        };
        let parameters = session.parameters;
        let whole_max = parameters
            .max_burst_length
            .min(parameters.peer_max_recv_data_segment_length);
        let (burst_max, segment_max) = if self.length_bytes <= whole_max {
            // One PDU, as for most reads: nothing is to be cut.
            (whole_max, whole_max)
        } else {
            let burst_max = (parameters.max_burst_length / unit * unit).max(unit);
            let segment_max = parameters.peer_max_recv_data_segment_length / unit * unit;
            (burst_max, segment_max.clamp(unit, burst_max))
        };
        let (mut start, mut burst_left, mut data_sn) = (0, burst_max, 0);
        loop {
            let length = (self.length_bytes - start).min(segment_max).min(burst_left);
            let last = start + length == self.length_bytes;
            burst_left -= length;
            let pdu = self.pdu(conn, start, length, data_sn, last, burst_left == 0);
            let mut header = [0; 48];
            pdu.emit(&mut header);
            conn.send_header(&header);
            send(conn, start, length, last);
            if last {
                return;
            }
            start += length;
            data_sn += 1;
            if burst_left == 0 {
                burst_left = burst_max;
            }
        }
    }

    #[inline]
    fn pdu(
        &self,
        conn: &mut Connection,
        start: u32,
        length: u32,
        data_sn: u32,
        last: bool,
        burst_ends: bool,
    ) -> iscsi::DataIn {
        iscsi::DataIn {
            is_final: last || burst_ends,
            acknowledge: false,
            status: last.then_some(DataInStatus {
                status: Status::GOOD.0,
                residual: self.residual,
            }),
            lun: Lun::default(),
            itt: self.itt,
            ttt: Ttt::RESERVED,
            // StatSN is reserved where there is no status.
            numbers: if last {
                conn.status_numbers()
            } else {
                TargetNumbers {
                    stat_sn: iscsi::StatSn(0),
                    ..conn.numbers()
                }
            },
            data_sn,
            buffer_offset: start,
            data_segment_length: length,
        }
    }
}
