//! Sockets of iSCSI sessions, shared by the engines that are initiators: connecting, receiving,
//! sending and timers.
//!
//! One receive buffer serves all sessions, because a session consumes all received bytes at once.
//! One call sends everything that a session has queued. Sockets are edge-triggered, so each event
//! is served until the socket is drained or full.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

use hakaru_contract::SocketOptions;
use hakaru_iscsi_session::{Session, Transmit};
use hakaru_runtime::net::Socket;
use hakaru_runtime::{Event, Interest, Reactor, Token, clock};
use hakaru_units::Time;

use crate::slices::recycle;

/// Size of the receive buffer. A larger buffer falls out of the second-level cache between the
/// kernel's copy and our parsing.
const RECEIVE_BYTES: usize = 256 * 1024;
/// Slices of one send; more slices take several sends.
const SLICES: usize = 128;
/// Unwanted data segments of at least this length are discarded inside the kernel. The calls for
/// that cost as much as copying some KiB.
const DISCARD_MIN_BYTES: u32 = 32 * 1024;
/// Size of the first receive after a discard: the next header, without data that would be
/// discarded.
const AFTER_DISCARD_BYTES: usize = 1024;

/// The machines above the sockets, each by the number of its socket.
pub trait Machines {
    /// The connection is established.
    fn handle_connected(&mut self, now: Time, index: usize);
    /// The connection could not be made.
    fn handle_unreachable(&mut self, index: usize, error: &io::Error);
    /// Takes what was received.
    fn handle_received(&mut self, now: Time, index: usize, bytes: &[u8]);
    /// The connection ended; `why` completes "connection lost …".
    fn handle_closed(&mut self, now: Time, index: usize, why: &'static str);
    /// A timer has expired.
    fn handle_timeout(&mut self, now: Time, index: usize);
    /// Instant of the machine's next timer.
    fn poll_timeout(&self, index: usize) -> Option<Time>;
    /// Returns the machine's queue of bytes to be sent.
    fn transmit(&mut self, index: usize) -> &mut Transmit;
    /// Returns the session of a socket.
    fn session(&self, index: usize) -> &Session;
    /// Called after every service of a machine: forwards its events to its owner. Returns the
    /// address if the machine is to connect again.
    fn settle(&mut self, index: usize) -> Option<SocketAddr>;
    /// Returns another machine that may have bytes to send because this one was served.
    fn poll_transmit(&mut self, _index: usize) -> Option<usize> {
        None
    }
}

enum Link {
    /// No attempt has begun.
    Waiting,
    /// Socket and deadline of the attempt.
    Connecting(Socket, Time),
    Up {
        socket: Socket,
        /// The socket's buffer is full: wait until it is writable.
        full: bool,
    },
    Down,
}

struct Place {
    address: SocketAddr,
    link: Link,
    /// Earliest timer that is set for this socket.
    armed: Time,
    /// The last data were discarded in the kernel.
    discarded: bool,
}

/// All sockets of an engine. Their numbers are the reactor's tokens.
pub struct Sockets<'r> {
    reactor: &'r Reactor,
    /// Limit for a connection attempt.
    timeout: Duration,
    options: SocketOptions,
    places: Vec<Place>,
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    buffer: Box<[u8]>,
    /// Empty between two sends.
    slices: Vec<IoSlice<'static>>,
}

