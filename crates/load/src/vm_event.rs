//! Events of a VM, and the errors that end it.
use hakaru_contract::ConfigError;
use hakaru_iscsi_session::{LuFacts, NexusError, SessionError, SurveyError, TaskError};

use crate::corruption::Corruption;
use crate::pattern::Op;

/// An event of a VM.
#[derive(Clone, Debug, PartialEq)]
pub enum VmEvent {
    /// Every leg is logged in and has surveyed the LU: [`crate::IscsiVm::begin`] may be called.
    Ready(LuFacts),
    /// The leg must connect to this address. [`crate::IscsiVm::handle_connected`] follows.
    Redirected {
        /// Number of the leg, from 0.
        leg: usize,
        /// `address:port`.
        address: String,
    },
    /// A request failed; the load continues.
    RequestFailed {
        /// Read or write.
        op: Op,
        /// Error of the request.
        error: TaskError,
    },
    /// A read returned corrupt data, which fails the run.
    Corrupt(Corruption),
    /// The VM failed. Its requests in flight were counted as errors.
    Failed(VmError),
    /// Every session has logged out.
    LoggedOut,
}

/// Reason why a VM failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VmError {
    /// A session of the VM ended.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The LU is unusable.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// The LU does not fit the configuration of the VM.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl From<NexusError> for VmError {
    fn from(error: NexusError) -> VmError {
        match error {
            NexusError::Session(error) => error.into(),
            NexusError::Survey(error) => error.into(),
        }
    }
}
