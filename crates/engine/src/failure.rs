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
    /// Decides the exit code.
    pub class: ErrorClass,
    /// Names the event and the file, address or setting concerned.
    pub message: String,
    /// Advises the user how to resolve the failure.
    pub hint: String,
}

impl Failure {
    /// The configuration or an order is invalid (exit 2).
    pub fn usage(message: impl Display, hint: impl Display) -> Failure {
        Failure::new(ErrorClass::Usage, message, hint)
    }

    /// The machine or the network refuses (exit 3).
    pub fn environment(message: impl Display, hint: impl Display) -> Failure {
        Failure::new(ErrorClass::Environment, message, hint)
    }

    /// A peer broke the protocol, refused or vanished (exit 7).
    pub fn peer(message: impl Display, hint: impl Display) -> Failure {
        Failure::new(ErrorClass::Peer, message, hint)
    }

    /// Any class.
    pub fn new(class: ErrorClass, message: impl Display, hint: impl Display) -> Failure {
        Failure {
            class,
            message: message.to_string(),
            hint: hint.to_string(),
        }
    }

    /// The exit code of the process.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.class {
            ErrorClass::Internal => 1,
            ErrorClass::Usage => 2,
            ErrorClass::Environment => 3,
            ErrorClass::Verification => 6,
            ErrorClass::Peer => 7,
        })
    }
}

/// Turns an error of the operating system into a [`Failure`] that names the attempted action.
pub trait OrEnvironment<T> {
    /// `doing` completes "cannot …"; `hint` advises the user.
    ///
    /// # Errors
    /// The failure, if there was an error.
    fn or_environment(self, doing: impl Display, hint: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> OrEnvironment<T> for Result<T, E> {
    fn or_environment(self, doing: impl Display, hint: impl Display) -> Result<T, Failure> {
        self.map_err(|e| Failure::environment(format_args!("cannot {doing}: {e}"), hint))
    }
}
