//! Why an engine ends before its work is done, in the words that the contract and the command line both use.
use std::fmt::Display;
use std::process::ExitCode;

use hakaru_contract::ErrorClass;
use thiserror::Error;

/// What an engine tells when it cannot go on: whose doing it is, what happened, what to do.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Failure {
    /// Decides the exit code.
    pub class: ErrorClass,
    /// What happened, naming the file, address or setting.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Failure {
    /// The configuration, or an order, cannot be (exit 2).
    pub fn usage(message: impl Display, hint: impl Display) -> Failure {
        Failure::new(ErrorClass::Usage, message, hint)
    }

    /// The machine or network refuses (exit 3).
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

/// Turns an error of the operating system into a [`Failure`] that says what was being done.
pub trait OrEnvironment<T> {
    /// `doing` completes "cannot …"; `hint` says what to do.
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
