//! Conversion of the errors of a session with a target into failures of the engine, each with
//! class, message and hint.
use std::io;

use hakaru_iscsi_session::{NexusError, SessionError, SurveyError};

use crate::failure::Failure;

/// Returns the failure of a portal that cannot be reached. `place` names the VM or job, the target
/// and the portal.
pub fn of_connect(place: &str, error: &io::Error) -> Failure {
    let message = format!("{place}: cannot connect: {error}");
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::TimedOut => Failure::peer(
            message,
            "check that the array is running and that the portal's address is correct",
        ),
        _ => Failure::environment(message, "check the route from this node to the portal"),
    }
}

/// Returns the failure of a nexus.
pub fn of_nexus(place: &str, error: &NexusError) -> Failure {
    match error {
        NexusError::Session(error) => of_session(place, error),
        NexusError::Survey(error) => of_survey(place, error),
    }
}

/// Returns the failure of an LU that cannot be used.
pub fn of_survey(place: &str, error: &SurveyError) -> Failure {
    let message = format!("{place}: {error}");
    match error {
        SurveyError::OtherDevice { .. } => {
            Failure::usage(message, "name a LUN of the kind that the message expects")
        }
        _ => Failure::peer(message, "see the array's own log"),
    }
}

/// Returns the failure of a session that was refused or lost.
pub fn of_session(place: &str, error: &SessionError) -> Failure {
    let message = format_args!("{place}: {error}");
    match error {
        SessionError::Timeout { .. } => Failure::unanswered(message, hint_of(error)),
        _ => Failure::peer(message, hint_of(error)),
    }
}

fn hint_of(error: &SessionError) -> &'static str {
    match error {
        SessionError::Authentication(_) => {
            "compare the CHAP names, secrets and algorithms with those of the target"
        }
        SessionError::Refused(status) => match (status.class(), status.detail()) {
            (2, 1) => {
                "the target requires CHAP, or another name or secret: set `chap` in the configuration"
            }
            (2, 2) => "add this initiator name and address to the target's access list",
            (2, 3) => "list the targets of the portal with `iscsi-ls iscsi://ADDRESS`",
            (3, _) => "the target is busy or out of resources: use fewer VMs, or try again later",
            _ => "see the target's own log",
        },
        SessionError::Redirects(_)
        | SessionError::RedirectAddress(_)
        | SessionError::RedirectWithoutAddress => {
            "configure the portal that serves the target, not one that redirects"
        }
        SessionError::Timeout { .. } => {
            "check the load of the array and the network; `command_timeout_s` sets the limit, \
             and `tape_command_timeout_s` that of tape drives"
        }
        SessionError::Closed(_) | SessionError::Dropped(_) => {
            "check whether the array stopped or restarted during the run"
        }
        SessionError::DataDigest | SessionError::Frame(_) => {
            "check the network and the target: one of them damages data"
        }
        SessionError::Protocol(_)
        | SessionError::Negotiation(_)
        | SessionError::Wire(_)
        | SessionError::Rejected(_) => "capture the traffic to find the violation of RFC 7143",
    }
}
