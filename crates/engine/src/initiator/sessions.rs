//! Sockets under the VMs that speak iSCSI: connect, receive all that is ready, send all that is queued, timers.
//!
//! One receive buffer serves all sessions, since a session takes whatever it is given; one `sendmsg` carries everything a
//! session has queued. Sockets are edge-triggered, so each event is served until the socket is drained or full.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;

use hakaru_contract::initiator::{Destination, Vm};
use hakaru_initiator::{Counters, IscsiVm, SessionError, Settings, VmError, VmEvent};
use hakaru_runtime::net::Socket;
use hakaru_runtime::{Event, Interest, Reactor, Token, clock};
use hakaru_units::Time;
use serde_json::{Value, json};

use super::Ledger;
use super::failures::{of_connect, of_corruption, of_request, of_vm};
use crate::failure::Failure;

/// Sessions that log in at the same time: enough to hide the round trips, few enough for any target's backlog.
const LOGINS_MAX: usize = 64;
/// Receive buffer. Larger ones fall out of the second-level cache between the kernel's copy and our look.
const RECEIVE_BYTES: usize = 256 * 1024;
/// Slices of one send; what has more goes in several.
const SLICES: usize = 128;

enum Link {
    /// Not yet begun.
    Waiting,
    /// The attempt must have ended by then.
    Connecting(Socket, Time),
    Up {
        socket: Socket,
        /// The socket's buffer is full: wait until it is writable.
        full: bool,
    },
    Down,
}

struct Place {
    vm: IscsiVm,
    portal: SocketAddr,
    link: Link,
    /// Earliest timer that is set for it.
    armed: Time,
}

/// All iSCSI VMs of the engine.
pub struct Sessions<'r> {
    reactor: &'r Reactor,
    settings: Arc<Settings>,
    places: Vec<Place>,
    /// Places before this one have begun to log in.
    opened: usize,
    ready: usize,
    ended: usize,
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    buffer: Box<[u8]>,
    /// What the first session found, for `ready`.
    found: BTreeMap<String, Value>,
}

