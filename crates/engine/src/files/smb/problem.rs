//! Errors of sessions: as failures of the engine, and as errors of the operating system for code
//! that serves both destinations.
use std::io;

use hakaru_smb::wire::Status;
use hakaru_smb::{ConnectionError, OpError, StepError};

use crate::failure::Failure;

/// Converts the failure of a step.
pub fn io_error(error: StepError) -> io::Error {
    let kind = match error {
        StepError::Op(OpError::Status(status)) => kind_of(status),
        StepError::Op(OpError::Lost(_)) => io::ErrorKind::ConnectionAborted,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

fn kind_of(status: Status) -> io::ErrorKind {
    match status {
        Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_PATH_NOT_FOUND | Status::NO_SUCH_FILE => {
            io::ErrorKind::NotFound
        }
        Status::OBJECT_NAME_COLLISION => io::ErrorKind::AlreadyExists,
        Status::NOT_A_DIRECTORY | Status::STOPPED_ON_SYMLINK => io::ErrorKind::NotADirectory,
        Status::FILE_IS_A_DIRECTORY => io::ErrorKind::IsADirectory,
        Status::DIRECTORY_NOT_EMPTY => io::ErrorKind::DirectoryNotEmpty,
        Status::DISK_FULL => io::ErrorKind::StorageFull,
        Status::ACCESS_DENIED => io::ErrorKind::PermissionDenied,
        Status::SHARING_VIOLATION => io::ErrorKind::ResourceBusy,
        _ => io::ErrorKind::Other,
    }
}

/// Returns the failure that ended a session with the share at `place`.
pub fn of_session(place: &str, error: &ConnectionError) -> Failure {
    let hint = match error {
        ConnectionError::LoginRefused(_) | ConnectionError::GuestSession => {
            "check the user and the password"
        }
        ConnectionError::ShareRefused(_) | ConnectionError::NotADisk => {
            "check the name of the share and the rights of the user"
        }
        ConnectionError::Dialects(_) | ConnectionError::NotOffered(_) => {
            "offer the dialects that the server supports"
        }
        ConnectionError::GuestSigning => "log in as a user with a password, or do not sign",
        ConnectionError::Encryption(_) => {
            "use dialect 3.1.1 and a user with a password, or do not require encryption"
        }
        ConnectionError::Signature(_) | ConnectionError::Protocol(_) | ConnectionError::Wire(_) => {
            "check that an SMB server listens there; its answer violates the protocol"
        }
        ConnectionError::SessionEnded(_)
        | ConnectionError::Timeout { .. }
        | ConnectionError::Closed(_) => {
            "check whether the file server still runs, and what its log says"
        }
    };
    let message = format_args!("session with {place}: {error}");
    match error {
        ConnectionError::Timeout { .. } => Failure::unanswered(message, hint),
        _ => Failure::peer(message, hint),
    }
}
