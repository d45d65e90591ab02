//! Failures of a world.
use std::time::Duration;

use hakaru_drive::ModelError;
use hakaru_load::HostEvent;

/// Time limit for the login or logout of all hosts, virtual time.
pub(crate) const LOGIN_LIMIT: Duration = Duration::from_secs(60);

/// Failure of a world.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The timing model has an impossible parameter.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An LU lies outside its RAID group.
    #[error("LU {lun} does not fit on RAID group {group}")]
    Misplaced {
        /// The LU.
        lun: u8,
        /// The group.
        group: u32,
    },
    /// A VM, or one of its requests, failed.
    #[error("VM {name}: {event:?}")]
    Vm {
        /// Name of the VM.
        name: String,
        /// The event that reported the failure.
        event: Box<HostEvent>,
    },
    /// Hosts did not log in or out within the time limit.
    #[error("{missing} hosts did not {phase} within {LOGIN_LIMIT:?}")]
    Late {
        /// Number of such hosts.
        missing: usize,
        /// `log in` or `log out`.
        phase: &'static str,
    },
}
