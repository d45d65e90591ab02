//! Failures that end an engine before its work is done, as the contract and the command line report
//! them.
use std::fmt::Display;
use std::process::ExitCode;

use hakaru_contract::ErrorClass;
use thiserror::Error;

/// A failure of the engine: its class, the message and a hint.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Failure {
    /// Class, which determines the exit code.
    pub class: ErrorClass,
    /// Description of the failure, which names the file, address or setting concerned.
    pub message: String,
    /// Advice on how to resolve the failure.
    pub hint: String,
}

impl Failure {
    /// Returns a failure because the configuration or an order is invalid (exit 2).
    pub fn usage(message: impl Display, hint: impl Display) -> Failure {
        Failure::new(ErrorClass::Usage, message, hint)
    }

    /// Returns a failure of the machine or the network (exit 3).
    pub fn environment(message: impl Display, hint: impl Display) -> Failure {
        Failure::new(ErrorClass::Environment, message, hint)
    }

    /// Returns a failure of a peer that violated the protocol, refused, or vanished (exit 7).
    pub fn peer(message: impl Display, hint: impl Display) -> Failure {
        Failure::new(ErrorClass::Peer, message, hint)
    }

    /// Returns a failure because a peer did not answer in time (exit 7).
    pub fn unanswered(message: impl Display, hint: impl Display) -> Failure {
        Failure::new(ErrorClass::Unanswered, message, hint)
    }

    /// Returns a failure of any class.
    pub fn new(class: ErrorClass, message: impl Display, hint: impl Display) -> Failure {
        Failure {
            class,
            message: message.to_string(),
            hint: hint.to_string(),
        }
    }

    /// Returns the exit code of the process.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.class {
            ErrorClass::Internal => 1,
            ErrorClass::Usage => 2,
            ErrorClass::Environment => 3,
            ErrorClass::Verification => 6,
            ErrorClass::Peer | ErrorClass::Unanswered => 7,
        })
    }
}

/// Converts an error of the operating system into a [`Failure`] that names the attempted action.
pub trait OrEnvironment<T> {
    /// Converts an error into a failure. `doing` completes "cannot …", and `hint` advises the user.
    ///
    /// # Errors
    /// The failure, if the result is an error.
    fn or_environment(self, doing: impl Display, hint: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> OrEnvironment<T> for Result<T, E> {
    fn or_environment(self, doing: impl Display, hint: impl Display) -> Result<T, Failure> {
        self.map_err(|e| Failure::environment(format_args!("cannot {doing}: {e}"), hint))
    }
}
