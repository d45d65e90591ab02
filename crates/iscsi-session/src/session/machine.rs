//! [`Session`]: its phases and timers, and the dispatch of the target's PDUs.
use std::collections::VecDeque;
use std::time::Duration;

use hakaru_units::Time;
use hakaru_wire::iscsi::frame::{Frame, Framer};
use hakaru_wire::iscsi::keys::Agreed;
use hakaru_wire::iscsi::{
    AsyncEvent, AsyncMessage, Bhs, DataIn, Isid, Itt, LoginResponse, LogoutResponse, Lun, NopIn,
    Opcode, R2t, Reject, Residual, ScsiResponse, TextResponse, Ttt,
};
use hakaru_wire::scsi::Status;

use super::commands::Commands;
use super::config::{Event, Purpose, SessionConfig};
use super::discovery::Discovery;
use super::link::Link;
use super::login::{LOGIN_SEGMENT_MAX, Login, Progress, redirect_address};
use super::task::{Done, LOGOUT, PING, TEXT, Task};
use crate::arrival::Arrival;
use crate::error::SessionError;
use crate::transmit::Transmit;

/// Maximum number of queued answers to NOP-Ins. A target that exceeds it pings without reading.
const PONGS_MAX: u32 = 1024;
/// Text of a discovery session's request.
const SEND_TARGETS: &[u8] = b"SendTargets=All\0";

#[derive(Debug)]
enum Phase {
    Idle,
    Login(Box<Login>),
    Full,
    Logout,
    Ended,
}

/// The PDU whose data segment is being received.
#[derive(Clone, Copy, Debug)]
enum Receiving {
    /// Between PDUs.
    Nothing,
    /// Data-In of the task in `slot`. `keep` stores the data; `status` ends the task.
    DataIn {
        slot: u16,
        keep: bool,
        status: Option<Status>,
    },
    /// Any other PDU, which is handled when it is complete.
    Other(Bhs),
}

/// One session. See the documentation of the parent module.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    phase: Phase,
    link: Link,
    commands: Commands,
    framer: Framer,
    receiving: Receiving,
    /// Data segment received so far of a PDU other than Data-In.
    collected: Vec<u8>,
    discovery: Discovery,
    events: VecDeque<Event>,
    /// Instant at which bytes of the target last arrived.
    last_received: Time,
    /// Instant at which the unanswered ping was sent, if any.
    ping_sent: Option<Time>,
    /// Instant by which login or logout must be complete. In full feature phase, instant at which
    /// the deadlines of tasks are checked next.
    deadline: Time,
    /// Number of answers to NOP-Ins queued since the one that ends at `pong_end`.
    pongs: u32,
    /// Position of the send queue at which the first of these answers ends.
    pong_end: u64,
    /// TargetPortalGroupTag of the login.
    portal_group: Option<u16>,
}

impl Session {
    /// Creates a session that waits for its connection.
    #[must_use]
    pub fn new(config: SessionConfig) -> Session {
        Session {
            config,
            phase: Phase::Idle,
            link: Link::new(),
            commands: Commands::default(),
            framer: Framer::new(LOGIN_SEGMENT_MAX),
            receiving: Receiving::Nothing,
            collected: Vec::new(),
            discovery: Discovery::default(),
            events: VecDeque::new(),
            last_received: Time::ZERO,
            ping_sent: None,
            deadline: Time::MAX,
            pongs: 0,
            pong_end: 0,
            portal_group: None,
        }
    }

    /// Starts the login on an established connection.
    pub fn handle_connected(&mut self, now: Time) {
        debug_assert!(matches!(self.phase, Phase::Idle));
        self.last_received = now;
        self.deadline = now + self.config.timers.login;
        let mut login = Login::new(&self.config);
        let transit = login.may_transit();
        login.send(transit, self.config.isid, &mut self.link);
        self.phase = Phase::Login(Box::new(login));
    }

    /// Handles the end of the connection. `cause` completes the message "connection lost …". After
    /// a logout, the end is not an error.
    pub fn handle_closed(&mut self, cause: &'static str) {
        match self.phase {
            Phase::Idle | Phase::Ended => {}
            Phase::Logout => self.end(Event::LoggedOut),
            _ => self.lose(SessionError::Closed(cause)),
        }
    }

    /// Handles expired timers. An early call has no effect.
    pub fn handle_timeout(&mut self, now: Time) {
        match self.phase {
            Phase::Idle | Phase::Ended => {}
            Phase::Login(_) => self.lose_if_due(now, "the login", self.config.timers.login),
            Phase::Logout => self.lose_if_due(now, "the logout", self.config.timers.command),
            Phase::Full => {
                self.commands.release_delayed(now, &mut self.link);
                self.check_ping(now);
                self.check_tasks(now);
            }
        }
    }

