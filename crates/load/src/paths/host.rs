//! A host with several paths to the LU of its VM: one session per path, directed by a [`PathSet`].
//!
//! ```text
//! all connected → logged in → surveyed → Ready ─begin─→ load ─end─→ drained ─log_out─→ LoggedOut
//! ```
//! Its calls are those of [`crate::IscsiHost`], with two more: [`MultipathHost::poll_connect`]
//! returns which legs must connect again, and [`MultipathHost::handle_unreachable`] reports an
//! attempt that failed. Until [`HostEvent::Ready`] every path must work. Afterwards the VM fails only
//! if no path is usable for too long.
use std::sync::Arc;

use hakaru_contract::initiator::{Destination, Multipath, Vm};
use hakaru_iscsi_session::{
    Arrival, Done, Event, LuFacts, Session, SessionError, SurveyError, Transmit,
};
use hakaru_stats::Latencies;
use hakaru_units::Time;

use super::figures::PathCounters;
use super::flights::{AttemptId, WriteRange};
use super::leg::{Leg, Stage, legs_of};
use super::path::PathChange;
use super::set::{PathAction, PathSet};
use super::setup::{Progress, Setup};
use super::survey::{PathFacts, SURVEY_TAG, groups_of, refusing_state};
use crate::commands::Command;
use crate::counters::Counters;
use crate::event::{HostEvent, VmError};
use crate::guest::Guest;
use crate::pattern::Op;
use crate::settings::Settings;

/// A host with several paths. See the module's documentation.
#[derive(Debug)]
pub struct MultipathHost {
    settings: Arc<Settings>,
    legs: Box<[Leg]>,
    paths: PathSet<Command>,
    guest: Guest,
    setup: Setup,
    is_ready: bool,
    is_closing: bool,
    /// Deadline of the paths that the timer of the first leg includes.
    armed: Option<Time>,
    /// Deadline of the load that it includes.
    armed_load: Option<Time>,
    events: Vec<HostEvent>,
}

impl MultipathHost {
    /// Creates a host of the VM with this position in the engine, which makes the session IDs
    /// unique.
    ///
    /// # Panics
    /// Panics if the destination of the VM is not iSCSI.
    #[must_use]
    pub fn new(
        index: usize,
        vm: Arc<Vm>,
        config: &Multipath,
        settings: Arc<Settings>,
    ) -> MultipathHost {
        let Destination::Iscsi { lun, .. } = vm.destination else {
            panic!("{} has no iSCSI destination", vm.name);
        };
        let legs = legs_of(index, &vm, config, &settings);
        let limits = &settings.commands;
        let outstanding_max = limits
            .session_outstanding_max
            .min(limits.lu_outstanding_max);
        MultipathHost {
            paths: PathSet::new(legs.len(), config, outstanding_max),
            legs,
            guest: Guest::new(vm, index),
            settings,
            setup: Setup::new(lun),
            is_ready: false,
            is_closing: false,
            armed: None,
            armed_load: None,
            events: Vec::new(),
        }
    }

    /// Starts the login of a leg whose connection is established.
    pub fn handle_connected(&mut self, now: Time, leg: usize) {
        let session = &mut self.legs[leg].session;
        // After a logout, a connection may still be established.
        if !session.is_ended() {
            session.handle_connected(now);
        }
    }

    /// Handles a connection attempt that failed. Returns whether that is an error, because the load
    /// has not begun.
    pub fn handle_unreachable(&mut self, now: Time, leg: usize, latencies: &mut Latencies) -> bool {
        if !self.is_ready {
            return true;
        }
        let error = SessionError::Closed("(the portal cannot be reached)");
        self.lose(now, leg, error);
        self.direct(now, latencies);
        false
    }

    /// Processes data that a leg received, with the time of its arrival. Afterwards other legs may
    /// have data to send.
    pub fn handle_received(
        &mut self,
        arrival: impl Into<Arrival>,
        leg: usize,
        bytes: &[u8],
        latencies: &mut Latencies,
    ) {
        let arrival = arrival.into();
        self.legs[leg].session.handle_received(arrival, bytes);
        self.advance(arrival.last, leg, latencies);
    }

