//! Failures of a pool or a file, as failures of an access.
use std::io::{self, ErrorKind};

use hakaru_pool::Failure;
use hakaru_scsi_device::IoFailure;

/// Maps the pool's refusal of an access to its failure.
pub(super) fn io_failure(failure: Failure) -> IoFailure {
    match failure {
        Failure::Full | Failure::Quota => IoFailure::Space,
        Failure::ReadOnly | Failure::Snapshot => IoFailure::Protected,
        Failure::Io => IoFailure::Write,
        _ => IoFailure::Internal,
    }
}

/// Maps the error of a write to a file to the failure of the access.
pub(super) fn write_failure(error: &io::Error) -> IoFailure {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => IoFailure::Space,
        _ => IoFailure::Write,
    }
}
