//! Receiving: what a target's PDUs do to a session. Every rule that a PDU breaks ends the session with a [`SessionError`].
use hakaru_units::Time;
use hakaru_wire::iscsi::frame::Frame;
use hakaru_wire::iscsi::{
    AsyncEvent, AsyncMessage, Bhs, DataIn, Itt, LogoutResponse, NopIn, Opcode, R2t, Reject,
    Residual, ScsiResponse, StatSn, TargetNumbers, TextResponse, Ttt,
};
use hakaru_wire::scsi::Status;

use super::task::{LOGOUT, PING, TEXT, TaskData};
use super::{Event, Phase, Purpose, Session, TEXT_MAX, login};
use crate::error::SessionError;

/// Answers to NOP-Ins that may wait to be sent. A target that pings without reading is hostile.
const PONGS_MAX: u32 = 1024;
/// Text Responses of one discovery; 1 MiB in pieces of the least MaxRecvDataSegmentLength is 2048.
const TEXT_RESPONSES_MAX: u32 = 2048;

/// The PDU whose data segment is being received.
#[derive(Clone, Copy, Debug)]
pub(super) enum Receiving {
    /// Between PDUs.
    Nothing,
    /// Data-In: its data belongs to the task in this slot, which may keep it and may end with it.
    DataIn {
        slot: u16,
        keep: bool,
        status: Option<Status>,
    },
    /// Any other: handled when it is complete.
    Other(Bhs),
}

impl Session {
    /// Takes what was received, in pieces of any size.
    pub fn handle_received(&mut self, now: Time, bytes: &[u8]) {
        if matches!(self.phase, Phase::Idle) {
            return; // Of a connection that a redirect has left behind.
        }
        self.heard = now;
        self.take_passed();
        if let Err(error) = self.handle_frames(now, bytes) {
            self.lose(error);
        }
        self.send_ready();
    }