    /// Handles the end of a leg's connection. `cause` completes the message "connection lost …".
    pub fn handle_closed(
        &mut self,
        now: Time,
        leg: usize,
        cause: &'static str,
        latencies: &mut Latencies,
    ) {
        self.legs[leg].session.handle_closed(cause);
        self.advance(now, leg, latencies);
    }

    /// Handles the deadlines of a leg that have passed. A call before any deadline has no effect.
    pub fn handle_timeout(&mut self, now: Time, leg: usize, latencies: &mut Latencies) {
        self.legs[leg].session.handle_timeout(now);
        self.advance(now, leg, latencies);
    }

    /// Returns when [`MultipathHost::handle_timeout`] must be called next, whether or not the leg
    /// is connected. The deadlines of the load and of the paths belong to the first leg.
    #[must_use]
    pub fn poll_timeout(&self, leg: usize) -> Option<Time> {
        let host = match leg {
            0 if self.is_active() => [self.guest.poll_timeout(), self.paths.poll_timeout()],
            _ => [None, None],
        };
        let session = self.legs[leg].session.poll_timeout();
        host.into_iter().chain([session]).flatten().min()
    }

    /// Returns a leg that must be served, because it has data to send, must connect or has an
    /// earlier deadline.
    pub fn poll_transmit(&mut self) -> Option<usize> {
        let leg = self.legs.iter().position(|leg| leg.is_pending)?;
        self.legs[leg].is_pending = false;
        Some(leg)
    }

    /// Returns the number of the portal to which the leg must connect now, in the order of the
    /// destination's portals. The caller resets the old connection of the leg before.
    pub fn poll_connect(&mut self, leg: usize) -> Option<usize> {
        self.legs[leg].take_connect(leg)
    }

    /// Starts the load. Requires that [`HostEvent::Ready`] was returned.
    pub fn begin(&mut self, now: Time) {
        if let Some(work) = self.guest.work() {
            work.load.begin(now);
        }
        self.issue(now);
    }

    /// Begins the measuring phase.
    pub fn measure(&mut self, now: Time) {
        if let Some(work) = self.guest.work() {
            work.load.measure(now);
        }
    }

    /// Ends the load. Requests in flight still complete.
    pub fn end(&mut self, now: Time, latencies: &mut Latencies) {
        if let Some(work) = self.guest.work() {
            work.load.end(now, latencies);
        }
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.guest.in_flight()
    }