impl<'r> Sockets<'r> {
    /// Starts without sockets. A connection attempt may take up to `timeout`.
    pub fn new(reactor: &'r Reactor, timeout: Duration, options: SocketOptions) -> Sockets<'r> {
        Sockets {
            reactor,
            timeout,
            options,
            places: Vec::new(),
            timers: BinaryHeap::new(),
            buffer: vec![0; RECEIVE_BYTES].into(),
            slices: Vec::with_capacity(SLICES),
        }
    }

    /// Adds a socket to `address`. Sockets are numbered from 0 in order.
    pub fn add(&mut self, address: SocketAddr) {
        self.places.push(Place {
            address,
            link: Link::Waiting,
            armed: Time::MAX,
            discarded: false,
        });
    }

    /// Returns the number of sockets.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns the socket if it is connected.
    pub fn socket(&self, index: usize) -> Option<&Socket> {
        match &self.places[index].link {
            Link::Up { socket, .. } => Some(socket),
            _ => None,
        }
    }

    /// Instant at which [`Sockets::handle_timeouts`] is due.
    pub fn poll_timeout(&self) -> Time {
        self.timers.peek().map_or(Time::MAX, |&Reverse((at, _))| at)
    }

    /// Handles the timers that expired by `now`.
    pub fn handle_timeouts(&mut self, now: Time, machines: &mut impl Machines) {
        while let Some(&Reverse((at, index))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let place = &mut self.places[index];
            if place.armed == at {
                place.armed = Time::MAX;
            }
            match place.link {
                Link::Connecting(_, limit) if now >= limit => {
                    let error = io::Error::new(io::ErrorKind::TimedOut, "no answer");
                    self.lose_connection(index, &error, machines);
                }
                Link::Connecting(_, limit) => self.arm(index, limit),
                Link::Up { .. } => {
                    machines.handle_timeout(now, index);
                    self.flush(index, machines);
                }
                Link::Waiting | Link::Down => {}
            }
        }
    }

    /// Serves the socket of the event. Returns whether any data were received.
    pub fn handle_event(&mut self, event: Event, machines: &mut impl Machines) -> bool {
        let index = event.token.0 as usize;
        let Some(place) = self.places.get_mut(index) else {
            return false;
        };
        if matches!(place.link, Link::Connecting(..)) {
            if event.writable {
                self.finish_connecting(index, machines);
            }
            return false;
        }
        if event.writable
            && let Link::Up { full, .. } = &mut place.link
        {
            *full = false;
        }
        let received = event.readable && self.receive(index, event.closed, machines);
        self.flush(index, machines);
        received
    }

    /// Begins to connect.
    pub fn connect(&mut self, index: usize, machines: &mut impl Machines) {
        let place = &mut self.places[index];
        let begun = Socket::connect_with(place.address, &self.options).and_then(|socket| {
            self.reactor
                .register(&socket, Token(index as u64), Interest::Edge)?;
            Ok(socket)
        });
        match begun {
            Ok(socket) => {
                let limit = clock::now() + self.timeout;
                place.link = Link::Connecting(socket, limit);
                self.arm(index, limit);
            }
            Err(error) => self.lose_connection(index, &error, machines),
        }
    }

    /// Ends the service of a machine, and of the machines that it affects: sends the queued bytes,
    /// forwards the events, sets the timer.
    pub fn flush(&mut self, index: usize, machines: &mut impl Machines) {
        self.flush_socket(index, machines);
        while let Some(other) = machines.poll_transmit(index) {
            self.flush_socket(other, machines);
        }
    }

    fn flush_socket(&mut self, index: usize, machines: &mut impl Machines) {
        self.send(index, machines);
        while let Some(address) = machines.settle(index) {
            self.places[index].address = address;
            self.connect(index, machines);
        }
        let place = &mut self.places[index];
        if machines.session(index).is_ended() && !matches!(place.link, Link::Connecting(..)) {
            place.link = Link::Down;
        }
        if let Some(at) = machines.poll_timeout(index) {
            self.arm(index, at);
        }
    }

    fn finish_connecting(&mut self, index: usize, machines: &mut impl Machines) {
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
                machines.handle_connected(clock::now(), index);
                self.flush(index, machines);
            }
            Err(error) => self.lose_connection(index, &error, machines),
        }
    }

    fn lose_connection(&mut self, index: usize, error: &io::Error, machines: &mut impl Machines) {
        self.places[index].link = Link::Down;
        machines.handle_unreachable(index, error);
    }

    /// Receives until the socket is drained. If `closed`, receives to the end of the stream,
    /// because no further event will announce it. Returns whether any data were received.
    fn receive(&mut self, index: usize, closed: bool, machines: &mut impl Machines) -> bool {
        let mut any = false;
        loop {
            let place = &mut self.places[index];
            let Link::Up { socket, .. } = &place.link else {
                return any;
            };
            let unwanted = machines.session(index).unwanted_bytes(DISCARD_MIN_BYTES);
            let discard = unwanted > 0;
            let most = self.buffer.len();
            let buffer = match (discard, place.discarded) {
                (true, _) => &mut self.buffer[..unwanted.min(most)],
                (false, true) => &mut self.buffer[..AFTER_DISCARD_BYTES],
                (false, false) => &mut self.buffer[..],
            };
            let received = if discard {
                socket.discard(buffer)
            } else {
                socket.receive(buffer)
            };
            let now = clock::now();
            match received {
                Ok(0) => machines.handle_closed(now, index, "(closed by the target)"),
                Ok(n) => {
                    any = true;
                    place.discarded = discard;
                    let drained = n < buffer.len() && !closed;
                    machines.handle_received(now, index, &self.buffer[..n]);
                    if drained {
                        return any;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return any,
                Err(error) => machines.handle_closed(now, index, why_lost(&error)),
            }
            if machines.session(index).is_ended() {
                return any;
            }
        }
    }

    fn send(&mut self, index: usize, machines: &mut impl Machines) {
        let Link::Up { socket, full } = &mut self.places[index].link else {
            return;
        };
        let transmit = machines.transmit(index);
        while !*full && !transmit.is_empty() {
            match send_once(socket, transmit, &mut self.slices) {
                Ok(taken_all) => *full = !taken_all,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => *full = true,
                Err(error) => {
                    return machines.handle_closed(clock::now(), index, why_lost(&error));
                }
            }
        }
    }

    /// Sets a timer unless an earlier one is set, which sets it again.
    fn arm(&mut self, index: usize, at: Time) {
        let place = &mut self.places[index];
        if at < place.armed {
            place.armed = at;
            self.timers.push(Reverse((at, index)));
        }
    }
}

/// Sends the queued bytes with one call. Returns whether the socket accepted all of them.
fn send_once(
    socket: &Socket,
    transmit: &mut Transmit,
    spare: &mut Vec<IoSlice<'static>>,
) -> io::Result<bool> {
    let mut slices = recycle(std::mem::take(spare));
    slices.extend(transmit.slices().take(SLICES).map(IoSlice::new));
    let length: usize = slices.iter().map(|slice| slice.len()).sum();
    let sent = socket.send_vectored(&slices);
    *spare = recycle(slices);
    let sent = sent?;
    transmit.advance(clock::now(), sent);
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
