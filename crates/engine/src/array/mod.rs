//! The `array` engine: an iSCSI target behind real sockets.
//!
//! One owner, one loop, one thread. Event sources: orders (stdin, signals), listeners, sockets, the
//! deadlines of model and target, and the next sample. A turn of the loop receives all pending
//! input, lets target and storage settle, and sends all queued data. Thirty-two commands in one
//! segment need one `recvmsg`, one `sendmsg` and one `epoll_pwait2`. Busy polling happens only if
//! the configuration requests it (`spin_us`). The downside: an array uses at most one core.
//!
//! | file | contents |
//! |---|---|
//! | `validate.rs` `port_groups.rs` `rates_config.rs` `bound.rs` | checks of the configuration |
//! | `setup.rs` | construction of the array's parts from the configuration |
//! | `tape/` | the tape library, and its cartridges in memory, a folder or a pool |
//! | `access.rs` | access list and permitted addresses |
//! | `caps.rs` | caps on the rates of accesses, between target and storage |
//! | `shares.rs` | shares of the accesses in flight, between caps and storage |
//! | `lu_file.rs` | the file or block device behind an LU |
//! | `path_hint.rs` | advice for errors of files and directories |
//! | `manage.rs` | execution of the operator's orders |
//! | `lookup.rs` | pools and volumes that an order names |
//! | `status.rs` | the answer to `status` |
//! | `orders.rs` | orders that pools work on |
//! | `tokens.rs` | the sources of events |
//! | `check.rs` | check of a pool that is not in use |
//! | `pools.rs` | opening and growing of the configured pools |
//! | `figures.rs` | figures of pools, volumes and LUs |
//! | `accept.rs` | listeners and accept(2) |
//! | `refusals.rs` | reports of refused logins to the operator |
//! | `connections.rs` | all connections: accepting, turns, closing |
//! | `turns.rs` | order of the connections with more to receive |
//! | `connection.rs` | one socket: receiving in turns, sending gathered |
//! | `descriptors.rs` | division of open files among sessions, logins and pipes |
//! | `lending.rs` | zero-copy send of large reads |
//! | `reports.rs` | reports of pools to initiators and operator, counters |
//! | `samples.rs` | instants of the samples, and the counters of drives in between |
//! | `tcp.rs` | TCP counters of the connections |
//! | `storage/` | file I/O, commits and reservations for the stores behind the LUs |
mod access;
mod bound;
mod caps;
mod check;
mod connection;
mod connections;
mod descriptors;
mod figures;
mod lending;
mod lookup;
mod lu_file;
mod manage;
mod orders;
mod path_hint;
mod pools;
mod port_groups;
mod rates_config;
mod refusals;
mod reports;
mod samples;
mod setup;
mod shares;
mod status;
mod storage;
mod tape;
mod tcp;
mod tokens;
mod turns;
mod validate;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hakaru_contract::ArrayConfig;
use hakaru_iscsi_target::{Io, IoFailure, IoId, IoOp, IoResult, Limits, Target, TargetConfig};
use hakaru_runtime::file::FileQueue;
use hakaru_runtime::process::entropy;
use hakaru_runtime::{Event, Reactor, Token, WaitPolicy, Waiter, clock};
use hakaru_units::Time;
use serde_json::{Value, json};

pub use self::check::check_pool;
pub use self::tape::{export as export_tape, import as import_tape};

use self::caps::Caps;
use self::connections::Connections;
use self::descriptors::Descriptors;
use self::manage::OrderExecutor;
use self::orders::Orders;
use self::refusals::RefusalLog;
use self::reports::PoolReports;
use self::samples::{Due, Samples};
use self::shares::FairQueue;
use self::storage::Storage;
use self::tokens::{FILES, KEEPER, LISTENERS, STORES};
use crate::accept::Acceptor;
use crate::control::{Control, Counters, Order};
use crate::description::describe_socket;
use crate::failure::{Failure, OrEnvironment};

/// Maximum number of rounds of accesses and responses before the sockets have their turn: about
/// 50 µs if every access completes at once.
const ROUNDS_PER_TURN: usize = 64;

/// Maximum work of long commands (WRITE SAME, SANITIZE, UNMAP, EXTENDED COPY) before the sockets
/// have their turn, bytes. Takes less than a millisecond.
const BACKGROUND_BYTES_PER_TURN: u64 = 1 << 20;