    /// Logs out of all sessions. [`HostEvent::LoggedOut`] follows.
    pub fn log_out(&mut self, now: Time, latencies: &mut Latencies) {
        self.is_closing = true;
        for leg in 0..self.legs.len() {
            if self.legs[leg].close(now) {
                self.advance(now, leg, latencies);
            } else {
                self.note_logged_out(leg);
            }
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        if self.events.is_empty() {
            None
        } else {
            Some(self.events.remove(0))
        }
    }

    /// Returns the next change of a path, and the reason if it was lost.
    pub fn poll_change(&mut self) -> Option<(PathChange, Option<&SessionError>)> {
        let change = self.paths.poll_change()?;
        Some((change, self.legs[change.path].error.as_ref()))
    }

    /// Returns the send queue of a leg.
    pub fn transmit(&mut self, leg: usize) -> &mut Transmit {
        self.legs[leg].is_pending = false;
        self.legs[leg].session.transmit()
    }

    /// Returns the session of a leg.
    #[must_use]
    pub fn session(&self, leg: usize) -> &Session {
        &self.legs[leg].session
    }

    /// Returns the counters of the VM, complete until `now`.
    pub fn counters(&mut self, now: Time) -> Counters {
        self.guest.counters(now)
    }

    /// Returns the counters of the paths, complete until `now`, and begins a new interval of the
    /// recent gap.
    pub fn take_path_counters(&mut self, now: Time) -> PathCounters {
        self.paths.take_counters(now)
    }

    /// Returns the configuration of the VM.
    #[must_use]
    pub fn config(&self) -> &Vm {
        self.guest.config()
    }

    /// Admits every request that is due, and submits commands while paths have room. The caller
    /// calls this after it has handled events and before it sends.
    pub fn issue(&mut self, now: Time) {
        if self.is_closing {
            return;
        }
        self.submit_due(now);
        // A completion on another leg may have freed a request.
        let deadline = self.guest.poll_timeout();
        if deadline.is_some_and(|at| self.armed_load.is_none_or(|armed| at < armed)) {
            self.legs[0].is_pending = true;
        }
        self.armed_load = deadline;
    }

    fn submit_due(&mut self, now: Time) {
        let Some(work) = self.guest.work() else {
            return;
        };
        work.admit_due(now);
        loop {
            while let Some((path, id)) = self.paths.poll_start(now) {
                let command = self.paths.command(path, id).expect("it was started");
                let mut task = work.task_of(command.clone());
                task.tag = id.0;
                self.legs[path].submit(now, task);
            }
            if !self.paths.has_room(now) {
                return;
            }
            let Some(command) = work.poll_command(now) else {
                return;
            };
            let access = command.access;
            let range = (access.op == Op::Write).then(|| WriteRange {
                begin: access.offset_bytes,
                end: access.end_bytes(),
            });
            self.paths.submit(now, command, range);
        }
    }

    /// Processes what a leg has received, and the events that follow.
    fn advance(&mut self, now: Time, leg: usize, latencies: &mut Latencies) {
        while let Some(done) = self.legs[leg].session.poll_done() {
            self.handle_done(now, leg, done, latencies);
        }
        if self.legs[leg].session.take_access_change() {
            self.paths.request_check(now);
        }
        while let Some(event) = self.legs[leg].session.poll_event() {
            match event {
                Event::LoggedIn => self.handle_login(now, leg),
                // The portals are configured one by one, so a redirect is an error of that list.
                Event::Redirected { .. } => self.lose(now, leg, SessionError::Redirects(1)),
                Event::Lost(error) => self.lose(now, leg, error),
                Event::LoggedOut => self.handle_logged_out(now, leg),
                Event::Targets(_) => {}
            }
        }
        self.direct(now, latencies);
    }

    /// Lets the paths decide what follows an event.
    fn direct(&mut self, now: Time, latencies: &mut Latencies) {
        if !self.is_active() {
            return;
        }
        self.paths.handle_timeout(now);
        self.carry_out(now, latencies);
        let deadline = self.paths.poll_timeout();
        if deadline != self.armed {
            self.armed = deadline;
            self.legs[0].is_pending = true;
        }
    }

    /// Returns whether lost paths are restored: from the first survey to the logout.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.is_ready && !self.is_closing
    }

    fn handle_login(&mut self, now: Time, leg: usize) {
        if self.legs[leg].handle_login(now, self.setup.lun()) {
            let group = self.legs[leg].session.portal_group();
            self.paths.handle_login(leg, group);
        }
    }

    fn handle_logged_out(&mut self, now: Time, leg: usize) {
        if self.is_closing {
            return self.note_logged_out(leg);
        }
        // Only sessions that end a lost session log out before.
        self.legs[leg].stage = Stage::Down;
        self.paths.handle_fenced(now, leg);
    }

    fn note_logged_out(&mut self, leg: usize) {
        if self.legs[leg].note_logged_out() && self.legs.iter().all(Leg::is_logged_out) {
            self.events.push(HostEvent::LoggedOut);
        }
    }

    /// Handles the end of a leg's session.
    fn lose(&mut self, now: Time, leg: usize, error: SessionError) {
        if self.is_closing {
            return self.note_logged_out(leg);
        }
        if !self.is_ready {
            return self.fail_setup(error.into());
        }
        self.legs[leg].handle_lost(error);
        self.paths.handle_lost(now, leg);
    }

    /// Fails the VM before its load has begun.
    fn fail_setup(&mut self, error: VmError) {
        self.events.push(HostEvent::Failed { vm: 0, error });
    }

    fn handle_done(&mut self, now: Time, leg: usize, mut done: Done, latencies: &mut Latencies) {
        if done.tag == SURVEY_TAG {
            return self.handle_survey(now, leg, &done);
        }
        let id = AttemptId(done.tag);
        if let Err(error) = &done.result
            && let Some(state) = refusing_state(error)
        {
            return self.paths.handle_refused(now, leg, id, state);
        }
        let Some(command) = self.paths.handle_done(done.ended, leg, id) else {
            return;
        };
        done.tag = command.tag;
        if let Some(work) = self.guest.work() {
            let outcome = work.handle_done(&done, latencies);
            if let Some(corruption) = outcome.corruption {
                self.events.push(HostEvent::Corrupt { vm: 0, corruption });
            }
            if let Some((op, error)) = outcome.failure {
                self.events
                    .push(HostEvent::RequestFailed { vm: 0, op, error });
            }
        }
        self.legs[leg].session.recycle(done.data);
    }

