//! One job: a state machine of the nexuses or disks of its streams, and the parts of the image that
//! they carry.
//!
//! ```text
//!  Joining ── every session logged in, every LU surveyed
//!     ↓
//!   Ready ── begin
//!     ↓
//!  Copying ── last write acknowledged (end: no more reads)
//!     ↓
//! Flushing ── SYNCHRONIZE CACHE completed
//!     ↓
//!  Copied ── verify
//!     ↓
//! Verifying ── copy read back
//!     ↓
//! Verified
//! ```
//! A job to a tape drive is Mounting before Copying or Verifying, or on request before that; it may be
//! Waiting for a job that uses its drive.
//!
//! Any failure leads to Failed. If a read or write of the copy fails, no new commands are issued,
//! those in flight are drained, and acknowledged writes are flushed first. The failure of a disk is
//! the shell's: it ends the copy without that.
mod copying;
mod disks;
mod joining;
mod legs;
mod tape;
mod verifying;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hakaru_iscsi_session::{
    Arrival, Done, LuFacts, NexusEvent, Session, TaskData, TaskError, Transmit, Volume,
};
use hakaru_stats::Latencies;
use hakaru_units::Time;
use hakaru_wire::scsi::{Cdb, Transfer};

use crate::check::{Check, Outcome};
use crate::counters::Counters;
use crate::error::{JobError, Side};
use crate::pace::Pace;
use crate::part::{Part, Place, Read};
use crate::tape::{Mount, TapeCopy};
use hakaru_contract::backup::BackupJob;
use legs::Legs;
pub use legs::{Leg, Settings};

/// Tag of SYNCHRONIZE CACHE among a nexus's tasks. The tags of reads and writes count from 0 and
/// stay below it.
const FLUSH: u32 = u32::MAX;
/// Tag of MODE SENSE.
const MODE: u32 = u32::MAX - 1;
/// Tag of the commands that prepare a tape.
const MOUNT: u32 = u32::MAX - 2;
/// Tag of a filemark between blocks.
const MARK: u32 = u32::MAX - 3;
/// Tag of READ POSITION at the end of a copy to a tape.
const POSITION: u32 = u32::MAX - 4;

/// An event of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobEvent {
    /// Every nexus is logged in, or every disk is open, and the image fits: [`Job::begin`] may be
    /// called.
    Ready,
    /// The cartridge is in the drive and positioned, as requested by [`Job::mount`].
    Mounted,
    /// The leg must be connected to this address instead; then call [`Job::handle_connected`].
    Redirected {
        /// The leg.
        leg: Leg,
        /// `address:port`.
        address: String,
    },
    /// All blocks that were read are written and on stable storage.
    Copied {
        /// Whether the entire image was copied, not only the part read before [`Job::end`].
        whole: bool,
    },
    /// The copy was read back; the counters contain the result.
    Verified,
    /// The job failed.
    Failed(JobError),
    /// The leg's session has logged out.
    LoggedOut(Leg),
}

#[derive(Debug)]
enum Stage {
    Joining {
        ready_legs: usize,
    },
    Ready,
    /// The time of the copy has begun, but another job uses the drive.
    Waiting,
    Mounting(Mount, AfterMount),
    Copying,
    Flushing,
    Copied,
    Verifying(Vec<Check>),
    Verified,
    Failed,
}

/// The step that follows the preparation of a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterMount {
    Ready,
    Copy,
    Verify,
}

/// One job. See the module's documentation.
#[derive(Debug)]
pub struct Job {
    config: Arc<BackupJob>,
    field: String,
    legs: Legs,
    /// Block length and size of the LUs, by side.
    volumes: [Option<Volume>; 2],
    /// Facts about the LUs of the first stream's sessions, by side.
    facts: [Option<LuFacts>; 2],
    stage: Stage,
    parts: Vec<Part>,
    /// The copy on a tape, if the destination is a tape drive.
    tape: Option<TapeCopy>,
    /// Stream that may issue the next read. It rotates so that the rate limit favours no stream.
    next_stream: usize,
    pace: Option<Pace>,
    /// Deadline of the rate limit for which the first leg was touched last.
    armed_pace: Option<Time>,
    begun: Time,
    copied: Option<Time>,
    counters: Counters,
    /// Error of a failed read or write, reported once the commands in flight are drained.
    pending_error: Option<JobError>,
    /// Result of the verification, once it has ended.
    verified: Outcome,
    events: VecDeque<JobEvent>,
}

impl Job {
    /// Creates the job that `config` describes, the `index`th of the engine. Its first session has
    /// the number `session`.
    #[must_use]
    pub fn new(config: Arc<BackupJob>, settings: &Settings, index: usize, session: usize) -> Job {
        Job {
            field: format!("jobs[{index}]"),
            legs: Legs::new(&config, settings, session),
            volumes: [None, None],
            facts: [None, None],
            stage: Stage::Joining { ready_legs: 0 },
            parts: Vec::new(),
            tape: config.tape.clone().map(TapeCopy::new),
            next_stream: 0,
            pace: config.rate_limit_bytes_per_s.map(Pace::new),
            armed_pace: None,
            begun: Time::ZERO,
            copied: None,
            counters: Counters::default(),
            pending_error: None,
            verified: Outcome::default(),
            events: VecDeque::new(),
            config,
        }
    }

