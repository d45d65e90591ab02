//! One job: the nexuses of its streams, and the parts of the image that they carry, as one machine.
//!
//! ```text
//!  Joining ──all logged in and surveyed──→ Ready ──begin──→ Copying ──last write acknowledged──→ Flushing ──→ Copied
//!     │                                                       │ end: nothing more is read                    │ verify
//!     │                                                       │ a read or write fails: nothing more          v
//!     └── whatever breaks it: Failed(JobError) ←── after the flush ──┘ begins, what is in flight ends    Verifying ──→ Verified
//! ```
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hakaru_initiator::config::LoginKeys;
use hakaru_initiator::{
    Chap, Done, Latencies, LuFacts, Negotiated, Nexus, NexusEvent, Purpose, SessionConfig, Task,
    TaskData, TaskError, Transmit, Volume,
};
use hakaru_units::Time;
use hakaru_wire::iscsi::Lun;
use hakaru_wire::scsi::{Cdb, ModeData, ModeSense, PageControl, Sense, SenseKey, Transfer};

use crate::check::Check;
use crate::config::{BackupJob, Compression, Lu};
use crate::counters::Counters;
use crate::error::{JobError, Side};
use crate::pace::Pace;
use crate::pack::Packer;
use crate::part::{Part, Place, Read};
use crate::plan::plan_parts;

/// Tag of SYNCHRONIZE CACHE among a nexus's tasks; blocks count from 0 and never get this far.
const FLUSH: u32 = u32::MAX;
/// Tag of MODE SENSE.
const MODE: u32 = u32::MAX - 1;
/// Room for a mode parameter header and the pages that targets have.
const MODE_BYTES: u16 = 252;

/// What all jobs of an engine share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Login keys.
    pub keys: LoginKeys,
    /// How the sessions prove who they are.
    pub chap: Option<Chap>,
    /// Limit for a login, a command, a ping and a logout.
    pub timeout: Duration,
    /// Tells this engine's sessions from those of another that goes by the same initiator name.
    pub seed: u64,
}

/// One of a job's nexuses: `2 × stream` to the source, `2 × stream + 1` to the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leg(pub usize);

impl Leg {
    /// Which stream's.
    #[must_use]
    pub fn stream(self) -> usize {
        self.0 / 2
    }

    /// To which LU.
    #[must_use]
    pub fn side(self) -> Side {
        if self.0.is_multiple_of(2) {
            Side::Source
        } else {
            Side::Destination
        }
    }
}

/// What happened to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobEvent {
    /// Every nexus stands and the image fits: [`Job::begin`] may be called.
    Ready,
    /// Connect the leg again, to this address, then call [`Job::handle_connected`].
    Redirected {
        /// Which.
        leg: Leg,
        /// `address:port`.
        address: String,
    },
    /// All that was read is written, and on stable storage.
    Copied {
        /// All of the image, not only what was read before [`Job::end`].
        whole: bool,
    },
    /// The copy was read back; the counters have what was found.
    Verified,
    /// It cannot go on.
    Failed(JobError),
    /// The leg's session ended as asked.
    LoggedOut(Leg),
}

#[derive(Debug)]
enum Stage {
    Joining { answers: usize },
    Ready,
    Copying,
    Flushing,
    Copied,
    Verifying(Vec<Check>),
    Verified,
    Failed,
}

/// One job. See the module.
#[derive(Debug)]
pub struct Job {
    config: Arc<BackupJob>,
    field: String,
    legs: Vec<Nexus>,
    /// What the first stream found, by side.
    facts: [Option<LuFacts>; 2],
    stage: Stage,
    parts: Vec<Part>,
    /// The stream that may read first, so that none is favoured by the pace.
    turn: usize,
    pace: Option<Pace>,
    begun: Time,
    copied: Option<Time>,
    counters: Counters,
    /// A read or write failed: what is in flight ends first, then this is told.
    failing: Option<JobError>,
    /// What the verification came to, once it is over.
    verified: (u64, u64, Option<u64>),
    events: VecDeque<JobEvent>,
    /// Legs that may have something to send since they were last asked.
    touched: VecDeque<Leg>,
}

