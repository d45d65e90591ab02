//! The `packets` engine: sends test frames from interfaces and counts them where they arrive.
//!
//! One thread per sending port follows the schedule of a trial (`transmit.rs`), one per receiving
//! port reads the ring (`receive.rs`). The main thread speaks the contract. It carries out one trial
//! after the other (`trials.rs`): all receivers begin, all senders send, the frames under way
//! arrive, all receivers finish. Meanwhile one thread per processor finds its stops (`stops.rs`).
//! Threads report through one channel, which wakes the main thread.
//! The core (`hakaru_packets`) decides what is sent when, and counts.
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver};

use hakaru_contract::PacketsConfig;
use hakaru_packets::Plan;
use hakaru_runtime::process::{avoid_processors, entropy};
use hakaru_runtime::{Reactor, Token, Waiter, Waker, clock};
use serde_json::json;

use crate::control::{Control, Order};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;

mod figures;
mod methods;
mod ports;
mod receive;
mod report;
mod stops;
mod transmit;
mod trials;

use report::{Report, Reporter};
use stops::StopWatch;
use trials::Trials;

const REPORTS: Token = Token(0);
/// Upper half of the mark in every frame, "hk". The lower half is drawn, so that engines whose
/// frames meet in one network do not count each other's.
const MARK: u32 = 0x686b_0000;

/// Runs the engine until `stop`.
///
/// # Errors
/// The configuration is invalid. An interface does not exist, is down, may not be opened, or has too
/// small an MTU.
pub fn run(
    config: &PacketsConfig,
    reactor: &Reactor,
    control: &mut Control,
) -> Result<(), Failure> {
    let plan = Plan::new(config).map_err(|error| Failure::usage(&error, &error.hint))?;
    let mut samples = Schedule::new(config.sample_interval_ms)?;
    // Before this process leaves processors to the device, which are watched, too.
    let stop_watch = StopWatch::new();
    // Before the threads of the ports exist, which inherit it.
    avoid_processors(&config.avoid_processors).or_environment(
        "leave processors to the device",
        "leave out the pinning of the guest",
    )?;
    let waker = Waker::new(reactor, REPORTS).or_environment(
        "create an event descriptor",
        "raise the limit of open files",
    )?;
    let (send, reports) = mpsc::channel();
    let reporter = Reporter::new(send, waker.clone());
    let mut drawn = [0; 2];
    entropy::fill(&mut drawn);
    let mark = MARK | u32::from(u16::from_ne_bytes(drawn));
    let ports = ports::open(config, &plan, mark, &reporter)?;
    let found: Vec<_> = ports.iter().map(ports::Port::describe).collect();
    let mut trials = Trials::new(config, plan, ports, stop_watch);
    control.accept_trials();
    control.ready(BTreeMap::from([("ports".to_owned(), json!(found))]));
    let mut waiter = Waiter::sleeping(8);
    loop {
        control.wait(reactor, &mut waiter, samples.next())?;
        for event in waiter.events() {
            if !control.handle_event(event)? && event.token == REPORTS {
                waker.acknowledge();
            }
        }
        take_reports(&reports, &mut trials, control)?;
        while let Some(order) = control.poll_trial() {
            trials.queue(order);
        }
        while let Some(order) = control.poll_order() {
            match order {
                Order::Start(at) => {
                    let at = at.max(clock::now());
                    samples.start(at);
                    trials.start(at);
                }
                Order::Stop => return finish(&mut trials, control),
            }
        }
        trials.proceed(control);
        let now = clock::now();
        if samples.due(now) {
            control.sample(now, trials.counters(), Vec::new());
        }
    }
}

fn take_reports(
    reports: &Receiver<Report>,
    trials: &mut Trials,
    control: &Control,
) -> Result<(), Failure> {
    while let Ok(report) = reports.try_recv() {
        trials.handle(report?, control);
    }
    Ok(())
}

/// Reports the sums of all counters.
fn finish(trials: &mut Trials, control: &Control) -> Result<(), Failure> {
    let now = clock::now();
    let counters = trials.counters();
    control.sample(now, counters.clone(), Vec::new());
    let mut values = BTreeMap::new();
    for (name, value) in counters.into_values().flatten() {
        *values.entry(name).or_insert(0.0) += value;
    }
    control.result(now, values, Vec::new());
    Ok(())
}
