//! All connections of the array: accepting, receiving, sending, and closing.
//!
//! The listeners belong here too, because each closed connection frees a descriptor that a paused
//! listener may need. The target interprets the data; this file moves it between sockets and target
//! in fair turns.
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::SocketAddr;

use hakaru_contract::ErrorClass;
use hakaru_iscsi_target::{ConnectionId, Target};
use hakaru_runtime::net::Socket;
use hakaru_runtime::{Event, Interest, Reactor, Token};
use hakaru_units::Time;

use super::connection::{Connection, Turn};
use super::lending::Lending;
use super::storage::Storage;
use super::tcp::Tcp;
use super::turns::Turns;
use crate::accept::{Accept, Acceptor};
use crate::contain::contain;
use crate::failure::Failure;

/// Size of the receive buffer that all connections share, bytes. It fits in the second-level cache
/// and holds 32 commands with 4 KiB of data each.
const RECEIVE_BYTES: usize = 256 << 10;

/// Maximum number of connections accepted from one listener before the sessions have their turn.
/// During a login storm, a further connection is always pending.
const ACCEPTS_PER_TURN: usize = 16;

/// The listeners, the open connections, and the memory that sending and receiving share.
pub struct Connections<'r> {
    reactor: &'r Reactor,
    acceptor: Acceptor<'r>,
    /// Indexed by [`ConnectionId::index`].
    slots: Vec<Option<Connection>>,
    open: usize,
    /// Connections whose turn ended with more to receive.
    unfinished: Turns,
    /// Whether a connection received data in this turn, or has ended.
    received: bool,
    buffer: Box<[u8]>,
    slices: Vec<IoSlice<'static>>,
    lending: Lending,
    tcp: Tcp,
    /// Failures of this turn, to be reported to the operator.
    failures: Vec<Failure>,
}

