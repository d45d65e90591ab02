//! Latencies and failures of all VMs of the engine, collected while their sockets and files are
//! served.
use hakaru_stats::Latencies;

use crate::control::Control;
use crate::failure::Failure;

/// Failed requests that are reported individually; all are counted.
const COMPLAINTS_MAX: usize = 8;

/// Latencies of all requests, and failures to be reported.
#[derive(Default)]
pub struct Ledger {
    pub latencies: Latencies,
    /// The first failure that ends the engine.
    fatal: Option<Failure>,
    /// Failed requests to report.
    complaints: Vec<Failure>,
    reported: usize,
}

impl Ledger {
    /// A VM is lost or has read wrong data: the engine ends.
    pub fn fail(&mut self, failure: Failure) {
        self.fatal.get_or_insert(failure);
    }

    /// A request failed; the load continues.
    pub fn complain(&mut self, failure: Failure) {
        self.complaints.push(failure);
    }

    /// Reports failed requests to the control plane.
    ///
    /// # Errors
    /// Returns the failure that ends the engine.
    pub fn report(&mut self, control: &mut Control) -> Result<(), Failure> {
        for complaint in self.complaints.drain(..) {
            self.reported += 1;
            if self.reported <= COMPLAINTS_MAX {
                control.error(&complaint, false);
            }
        }
        self.fatal.take().map_or(Ok(()), Err)
    }
}
