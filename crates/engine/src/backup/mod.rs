//! The `backup` engine: image backup jobs in one thread, each over its own iSCSI sessions, or on
//! the disks of this machine's kernel.
//!
//! 1. Check the configuration, log in, survey every LU (or open its disk), and check that every
//!    image fits. Put the first cartridge of each tape drive into it. Then send `ready`.
//! 2. At the instant of `start`, every job begins; jobs on one tape drive run one after another.
//!    Phase `measure` lasts until all jobs are done, the time limit has passed, or `stop` arrives.
//!    In phase `drain`, data in memory is written and flushed.
//! 3. In phase `verify`, the copies configured for it are read back and compared. Skipped after a
//!    `stop`.
//! 4. The sessions log out. Then send `result`.
//!
//! A job that fails ends the engine with an error that names it, because results without that job
//! are not a valid measurement. Compression and digests run on the same thread and are part of its
//! CPU time.
mod disks;
mod failures;
mod job_set;
mod jobs;
mod meter;

use std::time::Duration;

use hakaru_backup::{Job, Settings};
use hakaru_contract::backup::BackupConfig;
use hakaru_runtime::process::{self, entropy};
use hakaru_runtime::{Reactor, Waiter, clock};
use hakaru_units::Time;

use self::failures::usage_of;
use self::jobs::Jobs;
use self::meter::Meter;
use crate::control::{Control, Order};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;
use crate::secret;

/// Maximum number of events taken from the reactor at a time.
const EVENTS: usize = 256;
/// Time for sessions to log out. Targets that do not answer in time are abandoned.
const LOGOUT_PATIENCE: Duration = Duration::from_secs(3);

/// Runs the `backup` engine until its work is done.
///
/// # Errors
/// The configuration is invalid, an image does not fit, a disk cannot be opened, a session is lost,
/// a read or write fails, or a copy differs.
pub fn run(config: &BackupConfig, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    config.validate().map_err(|e| usage_of(&e))?;
    let mut engine = Engine::new(config, reactor)?;
    let outcome = engine.prepare(control).and_then(|ready| {
        if ready {
            engine.work(config, control)
        } else {
            Ok(())
        }
    });
    let outcome = outcome.and_then(|()| engine.jobs.take_mismatch().map_or(Ok(()), Err));
    match &outcome {
        Ok(()) => engine.meter.result(&mut engine.jobs, control),
        // The counters up to the failure help to find its cause.
        Err(_) => engine.sample(clock::now(), control),
    }
    outcome
}

struct Engine<'r> {
    reactor: &'r Reactor,
    waiter: Waiter,
    jobs: Jobs<'r>,
    samples: Schedule,
    meter: Meter,
    /// Whether a `stop` has arrived.
    stopped: bool,
}