impl<'r> Connections<'r> {
    /// Prepares to serve the connections of these listeners, with up to `pipes_max` pipes for
    /// zero-copy sends.
    pub fn new(acceptor: Acceptor<'r>, pipes_max: u32, reactor: &'r Reactor) -> Connections<'r> {
        Connections {
            reactor,
            acceptor,
            slots: Vec::new(),
            open: 0,
            unfinished: Turns::default(),
            received: false,
            buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            slices: Vec::new(),
            lending: Lending::new(pipes_max),
            tcp: Tcp::default(),
            failures: Vec::new(),
        }
    }

    /// Returns the listeners.
    pub fn acceptor(&self) -> &Acceptor<'r> {
        &self.acceptor
    }

    /// Returns the pipes of zero-copy sends.
    pub fn lending(&self) -> &Lending {
        &self.lending
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Returns the instant at which the loop must run again without an event.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.unfinished.is_empty() {
            self.acceptor.poll_timeout()
        } else {
            Some(Time::ZERO)
        }
    }

    /// Ends an expired pause of the listeners.
    pub fn handle_timeout(&mut self, now: Time) {
        self.acceptor.resume(now, false);
    }

    /// Removes and returns the failures to be reported to the operator.
    pub fn drain_failures(&mut self) -> impl Iterator<Item = Failure> + '_ {
        self.failures.drain(..)
    }

    /// Begins a turn of the loop.
    pub fn begin_turn(&mut self) {
        self.received = false;
    }

    /// Returns whether a connection received data in this turn, or has ended.
    pub fn received(&self) -> bool {
        self.received
    }

    /// Accepts connections of a portal, up to [`ACCEPTS_PER_TURN`]. The reactor reports the others
    /// again, because it watches listeners level-triggered.
    pub fn accept(&mut self, now: Time, portal: usize, target: &mut Target) {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.acceptor.accept(now, portal, self.open) {
                Accept::Connection(socket, peer) => {
                    self.add_connection(now, portal, socket, peer, target);
                }
                Accept::Nothing => return,
                Accept::Failed(failure) => self.failures.extend(failure),
            }
        }
    }

    fn add_connection(
        &mut self,
        now: Time,
        portal: usize,
        socket: Socket,
        peer: SocketAddr,
        target: &mut Target,
    ) {
        // A peer that has already reset the connection leaves a socket without an address. Dropping
        // the socket closes it.
        let Ok(local) = socket.local_address() else {
            return;
        };
        let Some(id) = target.handle_connected(now, portal, local, peer) else {
            return;
        };
        let token = Token(id.index() as u64);
        if self
            .reactor
            .register(&socket, token, Interest::Edge)
            .is_err()
        {
            return target.handle_closed(now, id);
        }
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        self.slots[id.index()] = Some(Connection::new(id, portal, socket));
        self.open += 1;
    }

    /// Refuses further connections at a portal, and ends those over it.
    pub fn refuse_portal(&mut self, now: Time, portal: usize, target: &mut Target) {
        self.acceptor.refuse(portal);
        for index in 0..self.slots.len() {
            let over_portal = self.slots[index].as_ref().filter(|c| c.portal == portal);
            if let Some(id) = over_portal.map(|connection| connection.id) {
                target.handle_closed(now, id);
                self.close(index);
            }
        }
    }

    /// Accepts connections at a portal again.
    ///
    /// # Errors
    /// The address cannot be bound any more, or no descriptor is available.
    pub fn accept_portal(&mut self, portal: usize) -> Result<(), Failure> {
        self.acceptor.accept_again(portal)
    }

    /// Handles an event of the socket at `index`.
    pub fn handle_event(
        &mut self,
        now: Time,
        index: usize,
        event: Event,
        target: &mut Target,
        storage: &mut Storage,
    ) {
        // After a close in this turn the index is free, or belongs to a newer connection, whose
        // read then returns nothing.
        let Some(Some(connection)) = self.slots.get_mut(index) else {
            return;
        };
        connection.handle_event(event);
        if connection.unread() {
            self.receive(now, index, target);
        }
        if event.writable {
            self.send(now, index, target, storage);
        }
    }

    /// Continues with the connections whose last turn ended with more to receive.
    pub fn receive_again(&mut self, now: Time, target: &mut Target) {
        for _ in 0..self.unfinished.len() {
            if let Some(index) = self.unfinished.next() {
                self.receive(now, index, target);
            }
        }
    }

    fn receive(&mut self, now: Time, index: usize, target: &mut Target) {
        let Some(Some(connection)) = self.slots.get_mut(index) else {
            return;
        };
        let id = connection.id;
        match contain(|| connection.receive(now, target, &mut self.buffer)) {
            Ok(Turn::Nothing) => return,
            Ok(Turn::Over) => {}
            Ok(Turn::More) => self.unfinished.add(index),
            Ok(Turn::Closed) => {
                target.handle_closed(now, id);
                self.close(index);
            }
            Err(panic) => self.handle_panic(now, id, &panic, target),
        }
        self.received = true;
    }

    /// Ends a session whose handling has panicked.
    fn handle_panic(&mut self, now: Time, id: ConnectionId, panic: &str, target: &mut Target) {
        target.handle_panicked(now, id);
        self.failures.push(Failure::new(
            ErrorClass::Internal,
            format_args!("a session was ended by a defect of hakaru: {panic}"),
            "the other sessions continue, but discard the results of this run; please report the defect",
        ));
    }

    /// Sends what the target has ready for the connection at `index`.
    pub fn send(&mut self, now: Time, index: usize, target: &mut Target, storage: &mut Storage) {
        let Some(Some(connection)) = self.slots.get_mut(index) else {
            return;
        };
        let id = connection.id;
        let (slices, lending) = (&mut self.slices, &mut self.lending);
        match contain(|| connection.send(now, target, storage, slices, lending)) {
            Ok(Ok(())) => {
                if connection.unread() && target.wants_received(id) {
                    // The target had stopped reading until its responses were sent.
                    self.unfinished.add(index);
                }
            }
            Ok(Err(_)) => {
                target.handle_closed(now, id);
                self.close(index);
            }
            Err(panic) => self.handle_panic(now, id, &panic, target),
        }
    }

    /// Closes the connection at `index`.
    pub fn close(&mut self, index: usize) {
        if let Some(connection) = self.slots[index].take() {
            self.tcp.forget(index, &connection);
            connection.close(&mut self.lending);
            self.open -= 1;
            self.acceptor.resume(Time::ZERO, true);
        }
    }

    /// Returns the sums of TCP counters over all connections, open and closed. Returns `None` if
    /// there are, or were, too many connections to read.
    pub fn tcp_counters(&mut self) -> Option<BTreeMap<String, f64>> {
        self.tcp.counters(&self.slots, self.open)
    }
}