    /// Handles the established connection of a leg.
    pub fn handle_connected(&mut self, now: Time, leg: Leg) {
        self.legs.nexus(leg).handle_connected(now);
        self.legs.touch(leg);
    }

    /// Issues the commands that are due. Called after every other call that takes an event, because
    /// packing a block takes time: the commands that follow begin at an instant of their own.
    pub fn issue(&mut self, now: Time) {
        self.issue_commands(now);
    }

    /// Processes data that a leg received. Other legs may have data to send afterwards.
    pub fn handle_received(
        &mut self,
        arrival: impl Into<Arrival>,
        leg: Leg,
        bytes: &[u8],
        latencies: &mut Latencies,
    ) {
        let arrival = arrival.into();
        self.legs.nexus(leg).handle_received(arrival, bytes);
        self.advance(arrival.last, leg, latencies);
    }

    /// Handles the closed connection of a leg; `cause` completes the message "connection lost …".
    pub fn handle_closed(
        &mut self,
        now: Time,
        leg: Leg,
        cause: &'static str,
        latencies: &mut Latencies,
    ) {
        self.legs.nexus(leg).handle_closed(now, cause);
        self.advance(now, leg, latencies);
    }

    /// Handles the deadlines of a leg that have passed. A call before any deadline has no effect.
    pub fn handle_timeout(&mut self, now: Time, leg: Leg, latencies: &mut Latencies) {
        if self.legs.session(leg).is_some() {
            self.legs.nexus(leg).handle_timeout(now);
        }
        self.advance(now, leg, latencies);
    }

    /// Returns when [`Job::handle_timeout`] must be called next for a leg. The rate limit's
    /// deadline belongs to the first leg.
    #[must_use]
    pub fn poll_timeout(&self, leg: Leg) -> Option<Time> {
        let session = self.legs.session(leg).and_then(Session::poll_timeout);
        let has_pace = leg.0 == 0
            && matches!(self.stage, Stage::Copying)
            && self.parts.iter().any(|part| part.next_length().is_some());
        let pace = self.pace.filter(|_| has_pace).map(|pace| pace.due());
        let mount = match &self.stage {
            Stage::Mounting(mount, _) if leg == Leg(1) => mount.due(),
            _ => None,
        };
        session.into_iter().chain(pace).chain(mount).min()
    }

    /// Starts the copy. Requires that [`JobEvent::Ready`] was returned.
    pub fn begin(&mut self, now: Time) {
        match self.stage {
            Stage::Ready => self.begun = now,
            Stage::Waiting => {}
            _ => return,
        }
        self.begin_copy(now);
    }

    /// Stops reading. [`JobEvent::Copied`] follows once all blocks that were read are written.
    pub fn end(&mut self, now: Time) {
        match self.stage {
            Stage::Copying | Stage::Mounting(_, AfterMount::Copy) => {
                self.parts.iter_mut().for_each(Part::stop);
                self.issue_commands(now);
            }
            Stage::Waiting => {
                self.parts.iter_mut().for_each(Part::stop);
                self.stage = Stage::Copied;
                self.events.push_back(JobEvent::Copied { whole: false });
            }
            _ => {}
        }
    }

    /// Starts the verification. Requires that [`JobEvent::Copied`] was returned, and `verify` in
    /// the configuration.
    pub fn verify(&mut self, now: Time) {
        if !matches!(self.stage, Stage::Copied) || !self.config.verify {
            return;
        }
        if self.mount_to_verify(now) {
            return;
        }
        self.begin_checks(now);
    }

    /// Starts to read the copy back.
    fn begin_checks(&mut self, now: Time) {
        // A tape drive executes one command at a time.
        let depth = if self.tape.is_some() {
            1
        } else {
            self.config.depth
        };
        let checks = self.parts.iter_mut().map(|part| Check::new(part, depth));
        match checks.collect() {
            Ok(checks) => {
                self.stage = Stage::Verifying(checks);
                self.issue_commands(now);
            }
            Err(message) => self.fail(JobError::Compression(message)),
        }
    }