impl Job {
    /// The job that `config` describes, the `index`th of the engine's; its sessions are numbered from `session` on.
    #[must_use]
    pub fn new(config: Arc<BackupJob>, settings: &Settings, index: usize, session: usize) -> Job {
        let count = 2 * config.streams as usize;
        let legs = (0..count).map(|leg| {
            let lu = match Leg(leg).side() {
                Side::Source => &config.source,
                Side::Destination => &config.destination,
            };
            Nexus::new(lu.lun, session_config(lu, settings, session + leg))
        });
        Job {
            field: format!("jobs[{index}]"),
            legs: legs.collect(),
            facts: [None, None],
            stage: Stage::Joining { answers: 0 },
            parts: Vec::new(),
            turn: 0,
            pace: config.rate_limit_bytes_per_s.map(Pace::new),
            begun: Time::ZERO,
            copied: None,
            counters: Counters::default(),
            failing: None,
            verified: (0, 0, None),
            events: VecDeque::new(),
            touched: VecDeque::new(),
            config,
        }
    }

    /// A leg's connection stands.
    pub fn handle_connected(&mut self, now: Time, leg: Leg) {
        self.legs[leg.0].handle_connected(now);
        self.touch(leg);
    }

    /// Takes what a leg received; other legs may have something to send then.
    pub fn handle_received(
        &mut self,
        now: Time,
        leg: Leg,
        bytes: &[u8],
        latencies: &mut Latencies,
    ) {
        self.legs[leg.0].handle_received(now, bytes);
        self.advance(now, leg, latencies);
    }

    /// A leg's connection ended; `why` completes "connection lost …".
    pub fn handle_closed(
        &mut self,
        now: Time,
        leg: Leg,
        why: &'static str,
        latencies: &mut Latencies,
    ) {
        self.legs[leg.0].handle_closed(now, why);
        self.advance(now, leg, latencies);
    }

    /// Something may be due on a leg; harmless when nothing is.
    pub fn handle_timeout(&mut self, now: Time, leg: Leg, latencies: &mut Latencies) {
        self.legs[leg.0].handle_timeout(now);
        self.advance(now, leg, latencies);
    }

    /// When [`Job::handle_timeout`] is wanted next for a leg. The pace is the first leg's business.
    #[must_use]
    pub fn poll_timeout(&self, leg: Leg) -> Option<Time> {
        let session = self.legs[leg.0].poll_timeout();
        let waits = leg.0 == 0
            && matches!(self.stage, Stage::Copying)
            && self.parts.iter().any(|part| part.wants().is_some());
        let pace = self.pace.filter(|_| waits).map(|pace| pace.due());
        session.into_iter().chain(pace).min()
    }

    /// The copy begins. Wants [`JobEvent::Ready`] to have come.
    pub fn begin(&mut self, now: Time) {
        if matches!(self.stage, Stage::Ready) {
            self.stage = Stage::Copying;
            self.begun = now;
            self.go_on(now);
        }
    }

    /// Nothing more is read; [`JobEvent::Copied`] comes when what was read is written.
    pub fn end(&mut self, now: Time) {
        if matches!(self.stage, Stage::Copying) {
            self.parts.iter_mut().for_each(Part::stop);
            self.go_on(now);
        }
    }

    /// The copy is read back. Wants [`JobEvent::Copied`] to have come, and `verify` in the configuration.
    pub fn verify(&mut self, now: Time) {
        if !matches!(self.stage, Stage::Copied) || !self.config.verify {
            return;
        }
        let depth = self.config.depth;
        let checks = self.parts.iter_mut().map(|part| Check::new(part, depth));
        match checks.collect() {
            Ok(checks) => {
                self.stage = Stage::Verifying(checks);
                self.go_on(now);
            }
            Err(what) => self.fail(JobError::Compression(what)),
        }
    }

    /// Ends every session; a [`JobEvent::LoggedOut`] comes for each.
    pub fn log_out(&mut self, now: Time, latencies: &mut Latencies) {
        for leg in (0..self.legs.len()).map(Leg) {
            self.legs[leg.0].log_out(now);
            self.advance(now, leg, latencies);
        }
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<JobEvent> {
        self.events.pop_front()
    }

    /// The next leg that may have something to send by now, or want a timeout sooner.
    pub fn poll_transmit(&mut self) -> Option<Leg> {
        self.touched.pop_front()
    }

    /// What a leg has to send.
    pub fn transmit(&mut self, leg: Leg) -> &mut Transmit {
        self.legs[leg.0].transmit()
    }

    /// A leg's connection is of no use any more.
    #[must_use]
    pub fn is_ended(&self, leg: Leg) -> bool {
        self.legs[leg.0].is_ended()
    }

    /// All its legs.
    pub fn legs(&self) -> impl Iterator<Item = Leg> + use<> {
        (0..self.legs.len()).map(Leg)
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &BackupJob {
        &self.config
    }

    /// What an LU said of itself, once its first session stands.
    #[must_use]
    pub fn facts(&self, side: Side) -> Option<&LuFacts> {
        self.facts[side as usize].as_ref()
    }

    /// Keys as negotiated with a side, by the first stream.
    #[must_use]
    pub fn negotiated(&self, side: Side) -> &Negotiated {
        self.legs[side as usize].negotiated()
    }

    /// Where its parts lie, once both LUs are known.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.parts.iter().map(Part::place)
    }

    /// From the beginning to the acknowledgement of the last write and of the flush; `None` until then.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        let copied = self.copied?;
        Some(Duration::from_nanos(copied.ns_since(self.begun)))
    }

