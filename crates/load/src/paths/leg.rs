//! The legs of a host: its paths, each with a session. A leg knows the state of its session; which
//! commands it carries, and when it connects again, others decide.
use std::time::Duration;

use hakaru_contract::initiator::{Destination, Multipath, Vm};
use hakaru_iscsi_session::{
    Nexus, Purpose, Session, SessionConfig, SessionError, SessionTimers, Task,
};
use hakaru_units::Time;

use super::survey::{PathSurvey, check_task};
use crate::settings::Settings;

/// Use of a leg's session.
#[derive(Debug)]
pub enum Stage {
    /// The connection, the login or its end is awaited.
    Connecting,
    /// The path is being surveyed.
    Survey(PathSurvey),
    /// Commands may use the path.
    Ready,
    /// The session has ended, or ends; the path is down.
    Down,
}

/// A path and its session.
#[derive(Debug)]
pub struct Leg {
    /// The session. Who changes it sets [`Leg::is_pending`] if data was queued.
    pub session: Session,
    /// Use of the session.
    pub stage: Stage,
    /// Whether data was queued, or a connection requested, after the caller last served the leg.
    pub is_pending: bool,
    /// Reason of the last loss.
    pub error: Option<SessionError>,
    config: SessionConfig,
    /// Portal to connect to at the next opportunity.
    connect_to: Option<usize>,
    /// Whether the session only serves to end a lost session of this path.
    is_fence: bool,
    is_checking: bool,
    logged_out: bool,
}

impl Leg {
    /// Creates a leg that connects to its portal.
    pub fn new(config: SessionConfig) -> Leg {
        Leg {
            session: Session::new(config.clone()),
            stage: Stage::Connecting,
            is_pending: false,
            error: None,
            config,
            connect_to: None,
            is_fence: false,
            is_checking: false,
            logged_out: false,
        }
    }

    /// Requests a connection to a portal.
    pub fn request_connect(&mut self, portal: usize) {
        self.connect_to = Some(portal);
        self.is_pending = true;
    }

    /// Returns the portal to connect to, and begins a session for it. `own` is the portal of the
    /// path; a session over another one only serves to end a lost session.
    pub fn take_connect(&mut self, own: usize) -> Option<usize> {
        let portal = self.connect_to.take()?;
        self.session = Session::new(self.config.clone());
        self.stage = Stage::Connecting;
        self.is_fence = portal != own;
        self.is_checking = false;
        Some(portal)
    }

    /// Submits a task to the session.
    pub fn submit(&mut self, now: Time, task: Task) {
        self.session.submit(now, task);
        self.is_pending = true;
    }

    /// Begins the survey of a path that has logged in. Returns `false` if the session only served
    /// to end another one, which is logged out.
    pub fn handle_login(&mut self, now: Time, lun: u8) -> bool {
        if self.is_fence {
            self.log_out(now);
            return false;
        }
        let survey = PathSurvey::new(lun);
        self.submit(now, survey.task());
        self.stage = Stage::Survey(survey);
        true
    }

    /// Reads the access states of the ports, unless that is in progress or the leg is not ready.
    pub fn check(&mut self, now: Time, lun: u8) {
        if !self.is_checking && self.is_ready() {
            self.is_checking = true;
            self.submit(now, check_task(lun));
        }
    }

    /// Returns whether an answer to a survey belongs to a check, and ends the check.
    pub fn end_check(&mut self) -> bool {
        std::mem::take(&mut self.is_checking)
    }

    /// Returns whether commands may use the path.
    pub fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// Handles the end of the session. The caller resets the connection.
    pub fn handle_lost(&mut self, error: SessionError) {
        // The reason of the loss matters more than those of the attempts that follow.
        if self.is_ready() || self.error.is_none() {
            self.error = Some(error);
        }
        self.stage = Stage::Down;
        self.is_pending = true;
    }

    /// Logs out of the session.
    pub fn log_out(&mut self, now: Time) {
        self.session.log_out(now);
        self.is_pending = true;
    }

    /// Begins the final logout; the leg does not connect again. Returns `false` if there is no
    /// session to end.
    pub fn close(&mut self, now: Time) -> bool {
        self.connect_to = None;
        let has_session = !matches!(self.stage, Stage::Down);
        if has_session {
            self.log_out(now);
        }
        has_session
    }

    /// Notes the end of the final logout. Returns `false` if that was known.
    pub fn note_logged_out(&mut self) -> bool {
        self.stage = Stage::Down;
        !std::mem::replace(&mut self.logged_out, true)
    }

    /// Returns whether the final logout has ended.
    pub fn is_logged_out(&self) -> bool {
        self.logged_out
    }
}

/// Creates the legs of the VM with this position in the engine, which makes the session IDs unique.
///
/// # Panics
/// Panics if the destination of the VM is not iSCSI.
pub fn legs_of(index: usize, vm: &Vm, config: &Multipath, settings: &Settings) -> Box<[Leg]> {
    let paths = vm.destination.portals().count();
    (0..paths)
        .map(|path| Leg::new(session_config(vm, config, settings, index * paths + path)))
        .collect()
}

fn session_config(vm: &Vm, config: &Multipath, settings: &Settings, index: usize) -> SessionConfig {
    let Destination::Iscsi {
        target_name,
        initiator_name,
        ..
    } = &vm.destination
    else {
        panic!("{} has no iSCSI destination", vm.name);
    };
    let seconds = Duration::from_secs_f64;
    SessionConfig {
        initiator_name: initiator_name.clone(),
        isid: Nexus::isid(vm.seed, index),
        purpose: Purpose::Normal {
            target_name: target_name.clone(),
        },
        keys: settings.keys,
        chap: settings.chap.clone(),
        timers: SessionTimers {
            login: seconds(config.login_timeout_s),
            command: settings.timeout,
            ping_after: seconds(config.nop_interval_s),
            ping: seconds(config.nop_timeout_s),
        },
    }
}
