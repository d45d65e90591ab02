//! The engine's side of the contract: reads orders from stdin and writes events to stdout, apart
//! from the data path.
//!
//! A shell owns its loop. It waits on the [`Reactor`], passes every event to
//! [`Control::handle_event`], and handles the events that do not belong to the control plane. Then
//! it calls [`Control::poll_order`]:
//!
//! ```text
//! loop {
//!     control.wait(reactor, &mut waiter, next_deadline)?;
//!     for event in waiter.events() {
//!         if control.handle_event(event)? { continue; }
//!         … the shell's own descriptors …
//!     }
//!     while let Some(order) = control.poll_order() {
//!         match order { Start(at) => …, Stop => return … }
//!     }
//! }
//! ```
use std::collections::{BTreeMap, VecDeque};
use std::io;

use hakaru_contract::{
    CONTRACT_VERSION, Command, EngineConfig, Event, ManageAction, NamedHistogram, ReplyError,
    Sample, TrialOrder, TrialOutcome,
};
use hakaru_runtime::process::lines::{LineReader, LineWriter};
use hakaru_runtime::process::{self, ResourceUse, TerminationSignal};
use hakaru_runtime::{Interest, Reactor, Token, Waiter, Waker};
use hakaru_units::Time;
use serde_json::{Value, json};

use crate::failure::{Failure, OrEnvironment};

const STDIN: Token = Token(Token::RESERVED.0);
const SIGNAL: Token = Token(Token::RESERVED.0 + 1);
const STDOUT_BROKEN: Token = Token(Token::RESERVED.0 + 2);

/// Counters of one sample: entity → name → value.
pub type Counters = BTreeMap<String, BTreeMap<String, f64>>;

/// Order of the control plane to a configured engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Begin at this instant, or now if it has passed.
    Start(Time),
    /// End cleanly. Delivered once, as the last order.
    Stop,
}

/// Order to take a link down or up, to be answered with [`Control::reply`] under its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOrder {
    pub id: u64,
    pub link: String,
    pub up: bool,
}

/// Received orders, and events to be written.
pub struct Control {
    input: LineReader,
    /// Whether stdin is a regular file or similar, which is always readable and cannot be polled.
    input_unpollable: bool,
    /// Whether the reactor watches stdin.
    input_watched: bool,
    output: LineWriter<Line>,
    output_waker: Waker,
    signal: TerminationSignal,
    configured: Option<EngineConfig>,
    orders: VecDeque<Order>,
    /// Orders of the operator, if this engine accepts any now.
    operator_orders: Option<VecDeque<(u64, ManageAction)>>,
    /// Numbers of the requests for counters, if this engine answers any now.
    count_orders: Option<VecDeque<u64>>,
    /// Orders that concern links, if this engine carries them out now.
    link_orders: Option<VecDeque<LinkOrder>>,
    /// Instant at which the warm-up is to end, if this engine can end it early.
    measure_order: Option<Option<Time>>,
    /// Orders of trials, if this engine carries them out.
    trial_orders: Option<VecDeque<TrialOrder>>,
    stopped: bool,
}

impl Control {
    /// Opens the standard streams and sends `hello`.
    ///
    /// # Errors
    /// The streams are closed, or no descriptor or thread is available.
    pub fn open(reactor: &Reactor, signal: TerminationSignal) -> Result<Control, Failure> {
        let hint = "start the engine with stdin and stdout open";
        let opened = || -> io::Result<Control> {
            let input = LineReader::new(process::duplicate(io::stdin())?);
            let output_waker = Waker::new(reactor, STDOUT_BROKEN)?;
            let output = LineWriter::spawn(
                process::duplicate(io::stdout())?,
                encode_line,
                output_waker.clone(),
            )?;
            reactor.register(&signal, SIGNAL, Interest::Level)?;
            let input_unpollable =
                match reactor.register(input.descriptor(), STDIN, Interest::Level) {
                    Err(e) if e.kind() == io::ErrorKind::PermissionDenied => true,
                    other => other.map(|()| false)?,
                };
            Ok(Control {
                input,
                input_unpollable,
                input_watched: !input_unpollable,
                output,
                output_waker,
                signal,
                configured: None,
                orders: VecDeque::new(),
                operator_orders: None,
                count_orders: None,
                link_orders: None,
                measure_order: None,
                trial_orders: None,
                stopped: false,
            })
        };
        let control = opened().or_environment("set up stdin and stdout", hint)?;
        control.send_event(Event::Hello {
            contract: CONTRACT_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        });
        Ok(control)
    }

