//! The end of a task: a status came, with its data or in a response. The task is done, or tried again.
use std::time::Duration;

use hakaru_units::Time;
use hakaru_wire::iscsi::{Residual, ScsiResponse, ScsiResponseCode};
use hakaru_wire::scsi::{Sense, SenseKey, Status};

use super::Session;
use super::task::{Ended, TaskData};
use crate::error::{SessionError, TaskError};

/// UNIT ATTENTION conditions that one task may meet: a target may hold several (power on, LUNs changed, …).
const ATTENTIONS_MAX: u8 = 16;
/// First pause after BUSY or TASK SET FULL; each further one is twice as long, up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_DOUBLINGS_MAX: u8 = 6;

impl Session {
    pub(super) fn handle_scsi_response(
        &mut self,
        now: Time,
        pdu: &ScsiResponse,
    ) -> Result<(), SessionError> {
        self.take_window(&pdu.numbers);
        self.take_stat_sn(pdu.numbers.stat_sn)?;
        let (slot, _) = self
            .tasks
            .find(pdu.itt)
            .ok_or(SessionError::Protocol("SCSI Response for an unknown task"))?;
        if pdu.response != ScsiResponseCode::Completed {
            self.finish_task(
                now,
                slot,
                Err(TaskError::TargetFailure(pdu.response.code())),
            );
            return Ok(());
        }
        let sense = Sense::parse_response_data(&self.collected);
        self.end_task(now, slot, Status(pdu.status), sense, pdu.residual);
        Ok(())
    }

    /// A status came: the task is done, or tried again.
    #[inline]
    pub(super) fn end_task(
        &mut self,
        now: Time,
        slot: u16,
        status: Status,
        sense: Option<Sense>,
        residual: Residual,
    ) {
        let Some(live) = self.tasks.get_mut(slot) else {
            return;
        };
        if status != Status::GOOD {
            if let Some(error) = self.retry(now, slot, status, sense) {
                self.finish_task(now, slot, Err(error));
            }
            return;
        }
        let moved = match (&live.task.data, residual) {
            (TaskData::Out { length, .. }, Residual::Underflow(missing)) => {
                length.saturating_sub(missing)
            }
            (TaskData::Out { length, .. }, _) => *length,
            _ => live.moved,
        };
        self.finish_task(now, slot, Ok(moved));
    }

    /// A status other than GOOD came: what it means, unless the task is tried again.
    #[cold]
    fn retry(
        &mut self,
        now: Time,
        slot: u16,
        status: Status,
        sense: Option<Sense>,
    ) -> Option<TaskError> {
        let live = self.tasks.get_mut(slot)?;
        match (status, sense) {
            (Status::CHECK_CONDITION, Some(sense))
                if sense.key == SenseKey::UnitAttention && live.attentions < ATTENTIONS_MAX =>
            {
                live.attentions += 1;
                live.rewind(now);
                self.ready.push_back(slot);
                None
            }
            (Status::BUSY | Status::TASK_SET_FULL, _) => {
                let pause = PAUSE_FIRST * (1 << live.busies.min(PAUSE_DOUBLINGS_MAX));
                live.busies = live.busies.saturating_add(1);
                live.rewind(now);
                self.busies += 1;
                self.delayed.push((now + pause, slot));
                None
            }
            (Status::CHECK_CONDITION, Some(sense)) => Some(TaskError::Check(sense)),
            (Status::CHECK_CONDITION, None) => Some(TaskError::CheckWithoutSense),
            (other, _) => Some(TaskError::Status(other)),
        }
    }

    #[inline]
    fn finish_task(&mut self, now: Time, slot: u16, result: Result<u32, TaskError>) {
        if let Some(live) = self.tasks.get_mut(slot) {
            live.end(now);
            self.done.push_back(Ended { slot, result });
        }
    }
}
