//! Events of a host, and the errors that end a VM.
use hakaru_contract::ConfigError;
use hakaru_iscsi_session::{LuFacts, NexusError, SessionError, SurveyError, TaskError};

use crate::corruption::Corruption;
use crate::pattern::Op;

/// An event of a host. VMs and legs (sessions) are numbered from 0 within the host.
#[derive(Clone, Debug, PartialEq)]
pub enum HostEvent {
    /// Every leg is logged in and has surveyed the LUs: [`crate::IscsiHost::begin`] may be called.
    /// The facts are those of the first LU.
    Ready(LuFacts),
    /// The leg must connect to this address. [`crate::IscsiHost::handle_connected`] follows.
    Redirected {
        /// Number of the leg.
        leg: usize,
        /// `address:port`.
        address: String,
    },
    /// A request failed; the load continues.
    RequestFailed {
        /// Number of the VM.
        vm: usize,
        /// Read or write.
        op: Op,
        /// Error of the request.
        error: TaskError,
    },
    /// A read returned corrupt data, which fails the run.
    Corrupt {
        /// Number of the VM.
        vm: usize,
        /// First invalid block.
        corruption: Corruption,
    },
    /// A VM failed. Its requests in flight were counted as errors. A lost session fails every VM of
    /// the host.
    Failed {
        /// Number of the VM.
        vm: usize,
        /// Reason.
        error: VmError,
    },
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