impl<'r> Engine<'r> {
    fn new(config: &BackupConfig, reactor: &'r Reactor) -> Result<Engine<'r>, Failure> {
        let mut seed = [0; 8];
        entropy::fill(&mut seed);
        let settings = Settings {
            keys: config.login,
            chap: config.chap.as_ref().map(secret::chap).transpose()?,
            timeout: Duration::from_secs_f64(config.command_timeout_s),
            tape_timeout: Duration::from_secs_f64(config.tape_command_timeout_s),
            seed: u64::from_ne_bytes(seed),
        };
        let on_disks = config.jobs.iter().filter(|job| job.disks.is_some());
        let descriptors = config.sessions() + 2 * on_disks.count();
        process::reserve_descriptors(descriptors as u64).or_environment(
            "open two sockets for every stream, or two disks for a job",
            "raise the limit with `ulimit -n`, or use fewer jobs or streams",
        )?;
        Ok(Engine {
            reactor,
            waiter: Waiter::sleeping(EVENTS),
            jobs: Jobs::new(reactor, config, &settings)?,
            samples: Schedule::new(config.sample_interval_ms)?,
            meter: Meter::default(),
            stopped: false,
        })
    }

    /// Logs every job in and sends `ready`. Returns `false` if a `stop` arrived.
    fn prepare(&mut self, control: &mut Control) -> Result<bool, Failure> {
        self.jobs.open_more();
        while !self.jobs.all_ready() {
            match self.turn(control, Time::MAX)? {
                Some(Order::Stop) => return Ok(false),
                Some(Order::Start(_)) => {
                    let message = "order `start` arrived before `ready`";
                    return Err(Failure::usage(message, "send `start` after `ready`"));
                }
                None => self.jobs.open_more(),
            }
        }
        self.jobs.mount(clock::now());
        while !self.jobs.all_mounted() {
            match self.turn(control, Time::MAX)? {
                Some(Order::Stop) => return Ok(false),
                Some(Order::Start(_)) => {
                    let message = "order `start` arrived before `ready`";
                    return Err(Failure::usage(message, "send `start` after `ready`"));
                }
                None => {}
            }
        }
        control.ready(self.jobs.facts());
        Ok(true)
    }

    /// Runs the jobs from `ready` to the last logout.
    fn work(&mut self, config: &BackupConfig, control: &mut Control) -> Result<(), Failure> {
        if let Some(start) = self.wait_for_start(control)? {
            self.copy(config, start, control)?;
            if !self.stopped && config.jobs.iter().any(|job| job.verify) {
                self.verify(control)?;
            }
            self.sample(clock::now(), control);
        }
        self.log_out(control)
    }

    /// Waits for the instant of `start`, and keeps the sessions alive meanwhile. Returns `None`
    /// after a `stop`.
    fn wait_for_start(&mut self, control: &mut Control) -> Result<Option<Time>, Failure> {
        let mut start = Time::MAX;
        loop {
            match self.turn(control, start)? {
                Some(Order::Stop) => return Ok(None),
                Some(Order::Start(at)) => start = at.max(clock::now()),
                None => {}
            }
            if clock::now() >= start {
                return Ok(Some(start));
            }
        }
    }

    /// Runs the phases `measure` and `drain`.
    fn copy(
        &mut self,
        config: &BackupConfig,
        start: Time,
        control: &mut Control,
    ) -> Result<(), Failure> {
        self.samples.start(start);
        self.enter("measure", control);
        let begun = clock::now();
        let limit = match config.time_limit_s {
            0.0 => Time::MAX,
            seconds => begun + Duration::from_secs_f64(seconds),
        };
        self.jobs.begin(begun);
        while !self.jobs.all_copied() && clock::now() < limit && !self.stopped {
            self.jobs.take_turns(clock::now());
            self.step(control, limit)?;
        }
        self.enter("drain", control);
        self.jobs.for_each(clock::now(), |job, now, _| job.end(now));
        while !self.jobs.all_copied() {
            self.step(control, Time::MAX)?;
        }
        Ok(())
    }

    fn verify(&mut self, control: &mut Control) -> Result<(), Failure> {
        self.enter("verify", control);
        self.jobs.verify(clock::now());
        while !self.jobs.all_verified() && !self.stopped {
            self.jobs.take_turns_to_verify(clock::now());
            self.step(control, Time::MAX)?;
        }
        Ok(())
    }

    /// Begins a phase, and takes a sample at the same instant.
    fn enter(&mut self, phase: &str, control: &mut Control) {
        let now = clock::now();
        self.samples.due(now);
        self.sample(now, control);
        if phase == "measure" {
            self.meter.begin(now);
        } else {
            self.meter.end(now);
        }
        control.phase(phase, now);
    }

    /// Runs one turn of the loop, at most until the next sample or `until`.
    fn step(&mut self, control: &mut Control, until: Time) -> Result<(), Failure> {
        let until = until.min(self.samples.next().unwrap_or(Time::MAX));
        if self.turn(control, until)? == Some(Order::Stop) {
            self.stopped = true;
        }
        let now = clock::now();
        if self.samples.due(now) {
            self.sample(now, control);
        }
        Ok(())
    }

    fn sample(&mut self, now: Time, control: &mut Control) {
        self.meter.sample(now, &mut self.jobs, control);
    }

    fn log_out(&mut self, control: &mut Control) -> Result<(), Failure> {
        let patience = clock::now() + LOGOUT_PATIENCE;
        self.jobs.for_each(clock::now(), Job::log_out);
        while !self.jobs.all_logged_out() && clock::now() < patience {
            self.turn(control, patience)?;
        }
        Ok(())
    }

    /// Waits for events until `until` and serves them. Returns the order that arrived, if any.
    fn turn(&mut self, control: &mut Control, until: Time) -> Result<Option<Order>, Failure> {
        let until = until.min(self.jobs.poll_timeout());
        control.wait(
            self.reactor,
            &mut self.waiter,
            (until < Time::MAX).then_some(until),
        )?;
        for event in self.waiter.events() {
            if !control.handle_event(event)? {
                self.jobs.handle_event(event);
            }
        }
        self.jobs.handle_timeouts();
        if let Some(failure) = self.jobs.take_fatal() {
            return Err(failure);
        }
        Ok(control.poll_order())
    }
}
