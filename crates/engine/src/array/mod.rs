//! The `array` engine: an iSCSI target behind real sockets.
//!
//! One owner, one loop, one thread. Event sources: orders (stdin, signals), listeners, sockets, the
//! deadlines of model and target, the next sample. A turn of the loop receives all pending input,
//! lets target and storage settle, and sends all that is ready: thirty-two commands in one segment
//! need one `recvmsg`, one `sendmsg` and one `epoll_pwait2`. Busy polling happens only if the
//! configuration asks for it (`spin_us`). The downside: an array uses at most one core.
//!
//! | file | what it is |
//! |---|---|
//! | `validate.rs` | the configuration checked |
//! | `setup.rs` | the configuration turned into parts |
//! | `access.rs` | access list and permitted addresses |
//! | `lu_file.rs` | the file or block device behind an LU |
//! | `path_hint.rs` | advice for each way that a path can fail |
//! | `manage.rs` | the operator's orders while it serves |
//! | `orders.rs` | orders that pools work on |
//! | `tokens.rs` | the sources of events |
//! | `check.rs` | a pool that no array has open, checked |
//! | `pools.rs` | the pools opened and grown to what was configured |
//! | `figures.rs` | pools, volumes and LUs in figures |
//! | `accept.rs` | listeners and accept(2) |
//! | `refusals.rs` | refused logins, for the operator |
//! | `connection.rs` | one socket: receiving in turns, sending gathered |
//! | `descriptors.rs` | open files divided among sessions, logins and pipes |
//! | `lending.rs` | zero-copy send of large reads |
//! | `reports.rs` | reports of pools to initiators and operator, counters |
//! | `tcp.rs` | TCP counters of the connections |
//! | `storage/` | file I/O, commits and reservations for the stores behind the LUs |
mod accept;
mod access;
mod check;
mod connection;
mod descriptors;
mod figures;
mod lending;
mod lu_file;
mod manage;
mod orders;
mod path_hint;
mod pools;
mod refusals;
mod reports;
mod setup;
mod storage;
mod tcp;
mod tokens;
mod validate;

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hakaru_contract::{ArrayConfig, ErrorClass};
use hakaru_iscsi_target::{ConnectionId, Limits, Target, TargetConfig};
use hakaru_runtime::file::FileQueue;
use hakaru_runtime::net::Socket;
use hakaru_runtime::process::entropy;
use hakaru_runtime::{Event, Interest, Reactor, Token, WaitPolicy, Waiter, clock};
use hakaru_units::Time;
use serde_json::{Value, json};

pub use self::check::check_pool;

use self::accept::{Accept, Acceptor};
use self::connection::{Connection, Turn};
use self::descriptors::Descriptors;
use self::lending::Lending;
use self::manage::OrderExecutor;
use self::orders::Orders;
use self::refusals::RefusalLog;
use self::reports::PoolReports;
use self::storage::Storage;
use self::tcp::Tcp;
use self::tokens::{FILES, KEEPER, LISTENERS, STORES};
use crate::contain::contain;
use crate::control::{Control, Counters, Order};
use crate::description::describe_socket;
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;

/// Receive buffer of all connections, bytes. It fits the second-level cache, and holds 32 commands
/// with 4 KiB each.
const RECEIVE_BYTES: usize = 256 << 10;

/// Rounds of accesses and their answers before the sockets have their turn: some 50 us if every
/// access completes at once.
const ROUNDS_PER_TURN: usize = 64;

/// Work of long commands (WRITE SAME, SANITIZE, UNMAP, EXTENDED COPY) before the sockets have their
/// turn, bytes: below a millisecond.
const BACKGROUND_BYTES_PER_TURN: u64 = 1 << 20;

/// Events taken from the reactor at a time.
const EVENTS: usize = 1024;

/// Connections accepted from one listener before the sessions have their turn: during a login storm
/// a further one is always pending.
const ACCEPTS_PER_TURN: usize = 16;

/// How long initiators may take to log out after `stop`.
const GOODBYE: Duration = Duration::from_secs(2);

/// Runs the engine until `stop`.
///
/// # Errors
/// The configuration is invalid, an address cannot be bound, or memory or a file is not available.
pub fn run(config: &ArrayConfig, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    let mut shell = Shell::new(config, reactor)?;
    control.ready(shell.found(config)?);
    control.take_operators_orders();
    if let Some(weakness) = access::weakness(&config.access) {
        control.error(&weakness, false);
    }
    let mut waiter = Waiter::new(wait_policy(config), LISTENERS, EVENTS);
    shell.serve(&mut waiter, control)
}

