//! One iSCSI session of one connection at error recovery level 0 (RFC 7143), seen from the initiator.
//!
//! ```text
//!              handle_connected          last Login Response         log_out            Logout Response
//!   Idle ─────────────────────→ Login ─────────────────────→ Full ───────────→ Logout ─────────────────→ Ended
//!                                 └───────────── anything that breaks the session: Lost(SessionError) ─────→ ┘
//! ```
//!
//! `submit` queues tasks; they leave in order as the target's command window lets them. UNIT ATTENTION is retried at once, BUSY and TASK
//! SET FULL after a growing pause. Whatever ends the session is told once as [`Event::Lost`]; tasks that were not done by then never will be.
//!
//! Not here: reconnecting and following redirects (the caller's), more than one connection, error recovery levels 1 and 2.
mod authentication;
mod command;
mod login;
mod phases;
mod response;
mod status;
mod task;

use std::collections::VecDeque;
use std::time::Duration;

use hakaru_units::Time;
use hakaru_wire::iscsi::frame::Framer;
use hakaru_wire::iscsi::keys::{Agreed, Digest};
use hakaru_wire::iscsi::{
    BHS_LENGTH, CmdSn, Isid, Itt, LogoutReason, LogoutRequest, Lun, NopOut, StatSn, TextRequest,
    Ttt, digest,
};

pub use self::authentication::Chap;
use self::login::Login;
pub(crate) use self::phases::Mark;
pub use self::phases::Phases;
use self::response::Receiving;
pub use self::task::{Done, Task, TaskData};
use self::task::{Ended, LOGOUT, PING, TEXT, Tasks};
use crate::error::SessionError;
use crate::transmit::Transmit;
use hakaru_contract::LoginKeys;

/// Nothing was heard for this long: ask whether the target is there (open-iscsi's `noop_out_interval`).
const PING_AFTER: Duration = Duration::from_secs(5);
/// Longest list of targets that is collected, bytes. A target has no business sending more.
const TEXT_MAX: usize = 1 << 20;

/// What a session is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To ask which targets there are (SendTargets); ends itself with a logout.
    Discovery,
    /// To use this target.
    Normal {
        /// Its iSCSI name.
        target_name: String,
    },
}

/// How to log in.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// iSCSI name of the initiator.
    pub initiator_name: String,
    /// Session ID; with the name it must be unique at the target, or an older session of the same is replaced.
    pub isid: Isid,
    /// What for.
    pub purpose: Purpose,
    /// Keys to offer.
    pub keys: LoginKeys,
    /// How it proves who it is; a target that does not ask is then not logged in to.
    pub chap: Option<Chap>,
    /// Limit for a login, a command, a ping and a logout.
    pub timeout: Duration,
}

/// What happened to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Full feature phase: tasks are carried out.
    LoggedIn,
    /// The target is to be found elsewhere: `address:port` (or with a host name). The session has ended; make another.
    Redirected {
        /// Where.
        address: String,
    },
    /// Answer of a discovery session.
    Targets(Vec<DiscoveredTarget>),
    /// The session ended as we asked.
    LoggedOut,
    /// The session ended otherwise.
    Lost(SessionError),
}

/// A target that a discovery session told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// Its iSCSI name.
    pub name: String,
    /// Its portals as `address:port,group`, as the target wrote them.
    pub addresses: Vec<String>,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Login(Box<Login>),
    Full,
    Logout,
    Ended,
}

/// One session. See the module.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    phase: Phase,
    agreed: Agreed,
    framer: Framer,
    receiving: Receiving,
    /// Data segment of the PDU that is being received, where it is wanted whole.
    collected: Vec<u8>,
    /// Text of a discovery that goes on over several responses.
    text: Vec<u8>,
    transmit: Transmit,
    tasks: Tasks,
    /// Tasks to send, in order, when the window allows.
    ready: VecDeque<u16>,
    /// Tasks that a BUSY holds back until the instant.
    delayed: Vec<(Time, u16)>,
    cmd_sn: CmdSn,
    max_cmd_sn: CmdSn,
    exp_stat_sn: StatSn,
    /// Tasks that have ended, in order, until they are asked for.
    done: VecDeque<Ended>,
    events: VecDeque<Event>,
    /// Buffers for kept data, used again.
    spare: Vec<Vec<u8>>,
    heard: Time,
    /// When the ping that waits for its echo was sent.
    pinged: Option<Time>,
    /// By then login or logout must be over; in full feature phase, when deadlines of tasks are looked at next.
    deadline: Time,
    busies: u64,
    /// Answers to NOP-Ins since nothing waited to be sent.
    pongs: u32,
    text_responses: u32,
}