    /// Waits for the configuration. Returns `None` if stdin or the engine ended first.
    ///
    /// # Errors
    /// Another order arrived first, or the control plane uses another version of the contract.
    pub fn configure(&mut self, reactor: &Reactor) -> Result<Option<EngineConfig>, Failure> {
        let mut waiter = Waiter::sleeping(4);
        loop {
            self.wait(reactor, &mut waiter, None)?;
            for event in waiter.events() {
                self.handle_event(event)?;
            }
            if self.configured.is_some() {
                return Ok(self.configured.take());
            }
            match self.poll_order() {
                Some(Order::Stop) => return Ok(None),
                Some(Order::Start(_)) => {
                    return Err(Failure::usage(
                        "order `start` arrived before `configure`",
                        "send `configure` first",
                    ));
                }
                None => {}
            }
        }
    }

    /// Begins a turn of a shell's loop. Waits for events as [`Waiter`] decides, at most until
    /// `until`, and reads stdin if it cannot be polled.
    ///
    /// # Errors
    /// As [`Waiter::wait`].
    pub fn wait(
        &mut self,
        reactor: &Reactor,
        waiter: &mut Waiter,
        until: Option<Time>,
    ) -> Result<(), Failure> {
        if waiter.guess() {
            return Ok(());
        }
        if self.input_unpollable {
            self.read_input()?;
        }
        if self.stopped && std::mem::take(&mut self.input_watched) {
            // Orders after `stop` are ignored, and the end of stdin would wake the reactor again
            // and again.
            reactor
                .deregister(self.input.descriptor())
                .or_environment("stop watching stdin", "see dmesg")?;
        }
        let until = if self.has_orders() {
            Some(Time::ZERO)
        } else {
            until
        };
        waiter
            .wait(reactor, until)
            .or_environment("wait for events", "see dmesg")
    }

    /// Returns whether the shell has orders to fetch.
    fn has_orders(&self) -> bool {
        let operator_orders = self.operator_orders.as_ref();
        let count_orders = self.count_orders.as_ref();
        let link_orders = self.link_orders.as_ref();
        !self.orders.is_empty()
            || self.configured.is_some()
            || operator_orders.is_some_and(|orders| !orders.is_empty())
            || count_orders.is_some_and(|orders| !orders.is_empty())
            || link_orders.is_some_and(|orders| !orders.is_empty())
    }

    /// Handles the event if it belongs to the control plane. Returns `false` if it belongs to the
    /// shell.
    ///
    /// # Errors
    /// An invalid order, which ends the engine.
    pub fn handle_event(&mut self, event: hakaru_runtime::Event) -> Result<bool, Failure> {
        match event.token {
            STDIN => self.read_input()?,
            SIGNAL if self.signal.received() => self.stop(),
            STDOUT_BROKEN => {
                self.output_waker.acknowledge();
                // The control plane is gone, so the results have no reader.
                self.stop();
            }
            token => return Ok(token >= Token::RESERVED),
        }
        Ok(true)
    }

    /// Returns the next order.
    pub fn poll_order(&mut self) -> Option<Order> {
        if self.output.broken() {
            self.stop();
        }
        self.orders.pop_front()
    }

    /// Accepts orders of the operator from now on.
    pub fn accept_operator_orders(&mut self) {
        self.operator_orders.get_or_insert_default();
    }

    /// Returns the operator's next order, to be answered with [`Control::reply`] under its number.
    pub fn poll_operator_order(&mut self) -> Option<(u64, ManageAction)> {
        self.operator_orders.as_mut()?.pop_front()
    }

    /// Accepts requests for counters from now on.
    pub fn accept_count_orders(&mut self) {
        self.count_orders.get_or_insert_default();
    }

    /// Returns the number of the next request for counters, to be answered with
    /// [`Control::counted`]. A shell fetches all of them in every turn.
    pub fn poll_count_order(&mut self) -> Option<u64> {
        self.count_orders.as_mut()?.pop_front()
    }

