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
    /// Connect the leg to this address instead, then call [`crate::IscsiVm::handle_connected`].
    Redirected {
        /// The leg.
        leg: usize,
        /// `address:port`.
        address: String,
    },
    /// A request failed; the load continues.
    RequestFailed {
        /// Read or write.
        op: Op,
        /// The error.
        error: TaskError,
    },
    /// A read returned corrupt data: the run has failed.
    Corrupt(Corruption),
    /// The VM failed; its requests in flight were counted as errors.
    Failed(VmError),
    /// Every session has logged out.
    LoggedOut,
}

/// Reason why a VM failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VmError {
    /// Its session ended.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Its LU is unusable.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// Its LU does not fit its configuration.
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