    /// Ends every session; a [`JobEvent::LoggedOut`] follows for each. Disks have none.
    pub fn log_out(&mut self, now: Time, latencies: &mut Latencies) {
        for leg in self.legs.all() {
            if self.legs.session(leg).is_none() {
                continue;
            }
            self.legs.nexus(leg).log_out(now);
            self.advance(now, leg, latencies);
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<JobEvent> {
        self.events.pop_front()
    }

    /// Returns the next leg that may have data to send, or an earlier deadline.
    pub fn poll_transmit(&mut self) -> Option<Leg> {
        self.legs.poll_touched()
    }

    /// Returns the outgoing data of a leg.
    pub fn transmit(&mut self, leg: Leg) -> &mut Transmit {
        self.legs.nexus(leg).transmit()
    }

    /// Returns the session of a leg; none if the leg is a disk.
    #[must_use]
    pub fn session(&self, leg: Leg) -> Option<&Session> {
        self.legs.session(leg)
    }

    /// Returns all legs.
    pub fn legs(&self) -> impl Iterator<Item = Leg> + use<> {
        self.legs.all()
    }

    /// Returns the job's configuration.
    #[must_use]
    pub fn config(&self) -> &BackupJob {
        &self.config
    }

    /// Returns the facts that an LU reported, once its first session is ready.
    #[must_use]
    pub fn facts(&self, side: Side) -> Option<&LuFacts> {
        self.facts[side as usize].as_ref()
    }

    /// Returns the positions of the parts, once both LUs are known.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.parts.iter().map(Part::place)
    }

    /// Returns the time from the start of the copy to the acknowledgement of the last write and of
    /// the flush; `None` until then.
    #[must_use]
    pub fn copy_duration(&self) -> Option<Duration> {
        let copied = self.copied?;
        Some(Duration::from_nanos(copied.ns_since(self.begun)))
    }

    /// Returns whether the entire image is copied and on stable storage.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.copied.is_some() && self.parts.iter().all(Part::is_whole)
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let verified = self.verified();
        Counters {
            verified_bytes: verified.verified_bytes,
            mismatches: verified.mismatches,
            done_now: u64::from(self.is_done()),
            in_flight_now: self.parts.iter().map(|part| part.in_flight() as u64).sum(),
            ..self.counters
        }
    }

    /// Processes a leg's completions and events.
    fn advance(&mut self, now: Time, leg: Leg, latencies: &mut Latencies) {
        self.legs.touch(leg);
        while let Some(done) = self.legs.poll_done(leg) {
            self.handle_done(now, leg, done, latencies);
        }
        while let Some(event) = self.legs.poll_event(leg) {
            match event {
                NexusEvent::Ready(mut facts) => {
                    self.handle_joined(now, leg, facts.swap_remove(0));
                }
                NexusEvent::Redirected { address } => {
                    self.events.push_back(JobEvent::Redirected { leg, address });
                }
                NexusEvent::Failed(error) => {
                    let side = leg.side();
                    self.fail(JobError::Nexus { side, error });
                }
                NexusEvent::LoggedOut => self.events.push_back(JobEvent::LoggedOut(leg)),
            }
        }
    }

    fn handle_done(&mut self, now: Time, leg: Leg, done: Done, latencies: &mut Latencies) {
        match (leg.side(), done.tag) {
            (_, MODE) => self.handle_mode(leg, done),
            (_, MOUNT) => self.handle_mount_done(now, leg, done),
            (_, MARK) => self.handle_marked(now, &done),
            (_, POSITION) => self.handle_position(now, &done),
            (_, FLUSH) => self.handle_flushed(now, &done),
            (Side::Source, _) => self.handle_read(leg, done, latencies),
            (Side::Destination, _) if matches!(self.stage, Stage::Verifying(_)) => {
                self.handle_read_back(now, leg, done);
            }
            (Side::Destination, _) => self.handle_written(leg, &done, latencies),
        }
    }

    fn fail(&mut self, error: JobError) {
        if !matches!(self.stage, Stage::Failed) {
            self.stage = Stage::Failed;
            let first = self.pending_error.take().unwrap_or(error);
            self.events.push_back(JobEvent::Failed(first));
        }
    }

    /// Issues every command that may start now.
    fn issue_commands(&mut self, now: Time) {
        match self.stage {
            Stage::Mounting(..) => self.continue_mount(now),
            Stage::Copying => self.continue_copy(now),
            Stage::Verifying(_) => self.continue_read_back(now),
            _ => {}
        }
    }

    fn submit_read(&mut self, now: Time, leg: Leg, read: Read) {
        if let Some(disk) = self.legs.disk(leg) {
            return disk.read(read);
        }
        let cdb = match (leg.side(), &self.tape) {
            (Side::Destination, Some(tape)) => tape.read(read.length_bytes),
            (side, _) => Cdb::Read(self.transfer(side, read.offset_bytes, read.length_bytes)),
        };
        let data = TaskData::In {
            length: read.length_bytes,
            keep: true,
        };
        self.legs.submit(now, leg, read.block, cdb, data);
    }

    fn transfer(&self, side: Side, offset_bytes: u64, length_bytes: u32) -> Transfer {
        let unit = self.volume(side).map_or(512, |volume| volume.block_bytes);
        Transfer {
            lba: offset_bytes / u64::from(unit),
            blocks: length_bytes / unit,
            ..Transfer::default()
        }
    }

    fn volume(&self, side: Side) -> Option<Volume> {
        self.volumes[side as usize]
    }
}

/// Returns an error if the task failed or transferred fewer bytes than expected.
fn check_length(result: Result<u32, TaskError>, expected: u32) -> Result<(), TaskError> {
    match result {
        Ok(moved) if moved == expected => Ok(()),
        Ok(moved) => Err(TaskError::Short { moved, expected }),
        Err(error) => Err(error),
    }
}
