//! The `initiator` engine: many VMs in one thread, each over its own iSCSI sessions or on a file or
//! block device.
//!
//! 1. Check the configuration, log in (a bounded number of sessions at a time), survey every LU,
//!    and open every file. Then send `ready`.
//! 2. At the instant of `start`, every VM begins. The phases are `warmup`, `measure` and `drain`,
//!    with a sample per interval and at each border between phases.
//! 3. Requests in flight end and sessions log out. Then send `result`.
//!
//! A VM with several paths survives the loss of some; see [`hakaru_load::MultipathHost`]. If a VM
//! loads a device of dm-multipath, the kernel directs the paths, and the engine reports what it shows
//! of them.
//!
//! A VM that is lost ends the engine at once with an error that names it, because results without
//! that VM are not a valid measurement.
mod failures;
mod files;
mod host;
mod kernel_paths;
mod ledger;
mod meter;
mod phases;
mod sessions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hakaru_contract::initiator::{Destination, InitiatorConfig, Load};
use hakaru_load::{CommandLimits, Payload, Settings};
use hakaru_runtime::wait::{Coalescing, WakeAhead};
use hakaru_runtime::{Reactor, WaitPolicy, Waiter, clock, process};
use hakaru_units::Time;
use serde_json::{Value, json};

use self::failures::usage_of;
use self::files::Files;
use self::ledger::Ledger;
use self::meter::Meter;
use self::phases::{Phase, Phases};
use self::sessions::Sessions;
use crate::control::{Control, Order};
use crate::failure::{Failure, OrEnvironment};
use crate::secret;

/// Maximum number of events taken from the reactor at a time.
const EVENTS: usize = 1024;
/// Longest time for which a lone busy socket is polled before sleeping. Falling asleep and waking
/// up costs the cores of both ends about as much time, and it delays the response.
const LINGER: Duration = Duration::from_micros(10);
/// Time for sessions to log out. Targets that do not answer in time are abandoned.
const LOGOUT_PATIENCE: Duration = Duration::from_secs(3);

/// Runs the `initiator` engine until its work is done.
///
/// # Errors
/// Returns the failure that makes the load impossible or its results invalid: an invalid
/// configuration, a lost session, or wrong data.
pub fn run(
    config: &InitiatorConfig,
    reactor: &Reactor,
    control: &mut Control,
) -> Result<(), Failure> {
    config.validate().map_err(|e| usage_of(&e))?;
    let mut engine = Engine::new(config, reactor)?;
    let outcome = engine.prepare(config, control).and_then(|ready| {
        if ready {
            engine.load(config, control)
        } else {
            Ok(())
        }
    });
    if outcome.is_err() {
        // The counters up to the failure help to find its cause.
        engine.sample(clock::now(), true, control);
    } else {
        engine.meter.result(&engine.ledger.latencies, control);
    }
    outcome
}

/// Returns whether requests of any VM arrive at instants of their own.
fn has_arrivals(config: &InitiatorConfig) -> bool {
    let mut loads = config.vms.iter().map(|vm| &vm.load);
    loads.any(|load| matches!(load, Load::Open { .. }))
}

struct Engine<'r> {
    reactor: &'r Reactor,
    waiter: Waiter,
    sessions: Sessions<'r>,
    files: Files,
    ledger: Ledger,
    meter: Meter,
    /// Wake-ups ahead of the arrivals of open loads; `None` if all loads are closed.
    wake_ahead: Option<WakeAhead>,
    /// Instant at which the last turn finished serving its events.
    now: Time,
}

