//! A session for chosen logical units of one target (SAM's I_T nexus). It logs in, follows
//! redirects, surveys the LUs and then executes tasks.
//!
//! ```text
//!   connected → logged in → surveyed → Ready ──submit, poll_done──→ … ──log_out──→ LoggedOut
//! ```
//! The caller supplies the tasks, such as those of a VM's load or of a copy job.
use std::collections::VecDeque;

use hakaru_units::Time;
use hakaru_wire::iscsi::Isid;

use crate::arrival::Arrival;
use crate::error::SessionError;
use crate::session::{Done, Event, Session, SessionConfig, Task};
use crate::survey::{LuFacts, LuKind, Survey, SurveyError};
use crate::transmit::Transmit;

/// Maximum number of consecutive redirects that are followed. A longer loop fails the nexus.
pub const REDIRECTS_MAX: u32 = 8;

/// An event of a nexus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NexusEvent {
    /// The nexus has logged in and surveyed its LUs. [`Nexus::submit`] may be called. The facts are
    /// in the order of the LUNs.
    Ready(Vec<LuFacts>),
    /// The caller must connect to this address and then call [`Nexus::handle_connected`].
    Redirected {
        /// `address:port`.
        address: String,
    },
    /// The nexus failed. Its unfinished tasks will not complete.
    Failed(NexusError),
    /// The session ended as requested by [`Nexus::log_out`].
    LoggedOut,
}

/// Reason why a nexus has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NexusError {
    /// The session ended.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An LU cannot be used.
    #[error(transparent)]
    Survey(#[from] SurveyError),
}

/// One session and its LUs. See the module's documentation.
#[derive(Debug)]
pub struct Nexus {
    units: Box<[(u8, LuKind)]>,
    config: SessionConfig,
    session: Session,
    /// The survey of the LU that follows those in `facts`, until every LU was surveyed.
    survey: Option<Survey>,
    /// Facts of the LUs surveyed so far, until all are known.
    facts: Vec<LuFacts>,
    redirects: u32,
    failed: bool,
    events: VecDeque<NexusEvent>,
}

impl Nexus {
    /// Creates a nexus to the disks `luns` over a session that `config` describes. It waits for its
    /// connection.
    ///
    /// # Panics
    /// Panics if `luns` is empty.
    #[must_use]
    pub fn new(luns: &[u8], config: SessionConfig) -> Nexus {
        let disks = luns.iter().map(|lun| (*lun, LuKind::Disk));
        Nexus::of_units(disks.collect(), config)
    }

    /// Creates a nexus to the LUs `units`, each of the given kind.
    ///
    /// # Panics
    /// Panics if `units` is empty.
    #[must_use]
    pub fn of_units(units: Box<[(u8, LuKind)]>, config: SessionConfig) -> Nexus {
        let (lun, kind) = units[0];
        Nexus {
            survey: Some(Survey::of_kind(lun.into(), kind)),
            facts: Vec::new(),
            units,
            session: Session::new(config.clone()),
            config,
            redirects: 0,
            failed: false,
            events: VecDeque::new(),
        }
    }

    /// Starts the login on an established connection.
    pub fn handle_connected(&mut self, now: Time) {
        self.session.handle_connected(now);
    }

    /// Processes received bytes, in pieces of any size, with the time of their arrival.
    pub fn handle_received(&mut self, arrival: impl Into<Arrival>, bytes: &[u8]) {
        let arrival = arrival.into();
        self.session.handle_received(arrival, bytes);
        self.advance(arrival.last);
    }

    /// Handles the end of the connection. `cause` completes the message "connection lost …".
    pub fn handle_closed(&mut self, now: Time, cause: &'static str) {
        self.session.handle_closed(cause);
        self.advance(now);
    }

    /// Handles expired timers. An early call has no effect.
    pub fn handle_timeout(&mut self, now: Time) {
        self.session.handle_timeout(now);
        self.advance(now);
    }

    /// Queues a task. Requires that [`NexusEvent::Ready`] was returned.
    pub fn submit(&mut self, now: Time, task: Task) {
        debug_assert!(self.survey.is_none());
        self.session.submit(now, task);
    }

    /// Returns the next completed task of the caller.
    #[inline]
    pub fn poll_done(&mut self) -> Option<Done> {
        if self.survey.is_some() {
            return None;
        }
        self.session.poll_done()
    }

    /// Returns the next event. The caller polls completed tasks first, because they ended before
    /// the event.
    pub fn poll_event(&mut self) -> Option<NexusEvent> {
        self.events.pop_front()
    }

    /// Logs out. [`NexusEvent::LoggedOut`] follows.
    pub fn log_out(&mut self, now: Time) {
        self.session.log_out(now);
        self.advance(now);
    }

    /// Returns the send queue.
    pub fn transmit(&mut self) -> &mut Transmit {
        self.session.transmit()
    }

    /// Accepts the buffer of a [`Done`] for reuse by later reads.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.session.recycle(buffer);
    }

    /// Returns the session: its keys, deadlines and state. [`Nexus::handle_timeout`] is due at its
    /// [`Session::poll_timeout`].
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the configuration of the session.
    #[must_use]
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Returns a session ID. `index` makes it unique within the engine, up to 65 536 sessions.
    /// `seed` makes a collision with an earlier run unlikely. The initiator's name distinguishes
    /// engines.
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
                    self.session.recycle(done.data);
                    self.facts.push(facts);
                    self.survey = self.next_survey();
                    match &self.survey {
                        Some(survey) => self.session.submit(now, survey.task()),
                        None => {
                            let facts = std::mem::take(&mut self.facts);
                            self.events.push_back(NexusEvent::Ready(facts));
                        }
                    }
                }
                Err(error) => return self.fail(error.into()),
            }
        }
        while let Some(event) = self.session.poll_event() {
            self.handle_session_event(now, event);
        }
    }

    /// Returns the survey of the first LU that was not surveyed.
    fn next_survey(&self) -> Option<Survey> {
        let (lun, kind) = *self.units.get(self.facts.len())?;
        Some(Survey::of_kind(lun.into(), kind))
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
        self.facts.clear();
        self.survey = self.next_survey();
        self.events.push_back(NexusEvent::Redirected { address });
    }

    fn fail(&mut self, error: NexusError) {
        if !self.failed {
            self.failed = true;
            self.events.push_back(NexusEvent::Failed(error));
        }
    }
}