impl Session {
    /// A session that waits for its connection.
    #[must_use]
    pub fn new(config: SessionConfig) -> Session {
        Session {
            config,
            phase: Phase::Idle,
            agreed: Agreed::default(),
            framer: Framer::new(login::LOGIN_SEGMENT_MAX),
            receiving: Receiving::Nothing,
            collected: Vec::new(),
            text: Vec::new(),
            transmit: Transmit::default(),
            tasks: Tasks::default(),
            ready: VecDeque::new(),
            delayed: Vec::new(),
            cmd_sn: CmdSn(1),
            max_cmd_sn: CmdSn(1),
            exp_stat_sn: StatSn(0),
            done: VecDeque::new(),
            events: VecDeque::new(),
            spare: Vec::new(),
            heard: Time::ZERO,
            pinged: None,
            deadline: Time::MAX,
            busies: 0,
            pongs: 0,
            text_responses: 0,
        }
    }

    /// The connection stands: the login begins.
    pub fn handle_connected(&mut self, now: Time) {
        debug_assert!(matches!(self.phase, Phase::Idle));
        self.heard = now;
        self.deadline = now + self.config.timeout;
        let login = Login::new(&self.config);
        let transit = login.may_transit();
        self.phase = Phase::Login(Box::new(login));
        self.send_login(transit);
    }

    /// The connection ended, `why` completes "connection lost …". After a logout that is no loss.
    pub fn handle_closed(&mut self, why: &'static str) {
        match self.phase {
            Phase::Idle | Phase::Ended => {}
            Phase::Logout => self.end(Event::LoggedOut),
            _ => self.lose(SessionError::Closed(why)),
        }
    }

    /// Something may be due; harmless when nothing is.
    pub fn handle_timeout(&mut self, now: Time) {
        match self.phase {
            Phase::Idle | Phase::Ended => {}
            Phase::Login(_) => self.lose_if_due(now, "the login"),
            Phase::Logout => self.lose_if_due(now, "the logout"),
            Phase::Full => {
                self.release_delayed(now);
                self.check_ping(now);
                self.check_tasks(now);
            }
        }
    }