impl<'r> Sessions<'r> {
    pub fn new(reactor: &'r Reactor, settings: Arc<Settings>) -> Sessions<'r> {
        Sessions {
            reactor,
            settings,
            places: Vec::new(),
            opened: 0,
            ready: 0,
            ended: 0,
            timers: BinaryHeap::new(),
            buffer: vec![0; RECEIVE_BYTES].into(),
            found: BTreeMap::new(),
        }
    }

    /// Adds a VM, `index`th of the configuration.
    pub fn add(&mut self, vm: Arc<Vm>, index: usize) -> Result<(), Failure> {
        let Destination::Iscsi { portal, .. } = &vm.destination else {
            unreachable!("the caller looked")
        };
        let address = portal.parse().map_err(|_| {
            Failure::usage(
                format_args!("vms[{index}].destination.portal: `{portal}`"),
                "address:port",
            )
        })?;
        let vm = IscsiVm::new(vm, Arc::clone(&self.settings), index);
        self.places.push(Place {
            vm,
            portal: address,
            link: Link::Waiting,
            armed: Time::MAX,
        });
        Ok(())
    }

    pub fn count(&self) -> usize {
        self.places.len()
    }

    pub fn all_ready(&self) -> bool {
        self.ready == self.places.len()
    }

    pub fn all_ended(&self) -> bool {
        self.ended == self.places.len()
    }

    /// Lets more VMs log in, as many as may at a time.
    pub fn open_more(&mut self, ledger: &mut Ledger) {
        while self.opened < self.places.len() && self.opened - self.ready < LOGINS_MAX {
            let index = self.opened;
            self.opened += 1;
            self.connect(index, ledger);
        }
    }

    /// Every VM's load begins.
    pub fn begin(&mut self, ledger: &mut Ledger) {
        for index in 0..self.places.len() {
            self.places[index].vm.begin(clock::now());
            self.flush(index, ledger);
        }
    }

    /// No VM makes another request.
    pub fn end(&mut self) {
        self.places.iter_mut().for_each(|place| place.vm.end());
    }

    /// Requests in flight, all VMs together.
    pub fn in_flight(&self) -> usize {
        self.places.iter().map(|place| place.vm.in_flight()).sum()
    }

    /// Every session logs out.
    pub fn log_out(&mut self, ledger: &mut Ledger) {
        for index in 0..self.places.len() {
            self.places[index]
                .vm
                .log_out(clock::now(), &mut ledger.latencies);
            self.flush(index, ledger);
        }
    }

    pub fn visit_counters(&mut self, now: Time, see: &mut dyn FnMut(&str, Counters)) {
        for place in &mut self.places {
            let counters = place.vm.counters(now);
            see(&place.vm.config().name, counters);
        }
    }

    /// What `ready` tells: sessions, and of the first of them the LU and the keys.
    pub fn found(&self) -> BTreeMap<String, Value> {
        let mut found = self.found.clone();
        found.insert("sessions".to_owned(), json!(self.places.len()));
        found
    }

    /// When [`Sessions::handle_timeouts`] is wanted next.
    pub fn poll_timeout(&self) -> Time {
        self.timers.peek().map_or(Time::MAX, |&Reverse((at, _))| at)
    }

    /// Timers that have come.
    pub fn handle_timeouts(&mut self, ledger: &mut Ledger) {
        while let Some(&Reverse((at, index))) = self.timers.peek() {
            let now = clock::now();
            if at > now {
                break;
            }
            self.timers.pop();
            let place = &mut self.places[index];
            if place.armed == at {
                place.armed = Time::MAX;
            }
            match place.link {
                Link::Connecting(_, limit) if now >= limit => {
                    let error = io::Error::new(io::ErrorKind::TimedOut, "no answer");
                    self.lose_connection(index, &error, ledger);
                }
                Link::Connecting(_, limit) => self.arm(index, limit),
                Link::Up { .. } => {
                    place.vm.handle_timeout(now, &mut ledger.latencies);
                    self.flush(index, ledger);
                }
                Link::Waiting | Link::Down => {}
            }
        }
    }

    /// Serves the socket that the event is about.
    pub fn handle_event(&mut self, event: Event, ledger: &mut Ledger) {
        let index = event.token.0 as usize;
        let Some(place) = self.places.get_mut(index) else {
            return;
        };
        if matches!(place.link, Link::Connecting(..)) {
            if event.writable {
                self.finish_connecting(index, ledger);
            }
            return;
        }
        if event.writable
            && let Link::Up { full, .. } = &mut place.link
        {
            *full = false;
        }
        if event.readable {
            self.receive(index, ledger);
        }
        self.flush(index, ledger);
    }

    fn connect(&mut self, index: usize, ledger: &mut Ledger) {
        let place = &mut self.places[index];
        let begun = Socket::connect(place.portal).and_then(|socket| {
            self.reactor
                .register(&socket, Token(index as u64), Interest::Edge)?;
            Ok(socket)
        });
        match begun {
            Ok(socket) => {
                let limit = clock::now() + self.settings.timeout;
                place.link = Link::Connecting(socket, limit);
                self.arm(index, limit);
            }
            Err(error) => self.lose_connection(index, &error, ledger),
        }
    }

    fn finish_connecting(&mut self, index: usize, ledger: &mut Ledger) {
        let place = &mut self.places[index];
        let Link::Connecting(socket, _) = std::mem::replace(&mut place.link, Link::Down) else {
            return;
        };
        match socket.take_error() {
            Ok(()) => {
                place.link = Link::Up {
                    socket,
                    full: false,
                };
                place.vm.handle_connected(clock::now());
                self.flush(index, ledger);
            }
            Err(error) => self.lose_connection(index, &error, ledger),
        }
    }

    fn lose_connection(&mut self, index: usize, error: &io::Error, ledger: &mut Ledger) {
        let place = &mut self.places[index];
        place.link = Link::Down;
        ledger.fail(of_connect(place.vm.config(), error));
    }

    /// Receives until the socket is drained.
    fn receive(&mut self, index: usize, ledger: &mut Ledger) {
        let place = &mut self.places[index];
        while let Link::Up { socket, .. } = &place.link {
            let received = socket.receive(&mut self.buffer);
            let now = clock::now();
            let latencies = &mut ledger.latencies;
            match received {
                Ok(0) => place
                    .vm
                    .handle_closed(now, "(closed by the target)", latencies),
                Ok(n) => {
                    place.vm.handle_received(now, &self.buffer[..n], latencies);
                    if n < self.buffer.len() && !place.vm.is_ended() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => place.vm.handle_closed(now, why_lost(&error), latencies),
            }
            if place.vm.is_ended() {
                return;
            }
        }
    }

    /// Sends what is queued, tells what has come up, sets the timer: the end of every service of a VM.
    fn flush(&mut self, index: usize, ledger: &mut Ledger) {
        self.send(index, ledger);
        while let Some(event) = self.places[index].vm.poll_event() {
            self.handle_vm_event(index, event, ledger);
        }
        let place = &mut self.places[index];
        if place.vm.is_ended() && !matches!(place.link, Link::Connecting(..)) {
            place.link = Link::Down;
        }
        if let Some(at) = place.vm.poll_timeout() {
            self.arm(index, at);
        }
    }

    fn send(&mut self, index: usize, ledger: &mut Ledger) {
        let Place { vm, link, .. } = &mut self.places[index];
        let Link::Up { socket, full } = link else {
            return;
        };
        while !*full && !vm.transmit().is_empty() {
            match send_once(socket, vm) {
                Ok(taken_all) => *full = !taken_all,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => *full = true,
                Err(error) => {
                    vm.handle_closed(clock::now(), why_lost(&error), &mut ledger.latencies)
                }
            }
        }
    }

    fn handle_vm_event(&mut self, index: usize, event: VmEvent, ledger: &mut Ledger) {
        let vm = &self.places[index].vm;
        match event {
            VmEvent::Ready(facts) => {
                self.ready += 1;
                if self.found.is_empty() {
                    let negotiated = vm.negotiated();
                    self.found.insert("lu".into(), describe_lu(&facts));
                    self.found
                        .insert("negotiated".into(), describe_keys(negotiated));
                }
            }
            VmEvent::Redirected { address } => match address.parse() {
                Ok(portal) => {
                    self.places[index].portal = portal;
                    self.connect(index, ledger);
                }
                Err(_) => {
                    let error = VmError::Session(SessionError::RedirectAddress(address));
                    ledger.fail(of_vm(vm.config(), &error));
                }
            },
            VmEvent::RequestFailed { op, error } => {
                ledger.complaints.push(of_request(vm.config(), op, &error))
            }
            VmEvent::Corrupt(corruption) => ledger.fail(of_corruption(vm.config(), &corruption)),
            VmEvent::Failed(error) => {
                self.ended += 1;
                ledger.fail(of_vm(vm.config(), &error));
            }
            VmEvent::LoggedOut => self.ended += 1,
        }
    }

    /// Sets a timer unless an earlier one is set, which will look again.
    fn arm(&mut self, index: usize, at: Time) {
        let place = &mut self.places[index];
        if at < place.armed {
            place.armed = at;
            self.timers.push(Reverse((at, index)));
        }
    }
}

/// One `sendmsg` of what is queued; whether the socket took all of it.
fn send_once(socket: &Socket, vm: &mut IscsiVm) -> io::Result<bool> {
    let transmit = vm.transmit();
    let mut slices = [IoSlice::new(&[]); SLICES];
    let (mut count, mut length) = (0, 0);
    for (slot, slice) in slices.iter_mut().zip(transmit.slices()) {
        *slot = IoSlice::new(slice);
        count += 1;
        length += slice.len();
    }
    let sent = socket.send_vectored(&slices[..count])?;
    transmit.advance(sent);
    Ok(sent == length)
}

fn why_lost(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "(reset by the target)",
        io::ErrorKind::TimedOut => "(the network does not answer)",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "(no route any more)",
        _ => "(socket error)",
    }
}

fn describe_lu(facts: &hakaru_initiator::LuFacts) -> Value {
    json!({
        "vendor": facts.vendor,
        "product": facts.product,
        "revision": facts.revision,
        "block_bytes": facts.volume.block_bytes,
        "capacity_bytes": facts.volume.capacity_bytes,
        "luns": facts.luns,
    })
}

fn describe_keys(keys: &hakaru_initiator::Negotiated) -> Value {
    json!({
        "header_digest": keys.header_digest,
        "data_digest": keys.data_digest,
        "initial_r2t": keys.initial_r2t,
        "immediate_data": keys.immediate_data,
        "max_send_segment_bytes": keys.segment_max,
        "max_burst_bytes": keys.max_burst,
        "first_burst_bytes": keys.first_burst,
        "max_outstanding_r2t": keys.max_outstanding_r2t,
    })
}