impl<'r> Engine<'r> {
    fn new(config: &InitiatorConfig, reactor: &'r Reactor) -> Result<Engine<'r>, Failure> {
        let settings = Arc::new(Settings {
            keys: config.login,
            chap: config.chap.as_ref().map(secret::chap).transpose()?,
            timeout: Duration::from_secs_f64(config.command_timeout_s),
            payload: Payload::new(config.longest_request_bytes(), config.vms[0].seed),
            // Derived from the clock, so that the stamps of two runs with the same seed differ.
            verify_run: config.verify.then(|| (clock::now().as_ns() >> 10) as u32),
            commands: CommandLimits::of(config),
        });
        let options = config.socket.clone();
        let multipath = config.multipath.as_deref();
        let sessions = Sessions::new(reactor, &settings, options, &config.vms, multipath)?;
        let mut files = Files::new(reactor, settings)?;
        for (index, vm) in config.vms.iter().enumerate() {
            if matches!(vm.destination, Destination::File { .. }) {
                files.add(vm, index)?;
            }
        }
        process::reserve_descriptors(sessions.sessions() as u64).or_environment(
            "open a socket for every session",
            "raise the limit with `ulimit -n`, or use fewer VMs or sessions",
        )?;
        let policy = WaitPolicy::Adaptive { linger: LINGER };
        let coalescing = Coalescing::new(
            Duration::from_micros(config.coalesce_us.into()),
            config.coalesce_percent / 100.0,
        );
        Ok(Engine {
            reactor,
            waiter: Waiter::new(policy, sessions.sessions() as u64, EVENTS)
                .with_coalescing(coalescing),
            sessions,
            files,
            ledger: Ledger::default(),
            meter: Meter::new(config),
            wake_ahead: has_arrivals(config).then(WakeAhead::default),
            now: Time::ZERO,
        })
    }

    /// Logs every VM in and sends `ready`. Returns `false` if a `stop` arrived.
    fn prepare(
        &mut self,
        config: &InitiatorConfig,
        control: &mut Control,
    ) -> Result<bool, Failure> {
        self.sessions.open_more(&mut self.ledger);
        while !self.sessions.all_ready() {
            match self.turn(control, Time::MAX)? {
                Some(Order::Stop) => return Ok(false),
                Some(Order::Start(_)) => {
                    let message = "order `start` arrived before `ready`";
                    return Err(Failure::usage(message, "send `start` after `ready`"));
                }
                None => self.sessions.open_more(&mut self.ledger),
            }
        }
        let mut facts: BTreeMap<String, Value> = self.sessions.facts();
        facts.extend(self.files.facts());
        facts.insert(
            "vms".to_owned(),
            json!(self.sessions.vms() + self.files.count()),
        );
        if config.real_time {
            let found = process::request_real_time(1);
            facts.insert("real_time".to_owned(), json!(found));
        }
        control.accept_measure_orders();
        control.ready(facts);
        Ok(true)
    }

    /// Runs the load from `ready` to the last logout.
    fn load(&mut self, config: &InitiatorConfig, control: &mut Control) -> Result<(), Failure> {
        if let Some(start) = self.wait_for_start(control)? {
            let mut phases = Phases::new(config, start)?;
            self.pass_border(clock::now(), &mut phases, control);
            self.sessions.begin(&mut self.ledger);
            self.files.begin(&mut self.ledger);
            while let Some(border) = phases.next_border() {
                self.coalesce_answers(border);
                let order = self.turn(control, border)?;
                if order == Some(Order::Stop) {
                    phases.stop();
                }
                if let Some(at) = control.poll_measure_order() {
                    phases.measure_from(at.max(self.now));
                }
                if self.now >= border || order == Some(Order::Stop) {
                    self.pass_border(clock::now(), &mut phases, control);
                }
            }
            self.drain(control)?;
            self.sample(clock::now(), true, control);
        }
        self.log_out(control)
    }

    /// Pauses so that one wait returns several responses; see [`Coalescing`]. Ends at `until` or
    /// the next timer.
    fn coalesce_answers(&self, until: Time) {
        let until = until
            .min(self.sessions.poll_timeout())
            .min(self.files.poll_timeout());
        let recent_ns = self.ledger.latencies.recent_ns();
        self.waiter.coalesce(self.now, recent_ns, until);
    }

    /// Takes the sample at a border, and begins the phase that starts there, at the same instant.
    fn pass_border(&mut self, now: Time, phases: &mut Phases, control: &mut Control) {
        self.sample(now, false, control);
        if let Some(phase) = phases.pass(now) {
            self.meter.enter(phase, now);
            match phase {
                Phase::Warmup => {}
                Phase::Measure => {
                    self.sessions.measure(now);
                    self.files.measure(now);
                }
                Phase::Drain => {
                    self.sessions.end(now, &mut self.ledger);
                    self.files.end(now, &mut self.ledger);
                }
            }
            control.phase(phase.name(), now);
        }
    }

    fn sample(&mut self, now: Time, last: bool, control: &mut Control) {
        self.meter.sample(
            now,
            last,
            &mut self.sessions,
            &mut self.files,
            &mut self.ledger.latencies,
            control,
        );
    }

    /// Waits for the instant of `start`, and keeps the sessions alive meanwhile. Returns `None`
    /// after a `stop`.
    fn wait_for_start(&mut self, control: &mut Control) -> Result<Option<Time>, Failure> {
        let mut start = Time::MAX;
        loop {
            match self.turn(control, start)? {
                Some(Order::Stop) => return Ok(None),
                // An instant in the past means now (contract). The events of the phases report the
                // actual instant.
                Some(Order::Start(at)) => start = at.max(clock::now()),
                None => {}
            }
            if clock::now() >= start {
                return Ok(Some(start));
            }
        }
    }

    /// Waits until the requests in flight have ended or timed out; no new ones are issued. A `stop`
    /// that arrives meanwhile ends the wait, because a silent target must not hold up the
    /// engine for the command timeout.
    fn drain(&mut self, control: &mut Control) -> Result<(), Failure> {
        while self.sessions.in_flight() + self.files.in_flight() > 0 {
            if self.turn(control, Time::MAX)? == Some(Order::Stop) {
                break;
            }
        }
        Ok(())
    }

    fn log_out(&mut self, control: &mut Control) -> Result<(), Failure> {
        let patience = clock::now() + LOGOUT_PATIENCE;
        self.sessions.log_out(&mut self.ledger);
        while !self.sessions.all_ended() && clock::now() < patience {
            self.turn(control, patience)?;
        }
        Ok(())
    }

    /// Waits for events until `until` and serves them. Returns the order that arrived, if any.
    fn turn(&mut self, control: &mut Control, until: Time) -> Result<Option<Order>, Failure> {
        let until = until
            .min(self.sessions.poll_timeout())
            .min(self.files.poll_timeout());
        let begun = clock::now();
        let wake = match &mut self.wake_ahead {
            Some(wake_ahead) if until < Time::MAX => wake_ahead.wake_for(begun, until),
            _ => until,
        };
        control.wait(
            self.reactor,
            &mut self.waiter,
            (wake < Time::MAX).then_some(wake),
        )?;
        let mut received = false;
        if let Some(wake_ahead) = &mut self.wake_ahead
            && self.waiter.events().next().is_none()
        {
            wake_ahead.woke(clock::now());
        }
        for event in self.waiter.events() {
            if !control.handle_event(event)? && !self.files.handle_event(event) {
                received |= self.sessions.handle_event(event, &mut self.ledger);
            }
        }
        received = received || self.linger(until);
        self.now = clock::now();
        if !received && wake <= begun && begun < until {
            process::count_busy_poll(Duration::from_nanos(self.now.ns_since(begun)));
        }
        self.waiter.end_turn(self.now, received, false);
        self.sessions.handle_timeouts(self.now, &mut self.ledger);
        self.files.serve(&mut self.ledger);
        self.ledger.report(control)?;
        Ok(control.poll_order())
    }

    /// Polls for a short time after a wrong guess. Returns whether a session received data.
    fn linger(&mut self, until: Time) -> bool {
        let (sessions, ledger) = (&mut self.sessions, &mut self.ledger);
        self.waiter.linger(until, |events| {
            events
                .iter()
                .any(|event| sessions.handle_event(event, ledger))
        })
    }
}