    /// Returns when [`Session::handle_timeout`] must be called next. The instant may move later
    /// without notice. An early call has no effect.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.phase {
            Phase::Idle | Phase::Ended => None,
            Phase::Login(_) | Phase::Logout => Some(self.deadline),
            Phase::Full => {
                let released = self.commands.next_release().unwrap_or(Time::MAX);
                Some(self.next_ping().min(self.deadline).min(released))
            }
        }
    }

    /// Submits a task. It is sent as soon as the target's command window allows. An ended session
    /// discards it.
    pub fn submit(&mut self, now: Time, task: Task) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        let deadline = now + self.config.timers.command;
        self.commands.submit(now, task, deadline, &mut self.link);
    }

    /// Logs out without waiting for tasks in flight. [`Event::LoggedOut`] follows, whatever the
    /// target does.
    pub fn log_out(&mut self, now: Time) {
        match self.phase {
            Phase::Full => {}
            Phase::Logout | Phase::Ended => return,
            Phase::Idle | Phase::Login(_) => return self.end(Event::LoggedOut),
        }
        self.phase = Phase::Logout;
        self.deadline = now + self.config.timers.command;
        self.link.close();
        self.link.push_logout();
    }

    /// Returns the next completed task.
    #[inline]
    pub fn poll_done(&mut self) -> Option<Done> {
        self.commands.poll_done()
    }

    /// Returns the next event of the session.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the send queue.
    pub fn transmit(&mut self) -> &mut Transmit {
        &mut self.link.transmit
    }

    /// Accepts the buffer of a [`Done`] for reuse by later reads.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.commands.recycle(buffer);
    }

    /// Returns the negotiated keys. These are the RFC's defaults before [`Event::LoggedIn`].
    #[must_use]
    pub fn agreed(&self) -> &Agreed {
        self.link.agreed()
    }

    /// Returns the initiator's part of the session ID.
    #[must_use]
    pub fn isid(&self) -> Isid {
        self.config.isid
    }

    /// Returns the target portal group of the portal, which the target declares during the login. A
    /// login with the same session ID over any portal of the group ends an older session (RFC 7143
    /// section 6.3.5).
    #[must_use]
    pub fn portal_group(&self) -> Option<u16> {
        self.portal_group
    }

    /// Returns whether a unit attention condition has reported, after the last call, that access
    /// states of target ports have changed (ALUA). The session has repeated the command.
    pub fn take_access_change(&mut self) -> bool {
        self.commands.take_access_change()
    }

    /// Returns the number of tasks that were submitted and have not ended.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.commands.len()
    }

    /// Returns the number of BUSY and TASK SET FULL answers so far. Each such task is retried.
    #[must_use]
    pub fn busies(&self) -> u64 {
        self.commands.busies()
    }

    /// Returns whether the session has ended for any reason. Its connection can then be closed.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    fn lose(&mut self, error: SessionError) {
        // The results of a session that logs out are complete, so no failure of its target counts.
        let is_closing = matches!(self.phase, Phase::Logout);
        self.end(if is_closing {
            Event::LoggedOut
        } else {
            Event::Lost(error)
        });
    }

    fn end(&mut self, event: Event) {
        if !matches!(self.phase, Phase::Ended) {
            self.phase = Phase::Ended;
            self.link.close();
            self.link.transmit.clear();
            self.events.push_back(event);
        }
    }

    fn lose_if_due(&mut self, now: Time, exchange: &'static str, after: Duration) {
        if now >= self.deadline {
            self.lose(SessionError::Timeout { exchange, after });
        }
    }

    /// Returns when a ping is due, or when the answer to the one in flight is. Data that arrives
    /// postpones both, because the answer may be queued behind it (as in open-iscsi).
    fn next_ping(&self) -> Time {
        let timers = &self.config.timers;
        match self.ping_sent {
            // RFC 7143 section 4.3: text and logout only.
            _ if self.config.purpose == Purpose::Discovery => Time::MAX,
            Some(sent) => {
                (sent + timers.ping).max(self.last_received + timers.ping_after + timers.ping)
            }
            None => self.last_received + timers.ping_after,
        }
    }

    fn check_ping(&mut self, now: Time) {
        if now < self.next_ping() {
            return;
        }
        if self.ping_sent.is_some() {
            return self.lose(SessionError::Timeout {
                exchange: "a ping",
                after: self.config.timers.ping,
            });
        }
        self.ping_sent = Some(now);
        self.link.push_nop_out(Lun(0), PING, Ttt::RESERVED);
    }

    /// Loses the session if a task is past its deadline. A task submitted later has a later
    /// deadline than the tasks seen here, so it is sufficient to check again at the earliest
    /// deadline seen. The hot path therefore never touches a timer.
    fn check_tasks(&mut self, now: Time) {
        if now < self.deadline {
            return;
        }
        if self.config.purpose == Purpose::Discovery {
            return self.lose_if_due(now, "the discovery", self.config.timers.command);
        }
        let earliest = self.commands.earliest_deadline();
        self.deadline = earliest.unwrap_or(now + self.config.timers.command);
        self.lose_if_due(now, "a command", self.config.timers.command);
    }

    /// Processes received bytes, in pieces of any size, with the time of their arrival.
    pub fn handle_received(&mut self, arrival: impl Into<Arrival>, bytes: &[u8]) {
        if matches!(self.phase, Phase::Idle) {
            return; // The bytes are from the connection before a redirect.
        }
        let arrival = arrival.into();
        self.last_received = arrival.last;
        self.commands.take_passed(&mut self.link);
        if let Err(error) = self.handle_frames(arrival, bytes) {
            self.lose(error);
        }
        self.commands.send_ready(&mut self.link);
    }

    #[inline]
    fn handle_frames(&mut self, arrival: Arrival, mut bytes: &[u8]) -> Result<(), SessionError> {
        let (total, mut begin) = (bytes.len(), 0);
        while !self.is_ended() {
            match self.framer.next(&mut bytes) {
                Ok(None) => break,
                Ok(Some(Frame::Header { bhs, .. })) => {
                    let bhs = *bhs;
                    self.handle_header(arrival.of(begin, total - bytes.len(), total), &bhs)?;
                }
                Ok(Some(Frame::Data { bytes, .. })) => self.handle_data(bytes),
                Ok(Some(Frame::End { data_digest_ok })) => {
                    let end = total - bytes.len();
                    self.handle_end(arrival.of(begin, end, total), data_digest_ok)?;
                    begin = end;
                    if bytes.is_empty() {
                        break;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the number of next bytes that [`Session::handle_received`] only counts: read data
    /// that the caller does not keep, in a data segment of at least `segment_min` bytes.
    #[must_use]
    pub fn unwanted_bytes(&self, segment_min: u32) -> usize {
        match self.receiving {
            Receiving::DataIn { keep: false, .. } => self.framer.data_left(segment_min) as usize,
            _ => 0,
        }
    }

    #[inline]
    fn handle_header(&mut self, now: Time, bhs: &Bhs) -> Result<(), SessionError> {
        let in_login = matches!(self.phase, Phase::Login(_));
        if bhs.opcode_code() == Opcode::DataIn.code() && !in_login {
            let pdu = DataIn::parse(bhs)?;
            let (slot, keep) = self.commands.begin_data_in(now, &pdu, &mut self.link)?;
            let status = pdu.status.map(|fields| Status(fields.status));
            self.receiving = Receiving::DataIn { slot, keep, status };
            Ok(())
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
                return Err(SessionError::Protocol("unexpected PDU in this phase"));
            }
        }
        self.collected.clear();
        self.receiving = Receiving::Other(*bhs);
        Ok(())
    }

    #[inline]
    fn handle_data(&mut self, bytes: &[u8]) {
        match self.receiving {
            Receiving::DataIn { keep: false, .. } | Receiving::Nothing => {}
            Receiving::DataIn { slot, .. } => self.commands.keep_data(slot, bytes),
            // The framer limits the segment to our MaxRecvDataSegmentLength.
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
            } => self.commands.end_data_in(now, slot),
            Receiving::DataIn {
                slot,
                status: Some(status),
                ..
            } => {
                // The status is acknowledged only after all data has arrived, because the target
                // may then change memory that it lent to the kernel.
                self.link.acknowledge();
                self.commands
                    .end_task(now, slot, status, None, Residual::None);
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
                let pdu = ScsiResponse::parse(bhs)?;
                self.commands
                    .handle_scsi_response(now, &pdu, &self.collected, &mut self.link)
            }
            Some(Opcode::R2t) => self
                .commands
                .handle_r2t(now, &R2t::parse(bhs)?, &mut self.link),
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
            // Task management is never requested. Targets do not send the other opcodes.
            _ => Err(SessionError::Protocol("PDU that answers no request")),
        }
    }

    fn handle_nop_in(&mut self, pdu: &NopIn) -> Result<(), SessionError> {
        self.link.take_window(&pdu.numbers);
        if pdu.itt != Itt::RESERVED {
            // The echo of our ping. Only this kind of NOP-In consumes a StatSN (RFC 7143 section
            // 11.19).
            self.link.take_stat_sn(pdu.numbers.stat_sn)?;
            return if pdu.itt == PING && self.ping_sent.take().is_some() {
                Ok(())
            } else {
                Err(SessionError::Protocol("NOP-In that answers no ping"))
            };
        }
        if pdu.ttt != Ttt::RESERVED {
            if self.link.transmit.sent() >= self.pong_end {
                self.pongs = 0;
            }
            self.pongs += 1;
            if self.pongs > PONGS_MAX {
                return Err(SessionError::Protocol(
                    "the target sends NOP-Ins without reading the answers",
                ));
            }
            self.link.push_nop_out(pdu.lun, Itt::RESERVED, pdu.ttt);
            if self.pongs == 1 {
                self.pong_end = self.link.transmit.end();
            }
        }
        Ok(())
    }

    fn handle_text_response(&mut self, now: Time, pdu: &TextResponse) -> Result<(), SessionError> {
        self.link.take_window(&pdu.numbers);
        self.link.take_stat_sn(pdu.numbers.stat_sn)?;
        if pdu.itt != TEXT || self.config.purpose != Purpose::Discovery {
            return Err(SessionError::Protocol(
                "Text Response that answers no request",
            ));
        }
        self.discovery.extend(&self.collected)?;
        if !pdu.is_final {
            // An empty request with the target's tag requests the rest (RFC 7143 section 11.10.4).
            self.link.push_text(pdu.lun, pdu.ttt, &[]);
            return Ok(());
        }
        let targets = self.discovery.targets()?;
        self.events.push_back(Event::Targets(targets));
        self.log_out(now);
        Ok(())
    }

    fn handle_logout_response(&mut self, pdu: &LogoutResponse) -> Result<(), SessionError> {
        if !matches!(self.phase, Phase::Logout) || pdu.itt != LOGOUT {
            return Err(SessionError::Protocol(
                "Logout Response that answers no request",
            ));
        }
        self.end(Event::LoggedOut);
        Ok(())
    }

    /// Handles an Asynchronous Message (RFC 7143 section 11.9).
    fn handle_async_message(&mut self, pdu: &AsyncMessage) -> Result<(), SessionError> {
        self.link.take_window(&pdu.numbers);
        self.link.take_stat_sn(pdu.numbers.stat_sn)?;
        match pdu.event {
            AsyncEvent::LogoutRequested => Err(SessionError::Dropped("requested a logout")),
            AsyncEvent::ConnectionDropped => Err(SessionError::Dropped("dropped the connection")),
            AsyncEvent::SessionDropped => Err(SessionError::Dropped(
                "dropped all connections of the session",
            )),
            // A request for negotiation is ignored; the target may then end the session. Other
            // events are only informative.
            _ => Ok(()),
        }
    }

    fn handle_reject(&mut self, pdu: &Reject) -> Result<(), SessionError> {
        self.link.take_window(&pdu.numbers);
        self.link.take_stat_sn(pdu.numbers.stat_sn)?;
        Err(SessionError::Rejected(pdu.reason))
    }

    fn handle_login_response(&mut self, now: Time, bhs: &Bhs) -> Result<(), SessionError> {
        let pdu = LoginResponse::parse(bhs)?;
        match pdu.status.class() {
            0 => {}
            1 => {
                let address = redirect_address(&self.collected)
                    .ok_or(SessionError::RedirectWithoutAddress)?;
                self.end(Event::Redirected { address });
                return Ok(());
            }
            _ => return Err(SessionError::Refused(pdu.status)),
        }
        let Phase::Login(login) = &mut self.phase else {
            return Err(SessionError::Protocol("Login Response after the login"));
        };
        match login.handle_response(&pdu, &self.collected, self.config.isid, &mut self.link)? {
            Progress::Underway => {}
            Progress::LoggedIn {
                agreed,
                portal_group,
            } => {
                self.portal_group = portal_group;
                self.enter_full_feature(now, agreed);
            }
        }
        Ok(())
    }

    fn enter_full_feature(&mut self, now: Time, agreed: Agreed) {
        self.phase = Phase::Full;
        self.link.open(agreed);
        self.framer
            .set_data_segment_length_max(self.config.keys.max_recv_data_segment_length);
        self.framer
            .set_digests(self.link.header_digest(), self.link.data_digest());
        self.deadline = now + self.config.timers.command;
        self.events.push_back(Event::LoggedIn);
        if self.config.purpose == Purpose::Discovery {
            self.link.push_text(Lun(0), Ttt::RESERVED, SEND_TARGETS);
        }
    }
}
