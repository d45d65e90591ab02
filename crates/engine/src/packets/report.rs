//! Reports of the threads to the main thread.
use std::sync::mpsc::Sender;

use hakaru_packets::{ReceivedByPort, Sent};
use hakaru_runtime::Waker;

use crate::failure::Failure;

/// A report, or the failure that ended the thread.
pub(super) type Report = Result<Progress, Failure>;

/// Progress of one port in a trial.
pub(super) enum Progress {
    /// The receiver is ready for the frames of the trial.
    Begun,
    /// Everything was sent, or left out.
    Sent {
        /// Index of the port.
        port: usize,
        /// Counts of the streams that it sends.
        streams: Vec<Sent>,
        /// Times that the interface refused a frame.
        refused: u64,
        /// CPU time of the thread in the trial, ns.
        cpu_ns: u64,
    },
    /// The time for frames under way is over.
    Received {
        /// Index of the port.
        port: usize,
        /// Counts of the streams that it receives.
        counts: ReceivedByPort,
        /// Frames lost because the ring was full.
        ring_dropped: u64,
        /// CPU time of the thread in the trial, ns.
        cpu_ns: u64,
    },
}

/// Sends reports and wakes the main thread.
#[derive(Clone)]
pub(super) struct Reporter {
    reports: Sender<Report>,
    waker: Waker,
}

impl Reporter {
    pub(super) fn new(reports: Sender<Report>, waker: Waker) -> Reporter {
        Reporter { reports, waker }
    }

    /// Sends a report. Returns `false` if the engine has ended.
    pub(super) fn send(&self, report: Report) -> bool {
        let sent = self.reports.send(report).is_ok();
        self.waker.wake();
        sent
    }
}