    /// When [`Session::handle_timeout`] is wanted next. May move later by itself: an early call does no harm.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.phase {
            Phase::Idle | Phase::Ended => None,
            Phase::Login(_) | Phase::Logout => Some(self.deadline),
            Phase::Full => {
                let ping = match self.pinged {
                    Some(sent) => sent + self.config.timeout,
                    None => self.heard + PING_AFTER,
                };
                let released = self
                    .delayed
                    .iter()
                    .map(|&(at, _)| at)
                    .min()
                    .unwrap_or(Time::MAX);
                Some(ping.min(self.deadline).min(released))
            }
        }
    }

    /// Takes a task on; it is sent as soon as the target's command window allows.
    pub fn submit(&mut self, now: Time, task: Task) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        let deadline = now + self.config.timeout;
        let slot = self.tasks.insert(now, task, deadline);
        if self.ready.is_empty() && self.window_is_open() {
            self.send_command(slot);
        } else {
            self.ready.push_back(slot);
        }
    }

    /// A Text Request: SendTargets (RFC 7143 appendix C), or the empty one that asks for the rest of the answer.
    fn send_text(&mut self, lun: Lun, ttt: Ttt, text: &[u8]) {
        let header = TextRequest {
            immediate: false,
            is_final: true,
            more: false,
            lun,
            itt: TEXT,
            ttt,
            cmd_sn: self.take_cmd_sn(),
            exp_stat_sn: self.exp_stat_sn,
            data_segment_length: text.len() as u32,
        };
        self.send_control(|out| header.emit(out), text);
    }

    /// Ends the session: what is in flight is not waited for (the caller should have).
    pub fn log_out(&mut self, now: Time) {
        match self.phase {
            Phase::Full => {}
            Phase::Logout | Phase::Ended => return,
            Phase::Idle | Phase::Login(_) => return self.end(Event::LoggedOut),
        }
        self.phase = Phase::Logout;
        self.deadline = now + self.config.timeout;
        let header = LogoutRequest {
            immediate: true,
            reason: LogoutReason::CloseSession,
            itt: LOGOUT,
            cid: 0,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.send_control(|out| header.emit(out), &[]);
    }

    /// The next task that has ended.
    #[inline]
    pub fn poll_done(&mut self) -> Option<Done> {
        let Ended { slot, result } = self.done.pop_front()?;
        Some(self.tasks.take(slot, result))
    }

    /// The next thing that happened to the session.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What is to be sent.
    pub fn transmit(&mut self) -> &mut Transmit {
        &mut self.transmit
    }

    /// Takes a buffer of [`Done`] back.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() > 0 && self.spare.len() < 32 {
            self.spare.push(buffer);
        }
    }

    /// Returns the keys agreed on; the RFC's defaults before [`Event::LoggedIn`].
    #[must_use]
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    fn header_digest(&self) -> bool {
        self.agreed.header_digest == Digest::Crc32c
    }

    fn data_digest(&self) -> bool {
        self.agreed.data_digest == Digest::Crc32c
    }

    /// Its session ID, initiator's part.
    #[must_use]
    pub fn isid(&self) -> Isid {
        self.config.isid
    }

    /// Tasks that were submitted and have not ended.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len() - self.done.len()
    }

    /// Answers BUSY and TASK SET FULL so far; each task was or will be tried again.
    #[must_use]
    pub fn busies(&self) -> u64 {
        self.busies
    }

    /// The session has ended, one way or the other: the connection is of no use any more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    fn lose(&mut self, error: SessionError) {
        self.end(Event::Lost(error));
    }

    fn end(&mut self, event: Event) {
        if !matches!(self.phase, Phase::Ended) {
            self.phase = Phase::Ended;
            self.transmit.clear();
            self.events.push_back(event);
        }
    }

    fn lose_if_due(&mut self, now: Time, what: &'static str) {
        if now >= self.deadline {
            self.lose(SessionError::Timeout {
                what,
                after: self.config.timeout,
            });
        }
    }

    /// Tasks whose pause after BUSY is over go back to the queue.
    fn release_delayed(&mut self, now: Time) {
        let ready = &mut self.ready;
        self.delayed.retain(|&(at, slot)| {
            if at <= now {
                ready.push_back(slot);
            }
            at > now
        });
        self.send_ready();
    }

    fn check_ping(&mut self, now: Time) {
        if self.config.purpose == Purpose::Discovery {
            return; // RFC 7143 section 4.3: text and logout only.
        }
        match self.pinged {
            Some(sent) if now >= sent + self.config.timeout => {
                self.lose(SessionError::Timeout {
                    what: "a ping",
                    after: self.config.timeout,
                });
            }
            None if now >= self.heard + PING_AFTER => {
                self.pinged = Some(now);
                self.send_nop_out(Lun(0), PING, Ttt::RESERVED);
            }
            _ => {}
        }
    }

    /// Looks for tasks past their deadline. Every task submitted later has a later deadline than those seen here, so
    /// looking again at the earliest of them misses none, and the hot path never touches a timer.
    fn check_tasks(&mut self, now: Time) {
        if now < self.deadline {
            return;
        }
        if self.config.purpose == Purpose::Discovery {
            return self.lose_if_due(now, "the discovery");
        }
        let earliest = self.tasks.iter().map(|live| live.deadline).min();
        self.deadline = earliest.unwrap_or(now + self.config.timeout);
        self.lose_if_due(now, "a command");
    }

    /// A ping, or the answer to one, for immediate delivery.
    fn send_nop_out(&mut self, lun: Lun, itt: Itt, ttt: Ttt) {
        let header = NopOut {
            immediate: true,
            lun,
            itt,
            ttt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            data_segment_length: 0,
        };
        self.send_control(|out| header.emit(out), &[]);
    }

    /// Queues a PDU whose data, if any, is small and copied.
    fn send_control(&mut self, emit: impl FnOnce(&mut [u8; BHS_LENGTH]), data: &[u8]) {
        self.push_header(emit);
        if !data.is_empty() {
            self.transmit.push(data);
            let mut trailer = Vec::new();
            digest::emit_data_trailer(data, self.data_digest(), &mut trailer);
            self.transmit.push(&trailer);
        }
    }

    /// Queues a header, with its digest where one was agreed.
    #[inline]
    fn push_header(&mut self, emit: impl FnOnce(&mut [u8; BHS_LENGTH])) {
        let mut header = [0; BHS_LENGTH];
        emit(&mut header);
        self.transmit.push(&header);
        if self.header_digest() {
            self.transmit.push(&digest::header_digest(&header));
        }
    }

    /// The next command number, for a command that is not immediate.
    #[inline]
    fn take_cmd_sn(&mut self) -> CmdSn {
        let sn = self.cmd_sn;
        self.cmd_sn = sn.plus(1);
        sn
    }
}
