//! The state of all jobs: their events, and the machines above their sockets.
use std::io;
use std::net::SocketAddr;

use hakaru_backup::{Job, JobError, JobEvent, Leg, Turns};
use hakaru_iscsi_session::{Arrival, NexusError, Session, SessionError, Transmit};
use hakaru_stats::Latencies;
use hakaru_units::Time;

use super::failures::{of_connect, of_job};
use crate::failure::Failure;
use crate::sockets::Machines;

/// The jobs and their state.
#[derive(Default)]
pub(super) struct JobSet {
    pub(super) jobs: Vec<Job>,
    /// Job and leg of each socket.
    pub(super) legs: Vec<(usize, Leg)>,
    /// First socket of each job.
    pub(super) first: Vec<usize>,
    /// New address of each redirected socket.
    pub(super) redirects: Vec<Option<SocketAddr>>,
    pub(super) latencies: Latencies,
    /// Order of the jobs on each tape drive.
    pub(super) turns: Turns,
    /// Jobs whose predecessor on their drive is done.
    pub(super) due: Vec<usize>,
    pub(super) ready: usize,
    pub(super) mounted: usize,
    pub(super) copied: usize,
    pub(super) verified: usize,
    pub(super) logged_out: usize,
    /// The first failure that ends the engine at once.
    pub(super) fatal: Option<Failure>,
    /// Failure of the first copy that differs; reported after all copies were verified.
    pub(super) mismatch: Option<Failure>,
}

impl JobSet {
    fn handle_event_of(&mut self, index: usize, event: JobEvent) {
        let job = &self.jobs[index];
        match event {
            JobEvent::Ready => self.ready += 1,
            JobEvent::Redirected { leg, address } => match address.parse() {
                Ok(address) => self.redirects[self.first[index] + leg.0] = Some(address),
                Err(_) => {
                    let error = NexusError::Session(SessionError::RedirectAddress(address));
                    let side = leg.side();
                    self.fail(index, &JobError::Nexus { side, error });
                }
            },
            JobEvent::Mounted => self.mounted += 1,
            JobEvent::Copied { .. } => {
                self.copied += 1;
                self.due.extend(self.turns.after(index));
            }
            JobEvent::Verified => {
                self.verified += 1;
                self.due.extend(self.turns.after(index));
            }
            JobEvent::Failed(error @ JobError::Mismatch { .. }) => {
                let failure = of_job(job, &error);
                self.mismatch.get_or_insert(failure);
            }
            JobEvent::Failed(error) => self.fail(index, &error),
            JobEvent::LoggedOut(_) => self.logged_out += 1,
        }
    }

    fn fail(&mut self, job: usize, error: &JobError) {
        let failure = of_job(&self.jobs[job], error);
        self.end(failure);
    }

    /// Ends the engine at the end of its turn, with the first failure.
    pub(super) fn end(&mut self, failure: Failure) {
        self.fatal.get_or_insert(failure);
    }

    /// Handles the events of a job.
    pub(super) fn settle_job(&mut self, job: usize) {
        while let Some(event) = self.jobs[job].poll_event() {
            self.handle_event_of(job, event);
        }
    }
}

impl Machines for JobSet {
    fn handle_connected(&mut self, now: Time, index: usize) {
        let (job, leg) = self.legs[index];
        self.jobs[job].handle_connected(now, leg);
    }

    fn handle_unreachable(&mut self, index: usize, error: &io::Error) {
        let (job, leg) = self.legs[index];
        let failure = of_connect(self.jobs[job].config(), leg.side(), error);
        self.end(failure);
    }

    fn handle_received(&mut self, arrival: Arrival, index: usize, bytes: &[u8]) {
        let (job, leg) = self.legs[index];
        self.jobs[job].handle_received(arrival, leg, bytes, &mut self.latencies);
    }

    fn handle_closed(&mut self, now: Time, index: usize, why: &'static str) {
        let (job, leg) = self.legs[index];
        self.jobs[job].handle_closed(now, leg, why, &mut self.latencies);
    }

    fn handle_timeout(&mut self, now: Time, index: usize) {
        let (job, leg) = self.legs[index];
        self.jobs[job].handle_timeout(now, leg, &mut self.latencies);
    }

    fn poll_timeout(&self, index: usize) -> Option<Time> {
        let (job, leg) = self.legs[index];
        self.jobs[job].poll_timeout(leg)
    }

    fn issue(&mut self, now: Time, index: usize) {
        let (job, _) = self.legs[index];
        self.jobs[job].issue(now);
    }

    fn transmit(&mut self, index: usize) -> &mut Transmit {
        let (job, leg) = self.legs[index];
        self.jobs[job].transmit(leg)
    }

    fn session(&self, index: usize) -> &Session {
        let (job, leg) = self.legs[index];
        let session = self.jobs[job].session(leg);
        session.expect("a leg with a socket has a session")
    }

    fn settle(&mut self, index: usize) -> Option<SocketAddr> {
        let (job, _) = self.legs[index];
        self.settle_job(job);
        self.redirects[index].take()
    }

    fn poll_transmit(&mut self, index: usize) -> Option<usize> {
        let (job, _) = self.legs[index];
        let leg = self.jobs[job].poll_transmit()?;
        Some(self.first[job] + leg.0)
    }
}