    #[inline]
    fn handle_frames(&mut self, now: Time, mut bytes: &[u8]) -> Result<(), SessionError> {
        while !self.is_ended() {
            match self.framer.next(&mut bytes) {
                Ok(None) => break,
                Ok(Some(Frame::Header { bhs, .. })) => {
                    let bhs = *bhs;
                    self.handle_header(now, &bhs)?;
                }
                Ok(Some(Frame::Data { bytes, .. })) => self.handle_data(bytes),
                Ok(Some(Frame::End { data_digest_ok })) => {
                    self.handle_end(now, data_digest_ok)?;
                    if bytes.is_empty() {
                        break;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Of what comes next, bytes that [`Session::handle_received`] will count and not look at: read data that nobody keeps, in a data
    /// segment of at least `segment_min` bytes.
    #[must_use]
    pub fn unwanted_bytes(&self, segment_min: u32) -> usize {
        match self.receiving {
            Receiving::DataIn { keep: false, .. } => self.framer.data_left(segment_min) as usize,
            _ => 0,
        }
    }

    /// What went out since the last look, as far as it is of commands that have not ended.
    #[inline]
    fn take_passed(&mut self) {
        let tasks = &mut self.tasks;
        self.transmit.take_passed(|at, mark| {
            if let Some((_, live)) = tasks.find(mark.itt) {
                live.clock.pass(at, mark);
            }
        });
    }

    #[inline]
    fn handle_header(&mut self, now: Time, bhs: &Bhs) -> Result<(), SessionError> {
        let in_login = matches!(self.phase, Phase::Login(_));
        if bhs.opcode_code() == Opcode::DataIn.code() && !in_login {
            self.begin_data_in(now, &DataIn::parse(bhs)?)
        } else {
            self.begin_other(bhs, in_login)
        }
    }

    fn begin_other(&mut self, bhs: &Bhs, in_login: bool) -> Result<(), SessionError> {
        match bhs.opcode() {
            Some(Opcode::LoginResponse) if in_login => {}
            Some(opcode)
                if !in_login && !opcode.from_initiator() && opcode != Opcode::LoginResponse => {}
            _ => {
                return Err(SessionError::Protocol(
                    "a PDU that may not come in this phase",
                ));
            }
        }
        self.collected.clear();
        self.receiving = Receiving::Other(*bhs);
        Ok(())
    }

    /// DataPDUInOrder and DataSequenceInOrder are Yes (we offer no other, and Yes wins): data comes from front to back.
    #[inline]
    fn begin_data_in(&mut self, now: Time, pdu: &DataIn) -> Result<(), SessionError> {
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
        live.clock.receive(now);
        self.take_window(&pdu.numbers);
        let stat_sn = pdu.numbers.stat_sn;
        if pdu.status.is_some() && stat_sn != self.exp_stat_sn {
            return Err(SessionError::Protocol("StatSN out of order"));
        }
        self.receiving = Receiving::DataIn {
            slot,
            keep,
            status: pdu.status.map(|with| Status(with.status)),
        };
        Ok(())
    }

    #[inline]
    fn handle_data(&mut self, bytes: &[u8]) {
        match self.receiving {
            Receiving::DataIn { keep: false, .. } | Receiving::Nothing => {}
            Receiving::DataIn { slot, .. } => {
                let live = self
                    .tasks
                    .get_mut(slot)
                    .expect("the task lives until its status");
                if live.kept.capacity() == 0 {
                    live.kept = self.spare.pop().unwrap_or_default();
                }
                live.kept.extend_from_slice(bytes);
            }
            // At most our MaxRecvDataSegmentLength, which the framer holds.
            Receiving::Other(_) => self.collected.extend_from_slice(bytes),
        }
    }

    #[inline]
    fn handle_end(&mut self, now: Time, data_digest_ok: bool) -> Result<(), SessionError> {
        if !data_digest_ok {
            return Err(SessionError::DataDigest);
        }
        match self.receiving {
            Receiving::Nothing => {}
            Receiving::DataIn {
                slot, status: None, ..
            } => {
                let live = self
                    .tasks
                    .get_mut(slot)
                    .expect("the task lives until its status");
                if live.moved == live.task.data.length() {
                    live.clock.received(now);
                }
            }
            Receiving::DataIn {
                slot,
                status: Some(status),
                ..
            } => {
                // Not before: the target may change what it lent to the kernel once we say that we have it.
                self.exp_stat_sn = self.exp_stat_sn.plus(1);
                self.end_task(now, slot, status, None, Residual::None);
            }
            Receiving::Other(bhs) => {
                self.receiving = Receiving::Nothing;
                return self.handle_pdu(now, &bhs);
            }
        }
        self.receiving = Receiving::Nothing;
        Ok(())
    }

    fn handle_pdu(&mut self, now: Time, bhs: &Bhs) -> Result<(), SessionError> {
        match bhs.opcode() {
            Some(Opcode::ScsiResponse) => {
                self.handle_scsi_response(now, &ScsiResponse::parse(bhs)?)
            }
            Some(Opcode::R2t) => self.handle_r2t(now, &R2t::parse(bhs)?),
            Some(Opcode::NopIn) => self.handle_nop_in(&NopIn::parse(bhs)?),
            Some(Opcode::LoginResponse) => self.handle_login_response(now, bhs),
            Some(Opcode::TextResponse) => {
                self.handle_text_response(now, &TextResponse::parse(bhs)?)
            }
            Some(Opcode::LogoutResponse) => {
                self.handle_logout_response(&LogoutResponse::parse(bhs)?)
            }
            Some(Opcode::AsyncMessage) => self.handle_async_message(&AsyncMessage::parse(bhs)?),
            Some(Opcode::Reject) => self.handle_reject(&Reject::parse(bhs)?),
            // Not asked for: task management is never used, the rest are no target's opcodes.
            _ => Err(SessionError::Protocol("a PDU that answers nothing")),
        }
    }

    fn handle_nop_in(&mut self, pdu: &NopIn) -> Result<(), SessionError> {
        self.take_window(&pdu.numbers);
        if pdu.itt != Itt::RESERVED {
            // The echo of our ping. StatSN advances only here (RFC 7143 section 11.19).
            self.take_stat_sn(pdu.numbers.stat_sn)?;
            return if pdu.itt == PING && self.pinged.take().is_some() {
                Ok(())
            } else {
                Err(SessionError::Protocol("NOP-In that answers nothing"))
            };
        }
        if pdu.ttt != Ttt::RESERVED {
            self.pongs = if self.transmit.is_empty() {
                1
            } else {
                self.pongs + 1
            };
            if self.pongs > PONGS_MAX {
                return Err(SessionError::Protocol(
                    "more NOP-Ins than the target reads answers",
                ));
            }
            self.send_nop_out(pdu.lun, Itt::RESERVED, pdu.ttt);
        }
        Ok(())
    }

    fn handle_text_response(&mut self, now: Time, pdu: &TextResponse) -> Result<(), SessionError> {
        self.take_window(&pdu.numbers);
        self.take_stat_sn(pdu.numbers.stat_sn)?;
        if pdu.itt != TEXT || self.config.purpose != Purpose::Discovery {
            return Err(SessionError::Protocol("Text Response that answers nothing"));
        }
        self.text.extend_from_slice(&self.collected);
        self.text_responses += 1;
        if self.text.len() > TEXT_MAX || self.text_responses > TEXT_RESPONSES_MAX {
            return Err(SessionError::Protocol("Text Response without end"));
        }
        if !pdu.is_final {
            // An empty request with the target's tag asks it to go on (RFC 7143 section 11.10.4).
            self.send_text(pdu.lun, pdu.ttt, &[]);
            return Ok(());
        }
        let targets = login::parse_targets(&self.text)?;
        self.events.push_back(Event::Targets(targets));
        self.log_out(now);
        Ok(())
    }

    fn handle_logout_response(&mut self, pdu: &LogoutResponse) -> Result<(), SessionError> {
        if !matches!(self.phase, Phase::Logout) || pdu.itt != LOGOUT {
            return Err(SessionError::Protocol(
                "Logout Response that answers nothing",
            ));
        }
        self.end(Event::LoggedOut);
        Ok(())
    }

    /// RFC 7143 section 11.9.
    fn handle_async_message(&mut self, pdu: &AsyncMessage) -> Result<(), SessionError> {
        self.take_window(&pdu.numbers);
        self.take_stat_sn(pdu.numbers.stat_sn)?;
        match pdu.event {
            AsyncEvent::LogoutRequested => Err(SessionError::Dropped("asked for a logout")),
            AsyncEvent::ConnectionDropped => Err(SessionError::Dropped("dropped the connection")),
            AsyncEvent::SessionDropped => Err(SessionError::Dropped(
                "dropped all connections of the session",
            )),
            // We have nothing to negotiate anew; the target may end the session if it insists. The rest is news only.
            _ => Ok(()),
        }
    }

    fn handle_reject(&mut self, pdu: &Reject) -> Result<(), SessionError> {
        self.take_window(&pdu.numbers);
        self.take_stat_sn(pdu.numbers.stat_sn)?;
        Err(SessionError::Rejected(pdu.reason))
    }

    /// At error recovery level 0 a status that is missing cannot be asked for again (RFC 7143 section 7.1.4.1): the session is lost.
    #[inline]
    pub(super) fn take_stat_sn(&mut self, stat_sn: StatSn) -> Result<(), SessionError> {
        if stat_sn != self.exp_stat_sn {
            return Err(SessionError::Protocol("StatSN out of order"));
        }
        self.exp_stat_sn = stat_sn.plus(1);
        Ok(())
    }

    /// RFC 7143 section 4.2.2.1: numbers that contradict one another are ignored, and the window never moves back.
    #[inline]
    pub(super) fn take_window(&mut self, numbers: &TargetNumbers) {
        let contradictory = numbers.max_cmd_sn.precedes(numbers.exp_cmd_sn.minus(1));
        if !contradictory && self.max_cmd_sn.precedes(numbers.max_cmd_sn) {
            self.max_cmd_sn = numbers.max_cmd_sn;
        }
    }
}
