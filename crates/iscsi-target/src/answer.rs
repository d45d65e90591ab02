//! The end of a SCSI command: what the storage answered becomes data, status and a response.

use hakaru_scsi_device::{IoFailure, IoId, IoResult, Key, SenseFormat, Verdict};
use hakaru_units::Time;
use hakaru_wire::iscsi::{Itt, Residual, ScsiResponse};
use hakaru_wire::scsi::{Sense, Status};

use crate::connection::Connection;
use crate::data_in::DataIn;

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
        let connection = task.connection;
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
            self.release_copying(key);
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
        let Some(on) = self.connections.get_mut(task.connection.0) else {
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
                data_in.send_in_place(on, task.lu, offset_bytes, block_bytes);
                self.counters.lus[lu].read(moved);
            }
            (Access::Read { .. }, IoResult::ReadData(data)) if data.len() >= moved as usize => {
                data_in.send_buffer(on, data);
                self.counters.lus[lu].read(moved);
            }
            (Access::Write { .. }, IoResult::Written(data)) => {
                self.counters.lus[lu].written(data.len() as u32);
                self.buffers.give(data);
                send_good(on, task.itt, residual, r2ts);
            }
            (Access::Flush | Access::Parameters { .. }, IoResult::Flushed) => {
                send_good(on, task.itt, residual, r2ts);
            }
            (_, result) => {
                let verdict = Verdict::Check(match result {
                    IoResult::Failed(failure) => failure_sense(failure),
                    _ => Sense::INTERNAL_TARGET_FAILURE,
                });
                let residual = Residual::between(task.expected_bytes, 0);
                let format = self.lus.sense_format(task.lun);
                send_response(on, task.itt, verdict, format, residual, r2ts);
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
        if let Some(on) = self.connections.get_mut(task.connection.0) {
            let good = verdict == Verdict::Status(Status::GOOD);
            let available = if good { task.access.bytes() } else { 0 };
            let residual = Residual::between(task.expected_bytes, available.into());
            let format = self.lus.sense_format(task.lun);
            send_response(on, task.itt, verdict, format, residual, task.r2ts);
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
pub(crate) fn send_good(on: &mut Connection, itt: Itt, residual: Residual, data_pdus: u32) {
    let good = Verdict::Status(Status::GOOD);
    send_response(on, itt, good, SenseFormat::Fixed, residual, data_pdus);
}

/// Queues a SCSI Response. `data_pdus`: R2Ts that were sent for the task.
pub(crate) fn send_response(
    on: &mut Connection,
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
        numbers: on.status_numbers(),
        exp_data_sn: data_pdus,
        data_segment_length: data.len() as u32,
        ..ScsiResponse::default()
    };
    let mut header = [0; 48];
    response.emit(&mut header);
    on.send(&header, data);
}