    /// Accepts orders that concern links from now on.
    pub fn accept_link_orders(&mut self) {
        self.link_orders.get_or_insert_default();
    }

    /// Returns the next order that concerns a link. A shell fetches all of them in every turn.
    pub fn poll_link_order(&mut self) -> Option<LinkOrder> {
        self.link_orders.as_mut()?.pop_front()
    }

    /// Answers a request for counters.
    pub fn counted(&self, id: u64, counters: Counters) {
        let by_entity = counters.into_iter();
        let value = by_entity.map(|(entity, values)| (entity, json!(values)));
        self.reply(id, Ok(value.collect()));
    }

    /// Answers an order of the operator.
    pub fn reply(&self, id: u64, outcome: Result<BTreeMap<String, Value>, Failure>) {
        let (value, error) = match outcome {
            Ok(value) => (Some(value), None),
            Err(failure) => {
                let error = ReplyError {
                    class: failure.class,
                    message: failure.message,
                    hint: failure.hint,
                };
                (None, Some(error))
            }
        };
        self.send_event(Event::Reply { id, value, error });
    }

    /// Accepts orders to end the warm-up from now on.
    pub fn accept_measure_orders(&mut self) {
        self.measure_order.get_or_insert_default();
    }

    /// Returns the instant at which the warm-up is to end, once.
    pub fn poll_measure_order(&mut self) -> Option<Time> {
        self.measure_order.as_mut()?.take()
    }

    /// Accepts orders of trials from now on.
    pub fn accept_trials(&mut self) {
        self.trial_orders.get_or_insert_default();
    }

    /// Returns the next order of a trial, to be answered with [`Control::trial`], or with
    /// [`Control::reply`] under its number. A shell fetches all of them in every turn.
    pub fn poll_trial(&mut self) -> Option<TrialOrder> {
        self.trial_orders.as_mut()?.pop_front()
    }

    /// Sends the outcome of a trial.
    pub fn trial(&self, outcome: TrialOutcome) {
        self.send_event(Event::Trial(outcome));
    }

    fn read_input(&mut self) -> Result<(), Failure> {
        if self.stopped {
            return Ok(());
        }
        self.input
            .fill()
            .or_environment("read orders from stdin", "keep stdin open until `stop`")?;
        while let Some(line) = self.input.next_line() {
            if !line.trim_ascii().is_empty() {
                self.handle_command(&line)?;
            }
        }
        if self.input.ended() {
            self.input_unpollable = false;
            self.stop();
        }
        Ok(())
    }

    fn handle_command(&mut self, line: &[u8]) -> Result<(), Failure> {
        let hint = "`hakaru-engine schema` prints the valid orders";
        let command = serde_json::from_slice(line)
            .map_err(|e| Failure::usage(format_args!("cannot parse the order: {e}"), hint))?;
        match command {
            Command::Configure { contract, config } => {
                if contract != CONTRACT_VERSION {
                    return Err(Failure::usage(
                        format_args!(
                            "contract version {contract} requested; this engine implements version {CONTRACT_VERSION}"
                        ),
                        "install the same version of hakaru and hakaru-engine",
                    ));
                }
                self.configured = Some(*config);
            }
            Command::Start { at_ns } => self.orders.push_back(Order::Start(Time(at_ns))),
            Command::Measure { at_ns } => match &mut self.measure_order {
                Some(order) => *order = Some(Time(at_ns)),
                None => {
                    return Err(Failure::usage(
                        "this engine does not accept `measure` orders now",
                        "send them to an initiator or a load of files, after its `ready`",
                    ));
                }
            },
            Command::Manage { id, action } => match &mut self.operator_orders {
                Some(orders) => orders.push_back((id, action)),
                None => {
                    let refused = Failure::usage(
                        "this engine does not accept `manage` orders now",
                        "send them to an array, after its `ready`",
                    );
                    self.reply(id, Err(refused));
                }
            },
            Command::Count { id } => match &mut self.count_orders {
                Some(orders) => orders.push_back(id),
                None => {
                    let refused = Failure::usage(
                        "this engine does not accept `count` orders now",
                        "send them to a fabric, after its `ready`",
                    );
                    self.reply(id, Err(refused));
                }
            },
            Command::SetLink { id, link, up } => match &mut self.link_orders {
                Some(orders) => orders.push_back(LinkOrder { id, link, up }),
                None => {
                    let refused = Failure::usage(
                        "this engine does not accept `set_link` orders now",
                        "send them to a fabric, after its `ready`",
                    );
                    self.reply(id, Err(refused));
                }
            },
            Command::Trial(order) => match &mut self.trial_orders {
                Some(orders) => orders.push_back(order),
                None => {
                    let refused = Failure::usage(
                        "this engine does not accept `trial` orders now",
                        "send them to a generator of packets, after its `ready`",
                    );
                    self.reply(order.id, Err(refused));
                }
            },
            Command::Stop => self.stop(),
        }
        Ok(())
    }

