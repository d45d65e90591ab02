//! The trials: one after the other, each in four stages.
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hakaru_contract::trial::ProcessorStops;
use hakaru_contract::{PacketsConfig, PortOutcome, TrialOrder};
use hakaru_packets::{Excluded, Plan, PortFigures, Received, Sender, Sent, Trial, outcome};
use hakaru_runtime::clock;
use hakaru_units::Time;

use super::figures::{Drops, drops_by_interface, visit_port};
use super::ports::Port;
use super::receive::ReceiveOrder;
use super::report::Progress;
use super::stops::StopWatch;
use super::transmit::TransmitOrder;
use crate::control::{Control, Counters};
use crate::failure::Failure;

/// Time from the order to the due instant of the first frames, in which all sending threads wake.
const START_LEAD: Duration = Duration::from_millis(20);

/// Ports, and the trials that were ordered.
pub(super) struct Trials {
    names: Vec<String>,
    plan: Plan,
    ports: Vec<Port>,
    /// `None` if stops of processors cannot be found.
    stop_watch: Option<StopWatch>,
    /// Drops when the engine was ready, by interface.
    drops_before: BTreeMap<String, Drops>,
    queued: VecDeque<TrialOrder>,
    current: Option<Running>,
    /// Instant of `start`.
    start: Option<Time>,
    started: u64,
    finished: u64,
}

/// A trial that is carried out.
struct Running {
    trial: Trial,
    stage: Stage,
    /// Number of threads whose report ends the stage.
    awaited: usize,
    begin: Time,
    end: Time,
    sent: Vec<Sent>,
    received: Vec<Received>,
    figures: Vec<PortFigures>,
    drops_before: BTreeMap<String, Drops>,
    stops: Option<ProcessorStops>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Receivers begin.
    Begin,
    /// Senders send.
    Send,
    /// Frames under way arrive, and receivers finish.
    Settle,
}

impl Trials {
    pub(super) fn new(
        config: &PacketsConfig,
        plan: Plan,
        ports: Vec<Port>,
        stop_watch: Option<StopWatch>,
    ) -> Trials {
        Trials {
            names: config.streams.iter().map(|s| s.name.clone()).collect(),
            plan,
            ports,
            stop_watch,
            drops_before: drops_by_interface(),
            queued: VecDeque::new(),
            current: None,
            start: None,
            started: 0,
            finished: 0,
        }
    }

    /// Adds a trial after those that were ordered before.
    pub(super) fn queue(&mut self, order: TrialOrder) {
        self.queued.push_back(order);
    }

    /// Lets trials begin from `at` on.
    pub(super) fn start(&mut self, at: Time) {
        self.start = Some(at);
    }

    /// Begins the next trial, if none is running.
    pub(super) fn proceed(&mut self, control: &Control) {
        if self.start.is_none() {
            return;
        }
        while self.current.is_none() {
            let Some(order) = self.queued.pop_front() else {
                return;
            };
            // Tags have the lower 16 bits of the number.
            match self.plan.trial(&order, self.started as u16) {
                Ok(trial) => self.begin(trial),
                Err(error) => {
                    control.reply(order.id, Err(Failure::usage(&error, &error.hint)));
                }
            }
        }
    }

    fn begin(&mut self, trial: Trial) {
        self.started += 1;
        let figures = self.ports.iter().map(|port| PortFigures {
            outcome: PortOutcome {
                name: port.name.clone(),
                tx_dropped: 0,
                refused: 0,
                rx_dropped: 0,
                ring_dropped: 0,
                foreign: 0,
                late: 0,
                transmit_cpu_ns: 0,
                receive_cpu_ns: 0,
            },
            receives: port.reception.is_some(),
            // Drops of a port that sends no test frames do not concern the trial.
            hands_over: port.hands_over || port.transmitter.is_none(),
        });
        let figures = figures.collect();
        let mut awaited = 0;
        for reception in self.ports.iter().filter_map(|port| port.reception.as_ref()) {
            reception.order(ReceiveOrder::Begin(trial.clone()));
            awaited += 1;
        }
        self.current = Some(Running {
            trial,
            stage: Stage::Begin,
            awaited,
            begin: Time::ZERO,
            end: Time::ZERO,
            sent: Vec::new(),
            received: Vec::new(),
            figures,
            drops_before: BTreeMap::new(),
            stops: None,
        });
    }

