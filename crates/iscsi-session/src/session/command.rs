//! Sending tasks: commands within the window, immediate and unsolicited data, and data that R2Ts ask for.
use hakaru_units::Time;
use hakaru_wire::iscsi::keys::Agreed;
use hakaru_wire::iscsi::{DataOut, Itt, R2t, ScsiCommand, TaskAttribute, Ttt, digest};

use super::phases::Mark;
use super::task::TaskData;
use super::{Phase, Session};
use crate::error::SessionError;

impl Session {
    /// Commands may be sent: CmdSN up to MaxCmdSN (RFC 7143 section 4.2.2.1).
    #[inline]
    pub(super) fn window_is_open(&self) -> bool {
        matches!(self.phase, Phase::Full) && !self.max_cmd_sn.precedes(self.cmd_sn)
    }

    /// Sends tasks that have waited, as far as the command window allows.
    #[inline]
    pub(super) fn send_ready(&mut self) {
        while self.window_is_open()
            && let Some(slot) = self.ready.pop_front()
        {
            self.send_command(slot);
        }
    }

    pub(super) fn send_command(&mut self, slot: u16) {
        let cmd_sn = self.take_cmd_sn();
        let (itt, live) = self.tasks.send(slot);
        let write = matches!(live.task.data, TaskData::Out { .. });
        let length = live.task.data.length();
        let (immediate, unsolicited) = if write {
            unsolicited_parts(&self.agreed, length)
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
            exp_stat_sn: self.exp_stat_sn,
            cdb: live.task.cdb,
            data_segment_length: immediate,
        };
        let moved = immediate + unsolicited;
        live.moved = moved;
        live.clock.queue(moved);
        self.transmit.mark_next(Mark::command(itt));
        self.push_header(|out| header.emit(out));
        if moved > 0 {
            self.push_task_data(slot, 0, immediate);
            self.send_data_out(slot, itt, Ttt::RESERVED, immediate, unsolicited);
            self.transmit.mark_all(Mark::burst_ended(itt, moved));
        }
    }

    /// One sequence of Data-Out PDUs: for one R2T, or unsolicited.
    fn send_data_out(&mut self, slot: u16, itt: Itt, ttt: Ttt, begin: u32, length: u32) {
        let lun = self
            .tasks
            .get_mut(slot)
            .expect("the slot holds a task")
            .task
            .lun;
        let (end, mut at, mut data_sn) = (begin + length, begin, 0);
        while at < end {
            let piece = (end - at).min(self.agreed.peer_max_recv_data_segment_length);
            let header = DataOut {
                is_final: at + piece == end,
                lun,
                itt,
                ttt,
                exp_stat_sn: self.exp_stat_sn,
                data_sn,
                buffer_offset: at,
                data_segment_length: piece,
            };
            self.push_header(|out| header.emit(out));
            self.push_task_data(slot, at, piece);
            at += piece;
            data_sn += 1;
        }
    }

    /// Queues a part of a task's data as a data segment: by reference, with padding and digest behind it.
    fn push_task_data(&mut self, slot: u16, at: u32, length: u32) {
        if length == 0 {
            return;
        }
        let data_digest = self.data_digest();
        let live = self.tasks.get_mut(slot).expect("the slot holds a task");
        let TaskData::Out { buffer, begin, .. } = &live.task.data else {
            return;
        };
        let (begin, length) = (begin + at as usize, length as usize);
        self.transmit.push_data(buffer, begin, length);
        let padding = digest::padding(length);
        if padding > 0 || data_digest {
            let mut trailer = Vec::with_capacity(8);
            digest::emit_data_trailer(&buffer[begin..begin + length], data_digest, &mut trailer);
            self.transmit.push(&trailer);
        }
    }

    /// The target asks for a part of a write (RFC 7143 section 11.8). As DataSequenceInOrder is Yes, R2Ts ask for the data from
    /// front to back, each byte once; so however many a hostile target sends, what is queued is bounded by the write.
    pub(super) fn handle_r2t(&mut self, now: Time, r2t: &R2t) -> Result<(), SessionError> {
        self.take_window(&r2t.numbers);
        let max_burst = self.agreed.max_burst_length;
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
        live.clock.ask(now);
        self.transmit.mark_next(Mark::burst_begins(r2t.itt));
        self.send_data_out(slot, r2t.itt, r2t.ttt, r2t.buffer_offset, wanted);
        self.transmit.mark_all(Mark::burst_ended(r2t.itt, wanted));
        Ok(())
    }
}

/// Returns the bytes of a write of `length` bytes that are sent unsolicited: in the command, and after it. Both together
/// are never more than FirstBurstLength (RFC 7143 section 4.2.4.2).
fn unsolicited_parts(agreed: &Agreed, length: u32) -> (u32, u32) {
    let all = length.min(agreed.first_burst_length);
    let immediate = if agreed.immediate_data {
        all.min(agreed.peer_max_recv_data_segment_length)
    } else {
        0
    };
    let after = if agreed.initial_r2t {
        0
    } else {
        all - immediate
    };
    (immediate, after)
}
