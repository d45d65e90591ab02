//! The `backup` engine: image backup jobs in one thread, each over iSCSI sessions of its own.
//!
//! 1. check the configuration, log in and survey every LU, see that every image fits: `ready`;
//! 2. at the instant of `start` every job begins: `measure`, until all are done, the time is over or `stop` comes; then `drain`: what was read is
//!    written and flushed;
//! 3. `verify`: the copies that are to be are read back and compared; not after a `stop`;
//! 4. the sessions log out: `result`.
//!
//! A job that fails ends the engine with an error that names it: what the others did without it is
//! no measurement. Compression and digests are done by the same thread, as its CPU time tells.
mod failures;
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

/// Events taken from the reactor at a time.
const EVENTS: usize = 256;
/// Time for sessions to log out; targets that do not answer are left.
const LOGOUT_PATIENCE: Duration = Duration::from_secs(3);

/// Is the `backup` engine until its work is done.
///
/// # Errors
/// A configuration that cannot be, LUs that do not fit, a lost session, a read or write that
/// failed, a copy that differs.
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
        // Counters until the failure are evidence.
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
    /// Told to stop.
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
            seed: u64::from_ne_bytes(seed),
        };
        process::reserve_descriptors(config.sessions() as u64).or_environment(
            "hold two sockets for every stream",
            "raise it with `ulimit -n`, or use fewer jobs or streams",
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

    /// Logs every job in, tells what was found. `false` if told to stop meanwhile.
    fn prepare(&mut self, control: &mut Control) -> Result<bool, Failure> {
        self.jobs.open_more();
        while !self.jobs.all_ready() {
            match self.turn(control, Time::MAX)? {
                Some(Order::Stop) => return Ok(false),
                Some(Order::Start(_)) => {
                    return Err(Failure::usage("`start` before `ready`", "wait for `ready`"));
                }
                None => self.jobs.open_more(),
            }
        }
        control.ready(self.jobs.found());
        Ok(true)
    }

    /// From `ready` to the last logout.
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

    /// Sessions are kept alive until the instant has come. `None` if told to stop meanwhile.
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

    /// `measure` and `drain`.
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
        self.jobs.each(begun, |job, now, _| job.begin(now));
        while !self.jobs.all_copied() && clock::now() < limit && !self.stopped {
            self.step(control, limit)?;
        }
        self.enter("drain", control);
        self.jobs.each(clock::now(), |job, now, _| job.end(now));
        while !self.jobs.all_copied() {
            self.step(control, Time::MAX)?;
        }
        Ok(())
    }

    fn verify(&mut self, control: &mut Control) -> Result<(), Failure> {
        self.enter("verify", control);
        self.jobs.each(clock::now(), |job, now, _| job.verify(now));
        while !self.jobs.all_verified() && !self.stopped {
            self.step(control, Time::MAX)?;
        }
        Ok(())
    }

    /// A phase begins; counters change phase on the same instant.
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

    /// A turn of the loop, not longer than until the next sample or `until`.
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
        self.jobs.each(clock::now(), Job::log_out);
        while !self.jobs.all_logged_out() && clock::now() < patience {
            self.turn(control, patience)?;
        }
        Ok(())
    }

    /// Waits until something happens or `until` has come, and serves what happened. Gives the order
    /// that came, if one did.
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