    /// Handles the report of a thread.
    pub(super) fn handle(&mut self, progress: Progress, control: &Control) {
        // Threads report only what a running trial asked them for.
        let Some(running) = &mut self.current else {
            return;
        };
        match progress {
            Progress::Begun => {}
            Progress::Sent {
                port,
                streams,
                refused,
                cpu_ns,
            } => {
                running.sent.extend(streams);
                let outcome = &mut running.figures[port].outcome;
                (outcome.refused, outcome.transmit_cpu_ns) = (refused, cpu_ns);
            }
            Progress::Received {
                port,
                counts,
                ring_dropped,
                cpu_ns,
            } => {
                running.received.extend(counts.streams);
                let outcome = &mut running.figures[port].outcome;
                (outcome.ring_dropped, outcome.receive_cpu_ns) = (ring_dropped, cpu_ns);
                (outcome.foreign, outcome.late) = (counts.foreign, counts.late);
            }
        }
        running.awaited -= 1;
        if running.awaited > 0 {
            return;
        }
        match running.stage {
            Stage::Begin => self.send(),
            Stage::Send => self.settle(),
            Stage::Settle => self.finish(control),
        }
    }

    fn send(&mut self) {
        let Some(running) = &mut self.current else {
            return;
        };
        running.stage = Stage::Send;
        running.drops_before = drops_by_interface();
        running.begin = (clock::now() + START_LEAD).max(self.start.unwrap_or(Time::ZERO));
        for (index, port) in self.ports.iter().enumerate() {
            let Some(transmitter) = &port.transmitter else {
                continue;
            };
            let leaving = self.plan.leaving(index);
            transmitter.send(TransmitOrder {
                sender: Sender::new(&running.trial, &leaving, running.begin),
                trial: running.trial.number(),
                late_limit: Duration::from_nanos(running.trial.late_limit_ns()),
            });
            running.awaited += 1;
        }
        if let Some(stop_watch) = &self.stop_watch {
            stop_watch.begin();
        }
    }

    fn settle(&mut self) {
        let Some(running) = &mut self.current else {
            return;
        };
        running.stage = Stage::Settle;
        let stops = self.stop_watch.as_ref().map(StopWatch::finish);
        let found = stops.as_deref().unwrap_or_default();
        let excluded = Excluded::new(found, running.begin, running.trial.duration_ns());
        running.stops = stops.map(|_| excluded.describe());
        let quiet = Duration::from_nanos(running.trial.settle_ns());
        for reception in self.ports.iter().filter_map(|port| port.reception.as_ref()) {
            reception.order(ReceiveOrder::Finish {
                quiet,
                excluded: excluded.clone(),
            });
            running.awaited += 1;
        }
    }

    fn finish(&mut self, control: &Control) {
        let Some(mut running) = self.current.take() else {
            return;
        };
        self.finished += 1;
        running.end = clock::now();
        let drops = drops_by_interface();
        let of = |drops: &BTreeMap<String, Drops>, port: &Port| {
            drops.get(&port.interface).copied().unwrap_or_default()
        };
        for (port, figures) in self.ports.iter().zip(&mut running.figures) {
            let (before, after) = (of(&running.drops_before, port), of(&drops, port));
            figures.outcome.tx_dropped = after.tx.saturating_sub(before.tx);
            figures.outcome.rx_dropped = after.rx.saturating_sub(before.rx);
        }
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        control.trial(outcome(
            &running.trial,
            &names,
            (running.begin, running.end),
            &running.sent,
            &running.received,
            &running.figures,
            running.stops,
        ));
    }

    /// Returns the counters of a sample.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = Counters::new();
        let drops = drops_by_interface();
        for port in &self.ports {
            let of = |drops: &BTreeMap<String, Drops>| {
                drops.get(&port.interface).copied().unwrap_or_default()
            };
            let (before, after) = (of(&self.drops_before), of(&drops));
            let since = Drops {
                tx: after.tx.saturating_sub(before.tx),
                rx: after.rx.saturating_sub(before.rx),
            };
            visit_port(port, since, &mut counters);
        }
        let trials = [("started", self.started), ("finished", self.finished)];
        let trials = trials.map(|(name, value)| (name.to_owned(), value as f64));
        counters.insert("trials".to_owned(), trials.into());
        counters
    }
}
