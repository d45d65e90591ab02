//! Failures of a session with a target as failures of the engine: class, message and hint.
use std::io;

use hakaru_iscsi_session::{NexusError, SessionError, SurveyError};

use crate::failure::Failure;

/// The portal cannot be reached. `place` names the VM or job, the target and the portal.
pub fn of_connect(place: &str, error: &io::Error) -> Failure {
    let message = format!("{place}: cannot connect: {error}");
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::TimedOut => Failure::peer(
            message,
            "is the array running, and is the portal's address right?",
        ),
        _ => Failure::environment(message, "is there a route to the portal from this node?"),
    }
}

/// The nexus failed.
pub fn of_nexus(place: &str, error: &NexusError) -> Failure {
    match error {
        NexusError::Session(error) => of_session(place, error),
        NexusError::Survey(error) => of_survey(place, error),
    }
}

/// The LU cannot be used.
pub fn of_survey(place: &str, error: &SurveyError) -> Failure {
    let message = format!("{place}: {error}");
    match error {
        SurveyError::NoDisk { .. } => Failure::usage(message, "name a LUN that is a disk"),
        _ => Failure::peer(message, "look at the array's own log"),
    }
}

/// The session was refused or lost.
pub fn of_session(place: &str, error: &SessionError) -> Failure {
    Failure::peer(format_args!("{place}: {error}"), hint_of(error))
}

fn hint_of(error: &SessionError) -> &'static str {
    match error {
        SessionError::Authentication(_) => {
            "compare names, secrets and algorithms of CHAP with those that the target has"
        }
        SessionError::Refused(status) => match (status.class(), status.detail()) {
            (2, 1) => {
                "the target requires CHAP, or another name or secret: set `chap` in the configuration"
            }
            (2, 2) => "let the target's access list admit this initiator name and address",
            (2, 3) => "ask the portal for its targets: `iscsi-ls iscsi://ADDRESS`",
            (3, _) => "the target is busy or out of resources: use fewer VMs, or try later",
            _ => "look at the target's own log",
        },
        SessionError::Redirects(_) | SessionError::RedirectAddress(_) => {
            "name the portal that serves the target itself"
        }
        SessionError::Timeout { .. } => {
            "is the array overloaded, or the network cut? `command_timeout_s` is the limit"
        }
        SessionError::Closed(_) | SessionError::Dropped(_) => {
            "did the array stop, or restart, during the run?"
        }
        SessionError::DataDigest | SessionError::Frame(_) => {
            "the network or the target damages data"
        }
        SessionError::Protocol(_)
        | SessionError::Negotiation(_)
        | SessionError::Wire(_)
        | SessionError::Rejected(_) => {
            "the target and RFC 7143 disagree: capture the traffic to see where"
        }
    }
}