    /// Processes an answer to a survey of a path, a check or the survey of the LU.
    fn handle_survey(&mut self, now: Time, leg: usize, done: &Done) {
        let entry = &mut self.legs[leg];
        if let Stage::Survey(survey) = &mut entry.stage {
            return match survey.handle_done(done) {
                Ok(None) => {
                    let task = survey.task();
                    entry.submit(now, task);
                }
                Ok(Some(facts)) => self.become_usable(now, leg, facts),
                Err((command, error)) => {
                    self.abandon(leg, SurveyError::Command { command, error }.into());
                }
            };
        }
        if entry.end_check() {
            if done.result.is_ok() {
                self.paths.handle_states(now, &groups_of(&done.data));
            }
            return;
        }
        self.continue_survey(now, leg, done);
    }

    /// Handles a path that was surveyed.
    fn become_usable(&mut self, now: Time, leg: usize, facts: PathFacts) {
        let portal = self.guest.config().destination.portals().nth(leg);
        if let Err(error) = self.setup.check_identity(&facts, portal.unwrap_or("")) {
            return self.abandon(leg, error.into());
        }
        self.legs[leg].stage = Stage::Ready;
        self.paths.handle_up(now, leg, facts.group.as_ref());
        self.begin_survey(now);
    }

    /// Ends a session whose path cannot be used.
    fn abandon(&mut self, leg: usize, error: VmError) {
        if !self.is_ready {
            return self.fail_setup(error);
        }
        // The session reports its end, which is handled like a loss.
        let session = &mut self.legs[leg].session;
        session.handle_closed("(the survey of the path failed)");
    }

    /// Surveys the LU over a usable path, once all paths are surveyed and unless that was done.
    fn begin_survey(&mut self, now: Time) {
        let are_ready = self.legs.iter().all(Leg::is_ready);
        if self.is_ready || self.setup.is_underway() || !are_ready {
            return;
        }
        let usable = (0..self.legs.len()).find(|&path| self.paths.is_usable(now, path));
        match self.setup.begin(usable) {
            Ok((leg, task)) => self.legs[leg].submit(now, task),
            Err(error) => self.fail_setup(error.into()),
        }
    }

    fn continue_survey(&mut self, now: Time, leg: usize, done: &Done) {
        match self.setup.handle_done(leg, done) {
            Some(Ok(Progress::Next(task))) => self.legs[leg].submit(now, task),
            Some(Ok(Progress::Facts(facts))) => self.become_ready(facts),
            Some(Err(error)) => self.fail_setup(error.into()),
            None => {}
        }
    }

    fn become_ready(&mut self, facts: LuFacts) {
        match self.guest.become_ready(&facts, &self.settings) {
            Ok(()) => {
                self.is_ready = true;
                self.legs[0].is_pending = true;
                self.events.push(HostEvent::Ready(facts));
            }
            Err(error) => self.fail_setup(error.into()),
        }
    }

    /// Carries out the actions that the paths require.
    fn carry_out(&mut self, now: Time, latencies: &mut Latencies) {
        while let Some(action) = self.paths.poll_action() {
            match action {
                PathAction::Connect { path, through } => self.legs[path].request_connect(through),
                PathAction::Check { path } => self.legs[path].check(now, self.setup.lun()),
                PathAction::Fail => self.fail(now, latencies),
            }
        }
    }

    /// Fails the VM, because no path was usable for too long.
    fn fail(&mut self, now: Time, latencies: &mut Latencies) {
        let mut errors = self.legs.iter_mut().filter_map(|leg| leg.error.take());
        let error = errors.next();
        let error = error.unwrap_or(SessionError::Closed("(no port permits access to the LU)"));
        if self.guest.fail(now, latencies) {
            let error = error.into();
            self.events.push(HostEvent::Failed { vm: 0, error });
        }
    }
}
