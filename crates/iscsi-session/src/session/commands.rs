//! The tasks of a session and their PDUs: commands within the command window, data in both
//! directions, status, retries.
use std::collections::VecDeque;
use std::time::Duration;

use hakaru_units::Time;
use hakaru_wire::iscsi::keys::Agreed;
use hakaru_wire::iscsi::{
    DataIn, DataOut, Itt, R2t, Residual, ScsiCommand, ScsiResponse, ScsiResponseCode,
    TaskAttribute, Ttt, digest,
};
use hakaru_wire::scsi::{Sense, SenseKey, Status};

use super::link::Link;
use super::phases::Mark;
use super::task::{Done, Ended, Task, TaskData, Tasks};
use crate::error::{SessionError, TaskError};

/// Maximum number of retries of a task after UNIT ATTENTION. A target may hold several conditions
/// (power on, LUNs changed, …).
const ATTENTIONS_MAX: u8 = 16;
/// First pause after BUSY or TASK SET FULL. Each further pause is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
/// Maximum number of doublings of the pause, which limits it to 640 ms.
const PAUSE_DOUBLINGS_MAX: u8 = 6;

/// Maximum number of spare buffers.
const SPARE_MAX: usize = 32;

/// The tasks of a session.
#[derive(Debug, Default)]
pub(super) struct Commands {
    tasks: Tasks,
    /// Slots of tasks to send when the window allows, in order.
    ready: VecDeque<u16>,
    /// Slots of tasks that BUSY or TASK SET FULL delays, each with the instant of the retry.
    delayed: Vec<(Time, u16)>,
    /// Tasks that have ended and were not polled, in order.
    done: VecDeque<Ended>,
    /// Reusable buffers for read data.
    spare: Vec<Vec<u8>>,
    busies: u64,
    /// Whether a unit attention condition has reported a change of access states.
    access_changed: bool,
}

impl Commands {
    /// Submits a task. It is sent as soon as the target's command window allows.
    pub(super) fn submit(&mut self, now: Time, task: Task, deadline: Time, link: &mut Link) {
        let slot = self.tasks.insert(now, task, deadline);
        if self.ready.is_empty() && link.window_is_open() {
            self.send_command(slot, link);
        } else {
            self.ready.push_back(slot);
        }
    }

    /// Returns the next task that has ended.
    #[inline]
    pub(super) fn poll_done(&mut self) -> Option<Done> {
        let Ended { slot, result } = self.done.pop_front()?;
        Some(self.tasks.take(slot, result))
    }

