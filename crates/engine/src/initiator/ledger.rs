//! Latencies and failures of all VMs of the engine, collected while their sockets and files are
//! served.
use hakaru_stats::Latencies;

use crate::control::Control;
use crate::failure::Failure;

/// Maximum number of failed requests that are reported individually. All are counted.
const REPORTS_MAX: usize = 8;
/// Maximum number of changes of paths that are reported individually. All are counted.
const CHANGES_MAX: usize = 256;

/// Latencies of all requests, and failures to be reported.
#[derive(Default)]
pub struct Ledger {
    pub latencies: Latencies,
    /// The first failure that ends the engine.
    fatal: Option<Failure>,
    /// Failed requests to be reported.
    failed_requests: Vec<Failure>,
    reported: usize,
    /// Changes of paths to be reported.
    path_changes: Vec<Failure>,
    changes_reported: usize,
}

impl Ledger {
    /// Records a failure that ends the engine: a VM is lost or has read wrong data.
    pub fn fail(&mut self, failure: Failure) {
        self.fatal.get_or_insert(failure);
    }

    /// Records a failed request, after which the load continues.
    pub fn add_failed_request(&mut self, failure: Failure) {
        self.failed_requests.push(failure);
    }

    /// Records that a path was lost or refused access, or that it can be used again.
    pub fn add_path_change(&mut self, change: Failure) {
        self.path_changes.push(change);
    }

    /// Reports failed requests and changes of paths to the control plane.
    ///
    /// # Errors
    /// Returns the failure that ends the engine.
    pub fn report(&mut self, control: &mut Control) -> Result<(), Failure> {
        for failure in self.failed_requests.drain(..) {
            self.reported += 1;
            if self.reported <= REPORTS_MAX {
                control.error(&failure, false);
            }
        }
        for change in self.path_changes.drain(..) {
            self.changes_reported += 1;
            if self.changes_reported <= CHANGES_MAX {
                control.error(&change, false);
            }
        }
        self.fatal.take().map_or(Ok(()), Err)
    }
}