/// Maximum number of events taken from the reactor at a time.
const EVENTS: usize = 1024;

/// Time for initiators to log out after `stop`.
const LOGOUT_PATIENCE: Duration = Duration::from_secs(2);

/// Runs the engine until `stop`.
///
/// # Errors
/// The configuration is invalid, an address cannot be bound, or memory or a file is not available.
pub fn run(config: &ArrayConfig, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    let mut shell = Shell::new(config, reactor)?;
    control.ready(shell.facts(config));
    control.accept_operator_orders();
    if let Some(weakness) = access::weakness(&config.access) {
        control.error(&weakness, false);
    }
    let mut waiter = Waiter::new(wait_policy(config), LISTENERS, EVENTS);
    shell.serve(&mut waiter, control)
}

/// Returns the policy of waiting for events. Adaptive waiting costs a lone request the least;
/// `spin_us` trades a core for response time.
fn wait_policy(config: &ArrayConfig) -> WaitPolicy {
    if config.spin_us > 0 {
        let awake = Duration::from_micros(config.spin_us.into());
        WaitPolicy::Spin { awake }
    } else {
        let linger = Duration::ZERO;
        WaitPolicy::Adaptive { linger }
    }
}

/// Everything the array owns.
struct Shell<'r> {
    reactor: &'r Reactor,
    target: Target,
    caps: Caps,
    fair_queue: FairQueue,
    storage: Storage,
    connections: Connections<'r>,
    refusals: RefusalLog,
    /// Whether the last turn ended before target and storage had settled.
    unsettled: bool,
    orders: Orders,
    pool_reports: PoolReports,
    samples: Samples,
    /// Bounds on connections, sessions and pipes at start.
    descriptors: Descriptors,
}