    /// Keeps the buffer of a [`Done`] for reuse.
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() > 0 && self.spare.len() < SPARE_MAX {
            self.spare.push(buffer);
        }
    }

    /// Returns the number of tasks that have not ended.
    pub(super) fn len(&self) -> usize {
        self.tasks.len() - self.done.len()
    }

    /// Returns the number of BUSY and TASK SET FULL answers.
    pub(super) fn busies(&self) -> u64 {
        self.busies
    }

    /// Returns whether a change of access states was reported after the last call.
    pub(super) fn take_access_change(&mut self) -> bool {
        std::mem::take(&mut self.access_changed)
    }

    /// Returns the earliest deadline of all tasks.
    pub(super) fn earliest_deadline(&self) -> Option<Time> {
        self.tasks.iter().map(|live| live.deadline).min()
    }

    /// Returns when the first delayed task is retried.
    pub(super) fn next_release(&self) -> Option<Time> {
        self.delayed.iter().map(|&(at, _)| at).min()
    }

    /// Queues the delayed tasks that are due for a retry.
    pub(super) fn release_delayed(&mut self, now: Time, link: &mut Link) {
        let ready = &mut self.ready;
        self.delayed.retain(|&(at, slot)| {
            if at <= now {
                ready.push_back(slot);
            }
            at > now
        });
        self.send_ready(link);
    }

    /// Sends queued tasks as far as the command window allows.
    #[inline]
    pub(super) fn send_ready(&mut self, link: &mut Link) {
        while link.window_is_open()
            && let Some(slot) = self.ready.pop_front()
        {
            self.send_command(slot, link);
        }
    }

    /// Advances the clocks of tasks to the marks that were sent. Marks of tasks that have ended are
    /// dropped.
    #[inline]
    pub(super) fn take_passed(&mut self, link: &mut Link) {
        let tasks = &mut self.tasks;
        link.transmit.take_passed(|at, mark| {
            if let Some((_, live)) = tasks.find(mark.itt) {
                live.clock.pass(at, mark);
            }
        });
    }

    /// Checks the header of a Data-In. Returns the task's slot and whether its data is kept.
    ///
    /// DataPDUInOrder and DataSequenceInOrder are Yes, because the session offers Yes and Yes wins.
    /// Data therefore arrives in ascending order of offsets.
    #[inline]
    pub(super) fn begin_data_in(
        &mut self,
        now: Time,
        pdu: &DataIn,
        link: &mut Link,
    ) -> Result<(u16, bool), SessionError> {
        let (slot, live) = self
            .tasks
            .find(pdu.itt)
            .ok_or(SessionError::Protocol("Data-In for an unknown task"))?;
        let TaskData::In { length, keep } = live.task.data else {
            return Err(SessionError::Protocol(
                "Data-In for a task that does not read",
            ));
        };
        if pdu.data_sn != live.next_sn {
            return Err(SessionError::Protocol("DataSN out of order"));
        }
        if pdu.buffer_offset != live.moved {
            return Err(SessionError::Protocol("Data-In out of order"));
        }
        if pdu.data_segment_length > length - live.moved {
            return Err(SessionError::Protocol("Data-In beyond the expected length"));
        }
        live.next_sn = live.next_sn.wrapping_add(1);
        live.moved += pdu.data_segment_length;
        live.clock.receive_data(now);
        link.take_window(&pdu.numbers);
        if pdu.status.is_some() {
            link.check_stat_sn(pdu.numbers.stat_sn)?;
        }
        Ok((slot, keep))
    }

    /// Appends read data to that of the task in `slot`.
    #[inline]
    pub(super) fn keep_data(&mut self, slot: u16, bytes: &[u8]) {
        let live = self
            .tasks
            .get_mut(slot)
            .expect("the task lives until its status");
        if live.read_data.capacity() == 0 {
            live.read_data = self.spare.pop().unwrap_or_default();
        }
        live.read_data.extend_from_slice(bytes);
    }

    /// Handles the end of a Data-In without status.
    #[inline]
    pub(super) fn end_data_in(&mut self, now: Time, slot: u16) {
        let live = self
            .tasks
            .get_mut(slot)
            .expect("the task lives until its status");
        if live.moved == live.task.data.length() {
            live.clock.end_data(now);
        }
    }

    fn send_command(&mut self, slot: u16, link: &mut Link) {
        let cmd_sn = link.take_cmd_sn();
        let (itt, live) = self.tasks.send(slot);
        let write = matches!(live.task.data, TaskData::Out { .. });
        let length = live.task.data.length();
        let (immediate, unsolicited) = if write {
            unsolicited_parts(link.agreed(), length)
        } else {
            (0, 0)
        };
        let header = ScsiCommand {
            immediate: false,
            is_final: unsolicited == 0,
            read: matches!(live.task.data, TaskData::In { .. }),
            write,
            attribute: TaskAttribute::Simple,
            lun: live.task.lun,
            itt,
            expected_data_transfer_length: length,
            cmd_sn,
            exp_stat_sn: link.exp_stat_sn(),
            cdb: live.task.cdb,
            data_segment_length: immediate,
        };
        let moved = immediate + unsolicited;
        live.moved = moved;
        live.clock.queue(moved);
        link.transmit.mark_next(Mark::command(itt));
        link.push_header(|out| header.emit(out));
        if moved > 0 {
            self.push_task_data(slot, 0, immediate, link);
            self.send_data_out(slot, (itt, Ttt::RESERVED), immediate, unsolicited, link);
            link.transmit.mark_all(Mark::burst_ended(itt, moved));
        }
    }

    /// Queues one sequence of Data-Out PDUs, for one R2T or unsolicited.
    fn send_data_out(
        &mut self,
        slot: u16,
        (itt, ttt): (Itt, Ttt),
        begin: u32,
        length: u32,
        link: &mut Link,
    ) {
        let lun = self
            .tasks
            .get_mut(slot)
            .expect("the slot holds a task")
            .task
            .lun;
        let (end, mut at, mut data_sn) = (begin + length, begin, 0);
        while at < end {
            let piece = (end - at).min(link.agreed().peer_max_recv_data_segment_length);
            let header = DataOut {
                is_final: at + piece == end,
                lun,
                itt,
                ttt,
                exp_stat_sn: link.exp_stat_sn(),
                data_sn,
                buffer_offset: at,
                data_segment_length: piece,
            };
            link.push_header(|out| header.emit(out));
            self.push_task_data(slot, at, piece, link);
            at += piece;
            data_sn += 1;
        }
    }

    /// Queues a part of a task's data as a data segment: the data by reference, then padding and
    /// digest.
    fn push_task_data(&mut self, slot: u16, at: u32, length: u32, link: &mut Link) {
        if length == 0 {
            return;
        }
        let data_digest = link.data_digest();
        let live = self.tasks.get_mut(slot).expect("the slot holds a task");
        let TaskData::Out { buffer, begin, .. } = &live.task.data else {
            return;
        };
        let (begin, length) = (begin + at as usize, length as usize);
        link.transmit.push_data(buffer, begin, length);
        let padding = digest::padding(length);
        if padding > 0 || data_digest {
            let mut trailer = Vec::with_capacity(8);
            digest::emit_data_trailer(&buffer[begin..begin + length], data_digest, &mut trailer);
            link.transmit.push(&trailer);
        }
    }

    /// Sends the part of a write that an R2T requests (RFC 7143 section 11.8).
    ///
    /// DataSequenceInOrder is Yes, so R2Ts request the data in ascending order, each byte once. The
    /// length of the write therefore limits the bytes that a hostile target can cause to be queued.
    pub(super) fn handle_r2t(
        &mut self,
        now: Time,
        r2t: &R2t,
        link: &mut Link,
    ) -> Result<(), SessionError> {
        link.take_window(&r2t.numbers);
        let max_burst = link.agreed().max_burst_length;
        let (slot, live) = self
            .tasks
            .find(r2t.itt)
            .ok_or(SessionError::Protocol("R2T for an unknown task"))?;
        let TaskData::Out { length, .. } = live.task.data else {
            return Err(SessionError::Protocol("R2T for a task that does not write"));
        };
        if r2t.r2t_sn != live.next_sn {
            return Err(SessionError::Protocol("R2TSN out of order"));
        }
        let wanted = r2t.desired_data_transfer_length;
        if wanted > max_burst {
            return Err(SessionError::Protocol("R2T for more than MaxBurstLength"));
        }
        if r2t.buffer_offset != live.moved || wanted > length - live.moved {
            return Err(SessionError::Protocol(
                "R2T for data outside the rest of the write",
            ));
        }
        live.next_sn = live.next_sn.wrapping_add(1);
        live.moved += wanted;
        live.clock.receive_r2t(now);
        link.transmit.mark_next(Mark::burst_begins(r2t.itt));
        self.send_data_out(slot, (r2t.itt, r2t.ttt), r2t.buffer_offset, wanted, link);
        link.transmit.mark_all(Mark::burst_ended(r2t.itt, wanted));
        Ok(())
    }

    pub(super) fn handle_scsi_response(
        &mut self,
        now: Time,
        pdu: &ScsiResponse,
        data: &[u8],
        link: &mut Link,
    ) -> Result<(), SessionError> {
        link.take_window(&pdu.numbers);
        link.take_stat_sn(pdu.numbers.stat_sn)?;
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
        let sense = Sense::parse_response_data(data);
        self.end_task(now, slot, Status(pdu.status), sense, pdu.residual);
        Ok(())
    }

    /// Handles the status of a task: completes the task or retries it.
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
        // A target cannot have stored data that it did not ask for.
        let moved = match (&live.task.data, residual) {
            (TaskData::Out { length, .. }, Residual::Underflow(missing)) => {
                live.moved.min(length.saturating_sub(missing))
            }
            _ => live.moved,
        };
        self.finish_task(now, slot, Ok(moved));
    }

    /// Handles a status other than GOOD. Returns the error, or `None` if the task is retried.
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
                self.access_changed |=
                    sense.additional == Sense::ASYMMETRIC_ACCESS_STATE_CHANGED.additional;
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

/// Returns the number of unsolicited bytes of a write of `length` bytes: in the command, and after
/// it. Their sum is at most FirstBurstLength (RFC 7143 section 4.2.4.2).
fn unsolicited_parts(agreed: &Agreed, length: u32) -> (u32, u32) {
    let unsolicited = length.min(agreed.first_burst_length);
    let immediate = if agreed.immediate_data {
        unsolicited.min(agreed.peer_max_recv_data_segment_length)
    } else {
        0
    };
    let after = if agreed.initial_r2t {
        0
    } else {
        unsolicited - immediate
    };
    (immediate, after)
}
