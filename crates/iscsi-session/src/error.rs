//! Errors of sessions and of commands.
use std::time::Duration;

use hakaru_wire::iscsi::frame::FrameError;
use hakaru_wire::iscsi::{LoginStatus, RejectReason, WireError};
use hakaru_wire::scsi::{Sense, Status};

/// Reason why a session ended other than by logout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The target refused the login.
    #[error("login refused: {} ({:04x}h)", login_status_text(*.0), .0.0)]
    Refused(LoginStatus),
    /// The target answered consecutive logins with redirects.
    #[error("login was redirected {0} times in a row")]
    Redirects(u32),
    /// The target redirected the login without a TargetAddress.
    #[error("the target redirected the login without a TargetAddress")]
    RedirectWithoutAddress,
    /// The target redirected the login to something other than an IP address and a port.
    #[error("login was redirected to `{0}`, which is not an address")]
    RedirectAddress(String),
    /// The target violated RFC 7143.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
    /// The target's keys violate the rules of negotiation.
    #[error("negotiation failed: {0}")]
    Negotiation(String),
    /// CHAP failed on either side, or the target's CHAP keys violate RFC 7143.
    #[error("authentication failed: {0}")]
    Authentication(&'static str),
    /// A header is invalid.
    #[error("protocol error: {0}")]
    Wire(#[from] WireError),
    /// The stream cannot be split into PDUs.
    #[error("protocol error: {0}")]
    Frame(#[from] FrameError),
    /// A data segment does not match its digest, which error recovery level 0 cannot repair.
    #[error("data digest error")]
    DataDigest,
    /// The target rejected a PDU of the session.
    #[error("target rejected a PDU: {}", reject_text(*.0))]
    Rejected(RejectReason),
    /// The target did not answer in time.
    #[error("{exchange} was not answered within {} s", .after.as_secs_f64())]
    Timeout {
        /// The exchange that was not answered.
        exchange: &'static str,
        /// Time limit of the exchange.
        after: Duration,
    },
    /// The target ended the session by an Asynchronous Message, or requested a logout.
    #[error("target {0}")]
    Dropped(&'static str),
    /// The connection ended without a logout.
    #[error("connection lost {0}")]
    Closed(&'static str),
}

/// Failure of a command whose session continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// CHECK CONDITION with sense data.
    #[error("CHECK CONDITION: {0}")]
    Check(Sense),
    /// CHECK CONDITION without readable sense data.
    #[error("CHECK CONDITION without sense data")]
    CheckWithoutSense,
    /// Another status.
    #[error("SCSI status {:02x}h", .0.0)]
    Status(Status),
    /// The target could not complete the command (iSCSI service response).
    #[error("target failure, service response {0:02x}h")]
    TargetFailure(u8),
    /// Status GOOD, but fewer bytes were transferred than requested.
    #[error("{moved} of {expected} bytes transferred")]
    Short {
        /// Bytes transferred.
        moved: u32,
        /// Bytes requested.
        expected: u32,
    },
}

/// Returns the meaning of a login status, in the words of RFC 7143 section 11.13.5.
fn login_status_text(status: LoginStatus) -> &'static str {
    match status {
        LoginStatus::INITIATOR_ERROR => "initiator error",
        LoginStatus::AUTHENTICATION_FAILURE => "authentication failure",
        LoginStatus::AUTHORIZATION_FAILURE => "authorization failure",
        LoginStatus::NOT_FOUND => "target not found",
        LoginStatus::TARGET_REMOVED => "target removed",
        LoginStatus::UNSUPPORTED_VERSION => "unsupported version",
        LoginStatus::TOO_MANY_CONNECTIONS => "too many connections",
        LoginStatus::MISSING_PARAMETER => "missing parameter",
        LoginStatus::CANNOT_INCLUDE_IN_SESSION => "can't include in session",
        LoginStatus::SESSION_TYPE_NOT_SUPPORTED => "session type not supported",
        LoginStatus::SESSION_DOES_NOT_EXIST => "session does not exist",
        LoginStatus::INVALID_DURING_LOGIN => "invalid request during login",
        LoginStatus::TARGET_ERROR => "target error",
        LoginStatus::SERVICE_UNAVAILABLE => "service unavailable",
        LoginStatus::OUT_OF_RESOURCES => "out of resources",
        other if other.class() == 2 => "initiator error",
        other if other.class() == 3 => "target error",
        _ => "unknown status class",
    }
}

/// Returns the meaning of a reject reason, in the words of RFC 7143 section 11.17.1.
fn reject_text(reason: RejectReason) -> &'static str {
    match reason {
        RejectReason::DataDigestError => "data (payload) digest error",
        RejectReason::SnackReject => "SNACK reject",
        RejectReason::ProtocolError => "protocol error",
        RejectReason::CommandNotSupported => "command not supported",
        RejectReason::ImmediateCommandReject => "immediate command reject",
        RejectReason::TaskInProgress => "task in progress",
        RejectReason::InvalidDataAck => "invalid data ack",
        RejectReason::InvalidPduField => "invalid PDU field",
        RejectReason::LongOperationReject => "long op reject",
        RejectReason::NegotiationReset => "negotiation reset",
        RejectReason::WaitingForLogout => "waiting for logout",
        RejectReason::Other(_) => "unknown reason",
    }
}