    fn stop(&mut self) {
        if !self.stopped {
            self.stopped = true;
            self.orders.push_back(Order::Stop);
        }
    }

    fn send_event(&self, event: Event) {
        self.output.send(Line::Event(event));
    }

    /// Sends `ready` with the facts of the surveyed environment.
    pub fn ready(&self, facts: BTreeMap<String, Value>) {
        self.send_event(Event::Ready { found: facts });
    }

    /// Reports the start of a phase.
    pub fn phase(&self, phase: &str, at: Time) {
        self.send_event(Event::Phase {
            phase: phase.to_owned(),
            at_ns: at.as_ns(),
        });
    }

    /// Sends a sample, with the counters of this process added.
    pub fn sample(&self, at: Time, counters: Counters, histograms: Vec<NamedHistogram>) {
        let own = ResourceUse::now();
        self.send_event(Event::Sample(sample_of(at, &own, counters, histograms)));
    }

    /// Sends a sample of some counters, without those of this process.
    pub fn sample_part(&self, at: Time, counters: Counters) {
        self.send_event(Event::Sample(Sample {
            at_ns: at.as_ns(),
            counters,
            histograms: Vec::new(),
        }));
    }

    /// Sends a sample like [`Control::sample`], but the writing thread calls `make` and encodes the
    /// result. For samples whose encoding would delay the data path: a histogram takes a
    /// millisecond.
    pub fn sample_later(
        &self,
        at: Time,
        make: impl Fn() -> (Counters, Vec<NamedHistogram>) + Send + 'static,
    ) {
        let own = ResourceUse::now();
        self.output.send(Line::Later(Box::new(move || {
            let (counters, histograms) = make();
            Event::Sample(sample_of(at, &own, counters, histograms))
        })));
    }

    /// Sends the final result.
    pub fn result(&self, at: Time, values: BTreeMap<String, f64>, histograms: Vec<NamedHistogram>) {
        self.send_event(Event::Result {
            at_ns: at.as_ns(),
            values,
            histograms,
        });
    }

    /// Reports a failure, which is `fatal` if the engine ends.
    pub fn error(&self, failure: &Failure, fatal: bool) {
        self.send_event(Event::Error {
            class: failure.class,
            message: failure.message.clone(),
            hint: failure.hint.clone(),
            fatal,
        });
    }

    /// Writes all pending events. No event can be sent afterwards.
    pub fn finish(&mut self) {
        self.output.finish();
    }
}

/// A line to be written.
enum Line {
    Event(Event),
    Later(Box<dyn Fn() -> Event + Send>),
}

fn sample_of(
    at: Time,
    own: &ResourceUse,
    mut counters: Counters,
    histograms: Vec<NamedHistogram>,
) -> Sample {
    let own = own.counters().map(|(name, value)| (name.to_owned(), value));
    counters.insert("process".to_owned(), own.into());
    Sample {
        at_ns: at.as_ns(),
        counters,
        histograms,
    }
}

fn encode_line(line: &Line, out: &mut Vec<u8>) {
    match line {
        Line::Event(event) => encode_event(event, out),
        Line::Later(make) => encode_event(&make(), out),
    }
}

fn encode_event(event: &Event, line: &mut Vec<u8>) {
    // Events hold maps with string keys and plain values, which always serialise; NaN becomes null.
    serde_json::to_writer(line, event).expect("an event is representable in JSON");
}
