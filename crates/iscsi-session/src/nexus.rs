//! A session for one logical unit (SAM's I_T_L nexus): logs in, follows redirects, surveys the LU,
//! then executes tasks.
//!
//! ```text
//!   connected → logged in → surveyed → Ready ──submit, poll_done──→ … ──log_out──→ LoggedOut
//! ```
//! The caller decides what the tasks are: a VM's load, a copy job.
use std::collections::VecDeque;

use hakaru_units::Time;
use hakaru_wire::iscsi::Isid;

use crate::error::SessionError;
use crate::session::{Done, Event, Session, SessionConfig, Task};
use crate::survey::{LuFacts, Survey, SurveyError};
use crate::transmit::Transmit;

/// Redirects in a row that are followed, so that a loop of redirects ends.
pub const REDIRECTS_MAX: u32 = 8;

/// An event of a nexus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NexusEvent {
    /// Logged in and surveyed: [`Nexus::submit`] may be called.
    Ready(LuFacts),
    /// Connect again, to this address, then call [`Nexus::handle_connected`].
    Redirected {
        /// `address:port`.
        address: String,
    },
    /// The nexus has failed; tasks that had not ended by then never will.
    Failed(NexusError),
    /// The session ended as asked.
    LoggedOut,
}

/// Reason why a nexus has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NexusError {
    /// Its session ended.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Its LU cannot be used.
    #[error(transparent)]
    Survey(#[from] SurveyError),
}

/// One session and its LU. See the module.
#[derive(Debug)]
pub struct Nexus {
    lun: u8,
    config: SessionConfig,
    session: Session,
    /// Until the LU is known.
    survey: Option<Survey>,
    redirects: u32,
    failed: bool,
    events: VecDeque<NexusEvent>,
}

impl Nexus {
    /// To LU `lun`, over a session that `config` describes; it waits for its connection.
    #[must_use]
    pub fn new(lun: u8, config: SessionConfig) -> Nexus {
        Nexus {
            lun,
            session: Session::new(config.clone()),
            config,
            survey: Some(Survey::new(lun.into())),
            redirects: 0,
            failed: false,
            events: VecDeque::new(),
        }
    }

    /// The connection is established.
    pub fn handle_connected(&mut self, now: Time) {
        self.session.handle_connected(now);
    }

    /// Takes what was received, in pieces of any size.
    pub fn handle_received(&mut self, now: Time, bytes: &[u8]) {
        self.session.handle_received(now, bytes);
        self.advance(now);
    }

    /// The connection ended; `why` completes "connection lost …".
    pub fn handle_closed(&mut self, now: Time, why: &'static str) {
        self.session.handle_closed(why);
        self.advance(now);
    }

    /// Handles timers that have expired; harmless when none has.
    pub fn handle_timeout(&mut self, now: Time) {
        self.session.handle_timeout(now);
        self.advance(now);
    }

    /// Queues a task; wants [`NexusEvent::Ready`] to have come.
    pub fn submit(&mut self, now: Time, task: Task) {
        debug_assert!(self.survey.is_none());
        self.session.submit(now, task);
    }

    /// The next task of the caller's that has ended.
    #[inline]
    pub fn poll_done(&mut self) -> Option<Done> {
        if self.survey.is_some() {
            return None;
        }
        self.session.poll_done()
    }

    /// Returns the next event. Look for tasks that have ended first: they did before.
    pub fn poll_event(&mut self) -> Option<NexusEvent> {
        self.events.pop_front()
    }

    /// Ends the session; [`NexusEvent::LoggedOut`] comes.
    pub fn log_out(&mut self, now: Time) {
        self.session.log_out(now);
        self.advance(now);
    }

    /// Returns the send queue.
    pub fn transmit(&mut self) -> &mut Transmit {
        self.session.transmit()
    }

    /// Takes a buffer of [`Done`] back, to be read into again.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.session.recycle(buffer);
    }

    /// Returns the session: its keys, deadlines and state. [`Nexus::handle_timeout`] is due at its
    /// [`Session::poll_timeout`].
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// How it logs in.
    #[must_use]
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Session ID. `index` makes it unique within the engine, up to 65 536 sessions; `seed` makes a
    /// collision with an earlier run unlikely. The initiator's name distinguishes engines.
    #[must_use]
    pub fn isid(seed: u64, index: usize) -> Isid {
        Isid::random((seed as u32) ^ ((index >> 16) as u32) << 16, index as u16)
    }

    fn advance(&mut self, now: Time) {
        while let Some(survey) = &mut self.survey {
            let Some(done) = self.session.poll_done() else {
                break;
            };
            match survey.handle_done(&done) {
                Ok(None) => {
                    let task = survey.task();
                    self.session.recycle(done.data);
                    self.session.submit(now, task);
                }
                Ok(Some(facts)) => {
                    self.survey = None;
                    self.events.push_back(NexusEvent::Ready(facts));
                }
                Err(error) => return self.fail(error.into()),
            }
        }
        while let Some(event) = self.session.poll_event() {
            self.handle_session_event(now, event);
        }
    }

    fn handle_session_event(&mut self, now: Time, event: Event) {
        match event {
            Event::LoggedIn => {
                if let Some(survey) = &self.survey {
                    self.session.submit(now, survey.task());
                }
            }
            Event::Redirected { address } => self.follow_redirect(address),
            Event::LoggedOut => self.events.push_back(NexusEvent::LoggedOut),
            Event::Lost(error) => self.fail(error.into()),
            Event::Targets(_) => {}
        }
    }

    fn follow_redirect(&mut self, address: String) {
        self.redirects += 1;
        if self.redirects > REDIRECTS_MAX {
            return self.fail(SessionError::Redirects(self.redirects).into());
        }
        self.session = Session::new(self.config.clone());
        self.survey = Some(Survey::new(self.lun.into()));
        self.events.push_back(NexusEvent::Redirected { address });
    }

    fn fail(&mut self, error: NexusError) {
        if !self.failed {
            self.failed = true;
            self.events.push_back(NexusEvent::Failed(error));
        }
    }
}