impl<'r> Shell<'r> {
    fn new(config: &ArrayConfig, reactor: &'r Reactor) -> Result<Shell<'r>, Failure> {
        let addresses = setup::portals(config)?;
        let (parameters, model) = setup::model(config)?.unzip();
        validate::check(config, model.as_ref())?;
        let state = config.state_directory.as_deref().map(Path::new);
        let keeper = setup::keeper(state, reactor, KEEPER)?;
        let access = access::access(&config.access)?;
        access::check_exposure(config, &addresses, &access)?;
        let files = FileQueue::new(reactor, FILES)
            .or_environment("prepare file I/O", "raise the limit of open files")?;
        let mut storage = Storage::new(model, files, keeper);
        pools::open(config, &mut storage, reactor)?;
        let mut descriptions = setup::open_lus(config, parameters.as_ref(), &mut storage, reactor)?;
        if let Some(library) = &config.tape_library {
            descriptions.extend(tape::open(library, &mut storage, reactor)?);
        }
        let acceptor = Acceptor::listen(&addresses, &config.socket, reactor, LISTENERS)?;
        let portals = acceptor.addresses().to_vec();
        let descriptors = Descriptors::at_start(config.sessions_max)?;
        let limits = Limits {
            linger: LOGOUT_PATIENCE,
            ..setup::limits(config, &descriptors)
        };
        let target_name = config.target_name.clone();
        Ok(Shell {
            reactor,
            target: Target::with_entropy(
                TargetConfig {
                    target_name,
                    portals,
                    port_groups: setup::port_groups(config),
                    lus: descriptions,
                    access,
                    limits,
                },
                Box::new(entropy::fill),
            ),
            caps: Caps::new(&config.caps),
            fair_queue: FairQueue::new(config.shares.as_deref()),
            storage,
            connections: Connections::new(acceptor, descriptors.pipes_max, reactor),
            refusals: RefusalLog::default(),
            unsettled: false,
            orders: Orders::default(),
            pool_reports: PoolReports::new(config.pools.len()),
            samples: Samples::new(config)?,
            descriptors,
        })
    }

    /// Returns the facts for `ready`.
    fn facts(&self, config: &ArrayConfig) -> BTreeMap<String, Value> {
        let acceptor = self.connections.acceptor();
        let addresses = acceptor.addresses().iter();
        let portals: Vec<String> = addresses.map(SocketAddr::to_string).collect();
        let lus: Vec<Value> = config
            .lus
            .iter()
            .map(|lu| json!({"lun": lu.lun, "size_bytes": lu.size_bytes, "block_bytes": lu.block_bytes, "store": lu.store}))
            .collect();
        let socket = acceptor.socket_facts();
        let pools = figures::pools_figures(&self.storage);
        BTreeMap::from([
            ("portals".to_owned(), json!(portals)),
            ("target_name".to_owned(), json!(config.target_name)),
            ("lus".to_owned(), json!(lus)),
            ("pools".to_owned(), json!(pools)),
            ("io_backend".to_owned(), json!(self.storage.io_backend())),
            ("model".to_owned(), json!(config.model)),
            (
                "socket".to_owned(),
                json!(socket.as_ref().map(describe_socket)),
            ),
            (
                "tape_drives".to_owned(),
                json!(tape::facts(config.tape_library.as_deref())),
            ),
            (
                "sessions_max".to_owned(),
                json!(self.descriptors.sessions_max),
            ),
        ])
    }

    /// Runs the loop until initiators have logged out after a `stop`, or [`LOGOUT_PATIENCE`] has
    /// passed.
    fn serve(&mut self, waiter: &mut Waiter, control: &mut Control) -> Result<(), Failure> {
        let mut stop_by = None;
        loop {
            let until = self.deadline(stop_by);
            control.wait(self.reactor, waiter, until)?;
            self.connections.begin_turn();
            let now = clock::now();
            for event in waiter.events() {
                if !control.handle_event(event)? {
                    self.handle_event(now, event);
                }
            }
            self.connections.receive_again(now, &mut self.target);
            self.connections.handle_timeout(now);
            self.target.handle_timeout(now);
            self.caps.handle_timeout(now);
            self.storage.handle_timeout(now, &mut self.target);
            let moved = self.settle(now);
            waiter.end_turn(now, self.connections.received(), moved);
            while self.order_executor().execute(now, control) {
                self.settle(now);
            }
            self.report_failures(now, control);
            while let Some(order) = control.poll_order() {
                match order {
                    Order::Start(at) => self.samples.start(at.max(now)),
                    Order::Stop => {
                        self.sample(control);
                        self.target.shut_down(now);
                        self.settle(now);
                        stop_by = Some(now + LOGOUT_PATIENCE);
                    }
                }
            }
            match self.samples.due(now) {
                Due::All if stop_by.is_none() => self.sample(control),
                Due::Drives if stop_by.is_none() => {
                    control.sample_part(now, samples::of_drives(now, &mut self.storage));
                }
                _ => {}
            }
            if stop_by
                .is_some_and(|by| (self.connections.open() == 0 && !self.unsettled) || now >= by)
                && self.orders.is_empty()
            {
                return self.finish(control);
            }
        }
    }

    fn order_executor(&mut self) -> OrderExecutor<'_, 'r> {
        OrderExecutor {
            target: &mut self.target,
            storage: &mut self.storage,
            orders: &mut self.orders,
            connections: &mut self.connections,
            descriptors: self.descriptors,
        }
    }

    /// Returns the instant at which the loop must run again without an event.
    fn deadline(&self, stop_by: Option<Time>) -> Option<Time> {
        if self.unsettled {
            return Some(Time::ZERO);
        }
        let deadlines = [
            self.storage.poll_timeout(),
            self.caps.poll_timeout(),
            self.target.poll_timeout(),
            self.connections.poll_timeout(),
            self.samples.next(),
            stop_by,
        ];
        deadlines.into_iter().flatten().min()
    }

    fn handle_event(&mut self, now: Time, event: Event) {
        if event.token == FILES {
            return self.storage.handle_file_event(now);
        }
        if event.token == KEEPER {
            return self.storage.handle_keeper_event();
        }
        let Token(token) = event.token;
        if token >= STORES {
            let pool = (token - STORES) as usize;
            return self.storage.handle_store_event(now, pool);
        }
        if token >= LISTENERS {
            let portal = (token - LISTENERS) as usize;
            return self.connections.accept(now, portal, &mut self.target);
        }
        let index = token as usize;
        let (target, storage) = (&mut self.target, &mut self.storage);
        self.connections
            .handle_event(now, index, event, target, storage);
    }

    /// Reports failures of connections, logins and pools to the operator.
    fn report_failures(&mut self, now: Time, control: &Control) {
        let mut failures: Vec<Failure> = self.connections.drain_failures().collect();
        failures.extend(
            self.pool_reports
                .report(&mut self.storage, &mut self.target),
        );
        while let Some(refusal) = self.target.poll_refusal() {
            failures.extend(self.refusals.report(now, &refusal));
        }
        for failure in failures {
            control.error(&failure, false);
        }
    }

    /// Processes accesses, responses and closings until none is left. It repeats because a response
    /// that was sent may let a command begin. A command of thousands of accesses that complete at
    /// once, such as UNMAP of an entire LU, continues after the sockets had their turn. Returns
    /// whether anything was processed.
    fn settle(&mut self, now: Time) -> bool {
        self.unsettled = true;
        let mut background_left_bytes = BACKGROUND_BYTES_PER_TURN;
        for round in 0..ROUNDS_PER_TURN {
            let mut moved = false;
            while let Some(returned) = self.target.poll_returned() {
                self.storage.take_back(returned);
            }
            while let Some(io) = self.target.poll_io_within(&mut background_left_bytes) {
                moved = true;
                if let Some(io) = self.caps.admit(now, io, &self.target) {
                    self.submit_in_turn(now, io);
                }
            }
            while let Some(io) = self.caps.poll_passed() {
                moved = true;
                self.submit_in_turn(now, io);
            }
            while let Some(io) = self.fair_queue.poll_dispatched(now) {
                moved = true;
                self.storage.submit(now, io, &mut self.target);
            }
            while let Some(id) = self.target.poll_unwanted() {
                moved |= self.end_waiting(now, id) || self.storage.cancel(now, id);
            }
            self.storage.flush_files(now);
            while let Some((id, result)) = self.storage.poll_done() {
                moved = true;
                self.fair_queue.handle_done(id);
                self.target.handle_io_done(now, id, result);
            }
            while let Some(id) = self.target.poll_transmit() {
                moved = true;
                let (target, storage) = (&mut self.target, &mut self.storage);
                self.connections.send(now, id.index(), target, storage);
            }
            while let Some(id) = self.target.poll_close() {
                moved = true;
                self.connections.close(id.index());
            }
            if !moved {
                self.unsettled = self.target.has_io();
                return round > 0;
            }
        }
        true
    }

    /// Passes an access to the storage, or to the queue of its class of shares.
    fn submit_in_turn(&mut self, now: Time, io: Io) {
        if let Some(io) = self.fair_queue.admit(now, io, &self.target) {
            self.storage.submit(now, io, &mut self.target);
        }
    }

    /// Ends an access that waits for a cap or a share and whose task was aborted. Returns `false`
    /// if it does not.
    fn end_waiting(&mut self, now: Time, id: IoId) -> bool {
        let waiting = self.caps.cancel(id).or_else(|| self.fair_queue.cancel(id));
        let Some(io) = waiting else { return false };
        if let IoOp::Write { data, .. } = io.op {
            self.target.buffers().give(data);
        }
        let aborted = IoResult::Failed(IoFailure::Internal);
        self.target.handle_io_done(now, id, aborted);
        true
    }

    /// Sends the current counters.
    fn sample(&mut self, control: &Control) {
        let now = clock::now();
        control.sample(now, self.counters(now), Vec::new());
    }

    fn counters(&mut self, now: Time) -> Counters {
        let tcp = self.connections.tcp_counters();
        let mut counters = reports::counters(now, &mut self.storage, &self.target, tcp);
        let mut visit = |entity: &str, name: &str, value: f64| {
            let entity = counters.entry(entity.to_owned()).or_default();
            entity.insert(name.to_owned(), value);
        };
        self.caps.visit_counters(&mut visit);
        self.fair_queue.visit_counters(&mut visit);
        counters
    }

    /// Flushes tapes and pools and sends the totals of all LUs and sessions.
    fn finish(&mut self, control: &Control) -> Result<(), Failure> {
        tape::finish(&mut self.target, &mut self.storage, self.reactor)?;
        pools::flush(&mut self.storage, self.reactor)?;
        let now = clock::now();
        let totals = reports::totals(self.counters(now));
        control.result(now, totals, Vec::new());
        Ok(())
    }
}
