//! Refused logins, kept for the operator.

use core::net::SocketAddr;
use std::collections::VecDeque;

use hakaru_wire::iscsi::LoginStatus;

/// Maximum number of refusals kept for the shell. Further ones are only counted, so that a flood
/// costs nothing.
const KEPT_MAX: usize = 16;

/// A login that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRefusal {
    /// Address and port of the initiator.
    pub peer: SocketAddr,
    /// The name that the initiator sent, if any. It is not verified.
    pub initiator_name: Option<String>,
    /// The status of the Login Response.
    pub status: LoginStatus,
    /// The reason for the operator. The initiator learns only the status.
    pub reason: String,
}

/// Refusals that the shell has not polled yet.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    kept: VecDeque<LoginRefusal>,
}

impl Refusals {
    /// Keeps the refusal that `make` returns, if there is room.
    pub(crate) fn push(&mut self, make: impl FnOnce() -> LoginRefusal) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push_back(make());
        }
    }

    pub(crate) fn pop(&mut self) -> Option<LoginRefusal> {
        self.kept.pop_front()
    }
}

/// Returns the text that explains a status to the operator.
pub(crate) fn reason_of(status: LoginStatus) -> &'static str {
    match status {
        LoginStatus::AUTHENTICATION_FAILURE => {
            "the initiator must log in with CHAP as a known user"
        }
        LoginStatus::AUTHORIZATION_FAILURE => "no rule of the access list admits the initiator",
        LoginStatus::NOT_FOUND => "the initiator requested another target name",
        LoginStatus::UNSUPPORTED_VERSION => "the initiator uses another version of iSCSI",
        LoginStatus::TOO_MANY_CONNECTIONS => {
            "the initiator requested a second connection of a session"
        }
        LoginStatus::MISSING_PARAMETER => "the initiator did not send InitiatorName or TargetName",
        LoginStatus::SESSION_TYPE_NOT_SUPPORTED => {
            "the initiator requested an unknown type of session"
        }
        LoginStatus::SESSION_DOES_NOT_EXIST => {
            "the initiator requested a session that does not exist"
        }
        LoginStatus::INVALID_DURING_LOGIN => "the initiator sent a PDU other than a Login Request",
        LoginStatus::SERVICE_UNAVAILABLE => {
            "the target is shutting down, or an earlier session of the initiator does not end"
        }
        LoginStatus::OUT_OF_RESOURCES => {
            "there are too many sessions, or logins hold too much text"
        }
        _ => "the Login Request violates RFC 7143",
    }
}
