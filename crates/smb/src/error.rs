//! Errors of connections and of operations.
use std::time::Duration;

use crate::wire::{Dialect, Status, WireError};

/// Reason why a connection ended other than by logoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The server refused the dialects offered.
    #[error("the server supports none of the dialects offered ({0})")]
    Dialects(Status),
    /// The server chose a dialect that was not offered.
    #[error("the server chose dialect {0:?}, which was not offered")]
    NotOffered(Dialect),
    /// The server refused the login.
    #[error("login refused: {0}")]
    LoginRefused(Status),
    /// The server logged the user in as guest.
    #[error("the server does not know the user and offers a guest session instead")]
    GuestSession,
    /// The server refused access to the share.
    #[error("share refused: {}{}", .0, share_hint(*.0))]
    ShareRefused(Status),
    /// The share has no files, such as a printer.
    #[error("the share is not a disk share")]
    NotADisk,
    /// Signatures are required, but sessions of guests have no key.
    #[error("signing is required, but sessions of guests are never signed")]
    GuestSigning,
    /// Encryption is required and impossible, or missing or wrong in a response.
    #[error("encryption {0}")]
    Encryption(&'static str),
    /// The signature of a response is wrong or missing.
    #[error("the signature of a response is {0}")]
    Signature(&'static str),
    /// The server violated MS-SMB2.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
    /// A message is invalid.
    #[error("protocol error: {0}")]
    Wire(#[from] WireError),
    /// The server ended the session.
    #[error("the server ended the session: {0}")]
    SessionEnded(Status),
    /// The server did not answer in time.
    #[error("{request} was not answered within {} s", .after.as_secs_f64())]
    Timeout {
        /// Command that was not answered.
        request: &'static str,
        /// Time limit.
        after: Duration,
    },
    /// The connection ended without a logoff.
    #[error("connection lost {0}")]
    Closed(&'static str),
}

/// Returns an addition to the status of a refused share. Samba refuses clients without encryption
/// in the same way as users without access.
fn share_hint(status: Status) -> &'static str {
    match status {
        Status::ACCESS_DENIED => {
            " (the user has no access, or the share requires encryption, which needs dialect 3.1.1)"
        }
        _ => "",
    }
}

/// Failure of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The server refused the operation.
    #[error("{0}")]
    Status(Status),
    /// The operation has more data than one request may have.
    #[error("{length} bytes are more than one request may have ({limit})")]
    TooLarge {
        /// Bytes of the operation.
        length: usize,
        /// Limit, bytes.
        limit: usize,
    },
    /// The server grants fewer credits than the operation, or the compound, needs.
    #[error("the server grants {granted} credits, but {needed} are needed")]
    Credits {
        /// Credits needed.
        needed: u32,
        /// Credits available while nothing was in flight.
        granted: u32,
    },
    /// The connection ended first.
    #[error("{0}")]
    Lost(ConnectionError),
}