/// Adaptive waiting costs a lone request least; `spin_us` trades a core for latency.
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
    storage: Storage,
    acceptor: Acceptor<'r>,
    refusals: RefusalLog,
    /// Indexed by [`ConnectionId::index`].
    connections: Vec<Option<Connection>>,
    open: usize,
    /// The last turn ended before everything had settled.
    unsettled: bool,
    tcp: Tcp,
    /// Connections whose turn ended with more to receive.
    again: VecDeque<ConnectionId>,
    /// A connection received data in this turn, or has ended.
    received: bool,
    buffer: Box<[u8]>,
    slices: Vec<IoSlice<'static>>,
    lending: Lending,
    orders: Orders,
    pool_reports: PoolReports,
    samples: Schedule,
    /// Connections, sessions and pipes that were possible at start.
    descriptors: Descriptors,
    /// Failures of this turn that the operator is to see.
    failures: Vec<Failure>,
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
        let descriptions = setup::open_lus(config, parameters.as_ref(), &mut storage, reactor)?;
        let acceptor = Acceptor::listen(&addresses, &config.socket, reactor)?;
        let portals = acceptor.addresses()?;
        let descriptors = Descriptors::at_start(config.sessions_max)?;
        let limits = Limits {
            linger: GOODBYE,
            ..setup::limits(config, &descriptors)
        };
        let target_name = config.target_name.clone();
        Ok(Shell {
            reactor,
            target: Target::with_entropy(
                TargetConfig {
                    target_name,
                    portals,
                    lus: descriptions,
                    access,
                    limits,
                },
                Box::new(entropy::fill),
            ),
            storage,
            acceptor,
            refusals: RefusalLog::default(),
            connections: Vec::new(),
            open: 0,
            unsettled: false,
            tcp: Tcp::default(),
            again: VecDeque::new(),
            received: false,
            buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            slices: Vec::new(),
            lending: Lending::new(descriptors.pipes_max),
            orders: Orders::default(),
            pool_reports: PoolReports::new(config.pools.len()),
            samples: Schedule::new(config.sample_interval_ms)?,
            descriptors,
            failures: Vec::new(),
        })
    }

    /// The figures that `ready` reports.
    fn found(&self, config: &ArrayConfig) -> Result<BTreeMap<String, Value>, Failure> {
        let addresses = self.acceptor.addresses()?;
        let portals: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        let lus: Vec<Value> = config
            .lus
            .iter()
            .map(|lu| json!({"lun": lu.lun, "size_bytes": lu.size_bytes, "block_bytes": lu.block_bytes, "store": lu.store}))
            .collect();
        let socket = self.acceptor.socket_facts();
        let pools = figures::pools_figures(&self.storage);
        Ok(BTreeMap::from([
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
                "sessions_max".to_owned(),
                json!(self.descriptors.sessions_max),
            ),
        ]))
    }

    /// The loop.
    fn serve(&mut self, waiter: &mut Waiter, control: &mut Control) -> Result<(), Failure> {
        let mut stop_by = None;
        loop {
            let until = self.deadline(stop_by);
            control.wait(self.reactor, waiter, until)?;
            self.received = false;
            let now = clock::now();
            for event in waiter.events() {
                if !control.handle_event(event)? {
                    self.handle_event(now, event);
                }
            }
            for _ in 0..self.again.len() {
                if let Some(id) = self.again.pop_front() {
                    self.receive(now, id.index());
                }
            }
            self.acceptor.resume(now, false);
            self.target.handle_timeout(now);
            self.storage.handle_timeout(now, &mut self.target);
            let moved = self.settle(now);
            waiter.end_turn(now, self.received, moved);
            while self.order_executor().execute(now, control) {
                self.settle(now);
            }
            let failures = self
                .pool_reports
                .report(&mut self.storage, &mut self.target);
            self.failures.extend(failures);
            while let Some(refusal) = self.target.poll_refusal() {
                self.failures.extend(self.refusals.report(now, &refusal));
            }
            for failure in self.failures.drain(..) {
                control.error(&failure, false);
            }
            while let Some(order) = control.poll_order() {
                match order {
                    Order::Start(at) => self.samples.start(at.max(now)),
                    Order::Stop => {
                        self.sample(control);
                        self.target.shut_down(now);
                        self.settle(now);
                        stop_by = Some(now + GOODBYE);
                    }
                }
            }
            if self.samples.due(now) && stop_by.is_none() {
                self.sample(control);
            }
            if stop_by.is_some_and(|by| (self.open == 0 && !self.unsettled) || now >= by)
                && self.orders.is_empty()
            {
                return self.finish(control);
            }
        }
    }

    fn order_executor(&mut self) -> OrderExecutor<'_> {
        OrderExecutor {
            target: &mut self.target,
            storage: &mut self.storage,
            orders: &mut self.orders,
            acceptor: &self.acceptor,
            lending: &self.lending,
            descriptors: self.descriptors,
            open: self.open,
        }
    }

    /// When the loop must run again without an event.
    fn deadline(&self, stop_by: Option<Time>) -> Option<Time> {
        if self.unsettled || !self.again.is_empty() {
            return Some(Time::ZERO);
        }
        let deadlines = [
            self.storage.poll_timeout(),
            self.target.poll_timeout(),
            self.acceptor.poll_timeout(),
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
            return self.accept(now, (token - LISTENERS) as usize);
        }
        let index = token as usize;
        // After a close in this turn the index is free, or belongs to a newer connection, whose
        // read then returns nothing.
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return;
        };
        connection.handle_event(event);
        if connection.unread() {
            self.receive(now, index);
        }
        if event.writable {
            self.send(now, index);
        }
    }

    /// Accepts connections of a portal, up to [`ACCEPTS_PER_TURN`]. The reactor reports the others
    /// again, because it watches listeners level-triggered.
    fn accept(&mut self, now: Time, portal: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.acceptor.accept(now, portal, self.open) {
                Accept::Connection(socket, peer) => self.add_connection(now, portal, socket, peer),
                Accept::Nothing => return,
                Accept::Failed(failure) => self.failures.extend(failure),
            }
        }
    }

    fn add_connection(&mut self, now: Time, portal: usize, socket: Socket, peer: SocketAddr) {
        // A peer that has reset the connection already leaves a socket without an address; dropping
        // it closes it.
        let Ok(local) = socket.local_address() else {
            return;
        };
        let Some(id) = self.target.handle_connected(now, portal, local, peer) else {
            return;
        };
        let token = Token(id.index() as u64);
        if self
            .reactor
            .register(&socket, token, Interest::Edge)
            .is_err()
        {
            return self.target.handle_closed(now, id);
        }
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        self.connections[id.index()] = Some(Connection::new(id, socket));
        self.open += 1;
    }

    fn receive(&mut self, now: Time, index: usize) {
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return;
        };
        let id = connection.id;
        let turn = contain(|| connection.receive(now, &mut self.target, &mut self.buffer));
        match turn {
            Ok(Turn::Nothing) => return,
            Ok(Turn::Over) => {}
            Ok(Turn::More) => self.again.push_back(id),
            Ok(Turn::Closed) => {
                self.target.handle_closed(now, id);
                self.close(index);
            }
            Err(panic) => self.give_up(now, id, &panic),
        }
        self.received = true;
    }

    /// Ends a session whose handling has panicked.
    fn give_up(&mut self, now: Time, id: ConnectionId, panic: &str) {
        self.target.handle_panicked(now, id);
        self.failures.push(Failure::new(
            ErrorClass::Internal,
            format_args!("a session was ended by a defect of hakaru: {panic}"),
            "the other sessions continue, but do not trust this run; please report the defect",
        ));
    }

    fn send(&mut self, now: Time, index: usize) {
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return;
        };
        let id = connection.id;
        let (target, storage) = (&mut self.target, &mut self.storage);
        let (slices, lending) = (&mut self.slices, &mut self.lending);
        match contain(|| connection.send(now, target, storage, slices, lending)) {
            Ok(Ok(())) => {
                if connection.unread() && self.target.wants_received(id) {
                    // The target had stopped reading until its answers were taken.
                    self.again.push_back(id);
                }
            }
            Ok(Err(_)) => {
                self.target.handle_closed(now, id);
                self.close(index);
            }
            Err(panic) => self.give_up(now, id, &panic),
        }
    }

    fn close(&mut self, index: usize) {
        if let Some(connection) = self.connections[index].take() {
            self.tcp.forget(index, &connection);
            connection.close(&mut self.lending);
            self.open -= 1;
            self.acceptor.resume(Time::ZERO, true);
        }
    }

    /// Moves accesses, answers and closings until nothing moves: an answer that was sent may let a
    /// command begin. A command of thousands of accesses that complete at once (UNMAP of a whole
    /// LU) continues after the sockets had their turn. Returns whether anything moved.
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
                self.storage.submit(now, io, &mut self.target);
            }
            while let Some(id) = self.target.poll_unwanted() {
                moved |= self.storage.cancel(now, id);
            }
            self.storage.flush_files(now);
            while let Some((id, result)) = self.storage.poll_done() {
                moved = true;
                self.target.handle_io_done(now, id, result);
            }
            while let Some(id) = self.target.poll_transmit() {
                moved = true;
                self.send(now, id.index());
            }
            while let Some(id) = self.target.poll_close() {
                moved = true;
                self.close(id.index());
            }
            if !moved {
                self.unsettled = self.target.has_io();
                return round > 0;
            }
        }
        true
    }
    /// Sends the counters as of now.
    fn sample(&mut self, control: &Control) {
        let now = clock::now();
        control.sample(now, self.counters(now), Vec::new());
    }

    fn counters(&mut self, now: Time) -> Counters {
        let tcp = self.tcp.counters(&self.connections, self.open);
        reports::counters(now, &mut self.storage, &self.target, tcp)
    }

    /// Flushes the pools and sends the totals of all LUs and sessions.
    fn finish(&mut self, control: &Control) -> Result<(), Failure> {
        pools::flush(&mut self.storage, self.reactor)?;
        let now = clock::now();
        let totals = reports::totals(self.counters(now));
        control.result(now, totals, Vec::new());
        Ok(())
    }
}