    /// The copy is on stable storage, and of all of the image.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.copied.is_some() && self.parts.iter().all(Part::is_whole)
    }

    /// Counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (verified_bytes, mismatches, _) = self.verified();
        Counters {
            verified_bytes,
            mismatches,
            done_now: u64::from(self.is_done()),
            in_flight_now: self.parts.iter().map(|part| part.in_flight() as u64).sum(),
            ..self.counters
        }
    }

    /// Bytes compared so far, blocks that differ, and where in the image the first of them lies.
    fn verified(&self) -> (u64, u64, Option<u64>) {
        match &self.stage {
            Stage::Verifying(checks) => outcome(checks),
            _ => self.verified,
        }
    }

    fn touch(&mut self, leg: Leg) {
        if !self.touched.contains(&leg) {
            self.touched.push_back(leg);
        }
    }

    /// Takes what a leg has brought about, and does what follows from it.
    fn advance(&mut self, now: Time, leg: Leg, latencies: &mut Latencies) {
        self.touch(leg);
        while let Some(done) = self.legs[leg.0].poll_done() {
            self.handle_done(now, leg, done, latencies);
        }
        while let Some(event) = self.legs[leg.0].poll_event() {
            match event {
                NexusEvent::Ready(facts) => self.handle_joined(now, leg, facts),
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
        self.go_on(now);
    }

    /// A leg knows its LU. The first stream's destination is asked one thing more: whether it takes writes.
    fn handle_joined(&mut self, now: Time, leg: Leg, facts: LuFacts) {
        if leg.stream() == 0 {
            self.facts[leg.side() as usize] = Some(facts);
        }
        if leg != Leg(1) {
            return self.join();
        }
        let length = MODE_BYTES.into();
        let cdb = Cdb::ModeSense(ModeSense {
            ten: false,
            disable_block_descriptors: true,
            long_lba: false,
            control: PageControl::Current,
            page: 0x3f,
            subpage: 0,
            allocation_length: MODE_BYTES,
        });
        let data = TaskData::In { length, keep: true };
        self.submit(now, leg, MODE, cdb, data);
    }

    /// One more leg stands.
    fn join(&mut self) {
        let Stage::Joining { answers } = &mut self.stage else {
            return;
        };
        *answers += 1;
        if *answers < self.legs.len() {
            return;
        }
        match self.plan() {
            Ok(parts) => {
                self.parts = parts;
                self.stage = Stage::Ready;
                self.events.push_back(JobEvent::Ready);
            }
            Err(error) => self.fail(error),
        }
    }

    fn plan(&self) -> Result<Vec<Part>, JobError> {
        let volume = |side: Side| {
            let facts = self.facts[side as usize].as_ref();
            facts.expect("every leg has surveyed its LU").volume
        };
        let (source, destination) = (volume(Side::Source), volume(Side::Destination));
        let config = &self.config;
        let places = plan_parts(&self.field, config, &source, &destination)?;
        let part = |place: Place| {
            let packer = match config.compression {
                Compression::None => None,
                Compression::Zstd { level } => {
                    Some(Packer::new(level, config.block_bytes).map_err(JobError::Compression)?)
                }
            };
            let sector = destination.block_bytes;
            Ok(Part::new(
                place,
                config.depth,
                sector,
                packer,
                config.verify,
            ))
        };
        places.into_iter().map(part).collect()
    }

    fn handle_done(&mut self, now: Time, leg: Leg, done: Done, latencies: &mut Latencies) {
        match (leg.side(), done.tag) {
            (_, MODE) => self.handle_mode(leg, done),
            (_, FLUSH) => self.handle_flushed(now, &done),
            (Side::Source, _) => self.handle_read(now, leg, done, latencies),
            (Side::Destination, _) if matches!(self.stage, Stage::Verifying(_)) => {
                self.handle_read_back(leg, done);
            }
            (Side::Destination, _) => self.handle_written(now, leg, &done, latencies),
        }
    }

    /// WP of the device-specific parameter (SBC-3 section 6.5.1). A target that does not know the command may take writes or not.
    fn handle_mode(&mut self, leg: Leg, done: Done) {
        let protected = done.result.is_ok()
            && ModeData::parse(&done.data, false).is_ok_and(|mode| mode.write_protected);
        self.legs[leg.0].recycle(done.data);
        if protected {
            self.fail(JobError::ReadOnly);
        } else {
            self.join();
        }
    }

    fn handle_read(&mut self, now: Time, leg: Leg, done: Done, latencies: &mut Latencies) {
        let part = &mut self.parts[leg.stream()];
        let place = *part.place();
        let (begin, length) = place.block(done.tag);
        let result = whole(done.result, length);
        let data = result.is_ok().then_some(done.data);
        let asked = match part.handle_read(done.tag, data) {
            Ok(asked) => asked,
            Err(what) => return self.give_up(JobError::Compression(what)),
        };
        let took = now.ns_since(asked);
        latencies.read.record_ns(took);
        self.counters.read_latency_ns_sum += took;
        match result {
            Ok(()) => {
                self.counters.reads += 1;
                self.counters.read_bytes += u64::from(length);
            }
            Err(error) => self.give_up(JobError::Read {
                offset_bytes: place.image_offset + begin,
                length_bytes: length,
                error,
            }),
        }
    }

    fn handle_written(&mut self, now: Time, leg: Leg, done: &Done, latencies: &mut Latencies) {
        let Some((at, length, begun)) = self.parts[leg.stream()].handle_written(done.tag) else {
            return;
        };
        let took = now.ns_since(begun);
        latencies.write.record_ns(took);
        self.counters.write_latency_ns_sum += took;
        match whole(done.result, length) {
            Ok(()) => {
                self.counters.writes += 1;
                self.counters.written_bytes += u64::from(length);
            }
            Err(error) => {
                let offset = at - self.config.destination_offset_bytes;
                self.give_up(JobError::of_write(offset, length, error));
            }
        }
        let part = &mut self.parts[leg.stream()];
        while let Some(buffer) = part.poll_spare() {
            self.legs[2 * leg.stream()].recycle(buffer);
        }
    }

    /// A target without a volatile cache may not know the command; then there is nothing to flush.
    fn handle_flushed(&mut self, now: Time, done: &Done) {
        let result = match done.result {
            Err(TaskError::Check(Sense {
                key: SenseKey::IllegalRequest,
                ..
            })) => Ok(0),
            other => other,
        };
        match result {
            Err(error) => self.fail(JobError::Flush(error)),
            Ok(_) if self.failing.is_some() => {
                let error = self.failing.take().expect("looked at above");
                self.fail(error);
            }
            Ok(_) => {
                self.stage = Stage::Copied;
                self.copied = Some(now);
                let whole = self.parts.iter().all(Part::is_whole);
                self.events.push_back(JobEvent::Copied { whole });
            }
        }
    }

    fn handle_read_back(&mut self, leg: Leg, done: Done) {
        let Stage::Verifying(checks) = &mut self.stage else {
            return;
        };
        let check = &mut checks[leg.stream()];
        let (at, length) = check.piece(done.tag);
        match whole(done.result, length) {
            Ok(()) => {
                let spare = check.handle_read(done.tag, done.data);
                self.legs[leg.0].recycle(spare);
            }
            Err(error) => self.fail(JobError::ReadBack {
                offset_bytes: at - self.config.destination_offset_bytes,
                error,
            }),
        }
    }

    /// Something went wrong with the copy while its sessions live on: nothing new begins, what is in flight ends, and what was acknowledged is
    /// brought to stable storage before this is told.
    fn give_up(&mut self, error: JobError) {
        self.counters.errors += 1;
        self.parts.iter_mut().for_each(Part::abandon);
        self.failing.get_or_insert(error);
    }

    fn fail(&mut self, error: JobError) {
        if !matches!(self.stage, Stage::Failed) {
            self.stage = Stage::Failed;
            let first = self.failing.take().unwrap_or(error);
            self.events.push_back(JobEvent::Failed(first));
        }
    }

    /// Begins whatever may begin now.
    fn go_on(&mut self, now: Time) {
        match self.stage {
            Stage::Copying => {
                self.write_on(now);
                self.read_on(now);
                if self.parts.iter_mut().all(Part::is_copied) {
                    self.stage = Stage::Flushing;
                    let flush = Cdb::SynchronizeCache {
                        lba: 0,
                        blocks: 0,
                        immediate: false,
                    };
                    self.submit(now, Leg(1), FLUSH, flush, TaskData::None);
                } else {
                    // The last blocks of a packed copy come to light when everything was read.
                    self.write_on(now);
                }
            }
            Stage::Verifying(_) => self.read_back_on(now),
            _ => {}
        }
    }

    fn read_on(&mut self, now: Time) {
        let streams = self.parts.len();
        let mut idle = 0;
        while idle < streams {
            let stream = self.turn;
            let Some(length) = self.parts[stream].wants() else {
                idle += 1;
                self.turn = (stream + 1) % streams;
                continue;
            };
            if let Some(pace) = &mut self.pace
                && !pace.take(now, length.into())
            {
                return self.touch(Leg(0));
            }
            idle = 0;
            self.turn = (stream + 1) % streams;
            let read = self.parts[stream].begin_read(now);
            self.submit_read(now, Leg(2 * stream), read);
        }
    }

    fn write_on(&mut self, now: Time) {
        for stream in 0..self.parts.len() {
            while let Some(write) = self.parts[stream].poll_write(now) {
                let length = write.buffer.len() as u32;
                let leg = Leg(2 * stream + 1);
                let transfer = self.transfer(leg.side(), write.offset_bytes, length);
                let data = TaskData::Out {
                    buffer: write.buffer,
                    begin: 0,
                    length,
                };
                self.submit(now, leg, write.tag, Cdb::Write(transfer), data);
            }
        }
    }

    fn read_back_on(&mut self, now: Time) {
        let Stage::Verifying(checks) = &mut self.stage else {
            return;
        };
        let mut reads = Vec::new();
        for (stream, check) in checks.iter_mut().enumerate() {
            reads.extend(std::iter::from_fn(|| check.poll_read()).map(|read| (stream, read)));
        }
        if checks.iter().all(Check::is_over) {
            self.verified = outcome(checks);
            self.stage = Stage::Verified;
            self.events.push_back(JobEvent::Verified);
            if let (_, blocks, Some(offset_bytes)) = self.verified {
                self.fail(JobError::Mismatch {
                    offset_bytes,
                    blocks,
                });
            }
        }
        for (stream, read) in reads {
            self.submit_read(now, Leg(2 * stream + 1), read);
        }
    }

    fn submit_read(&mut self, now: Time, leg: Leg, read: Read) {
        let transfer = self.transfer(leg.side(), read.offset_bytes, read.length_bytes);
        let data = TaskData::In {
            length: read.length_bytes,
            keep: true,
        };
        self.submit(now, leg, read.block, Cdb::Read(transfer), data);
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
        self.facts(side).map(|facts| facts.volume)
    }

    fn submit(&mut self, now: Time, leg: Leg, tag: u32, cdb: Cdb, data: TaskData) {
        let lu = match leg.side() {
            Side::Source => &self.config.source,
            Side::Destination => &self.config.destination,
        };
        let task = Task {
            tag,
            lun: Lun::new(lu.lun.into()),
            cdb: cdb.emit(),
            data,
        };
        self.legs[leg.0].submit(now, task);
        self.touch(leg);
    }
}

/// What all parts' checks have found.
fn outcome(checks: &[Check]) -> (u64, u64, Option<u64>) {
    let outcomes = checks.iter().map(Check::outcome);
    outcomes.fold((0, 0, None), |sum, one| {
        let first = sum.2.into_iter().chain(one.2).min();
        (sum.0 + one.0, sum.1 + one.1, first)
    })
}

/// A task that moved less than it was asked to has failed.
fn whole(result: Result<u32, TaskError>, expected: u32) -> Result<(), TaskError> {
    match result {
        Ok(moved) if moved == expected => Ok(()),
        Ok(moved) => Err(TaskError::Short { moved, expected }),
        Err(error) => Err(error),
    }
}

fn session_config(lu: &Lu, settings: &Settings, session: usize) -> SessionConfig {
    SessionConfig {
        initiator_name: lu.initiator_name.clone(),
        isid: Nexus::isid(settings.seed, session),
        purpose: Purpose::Normal {
            target_name: lu.target_name.clone(),
        },
        keys: settings.keys.clone(),
        chap: settings.chap.clone(),
        timeout: settings.timeout,
    }
}
