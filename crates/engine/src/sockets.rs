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
use hakaru_iscsi_session::{Arrival, Departure, Session, Transmit};
use hakaru_runtime::net::Socket;
use hakaru_runtime::{Event, Interest, Reactor, Token, clock};
use hakaru_units::Time;

use crate::slices::recycle;
use crate::stamps::Stamps;

/// Size of the receive buffer. A larger buffer falls out of the second-level cache between the
/// kernel's copy and our parsing.
const RECEIVE_BYTES: usize = 256 * 1024;
/// Maximum number of slices of one send. More slices take several sends.
const SLICES: usize = 128;
/// Maximum number of bytes sent with one stamp. The stamp is that of the last packet, and TCP makes
/// packets of at most half of the receive window, which is 64 KiB at first.
const STAMPED_BYTES: usize = 30 * 1024;
/// Unwanted data segments of at least this length are discarded inside the kernel. The additional
/// calls cost as much as copying several KiB.
const DISCARD_MIN_BYTES: u32 = 32 * 1024;
/// Size of the first receive after a discard. It covers the next header but little of the data
/// behind it, which may have to be discarded.
const AFTER_DISCARD_BYTES: usize = 1024;

/// The state machines above the sockets, each identified by the number of its socket.
pub trait Machines {
    /// Handles an established connection.
    fn handle_connected(&mut self, now: Time, index: usize);
    /// Handles a connection attempt that failed.
    fn handle_unreachable(&mut self, index: usize, error: &io::Error);
    /// Handles received bytes and the time of their arrival.
    fn handle_received(&mut self, arrival: Arrival, index: usize, bytes: &[u8]);
    /// Handles the end of a connection. `why` completes "connection lost …".
    fn handle_closed(&mut self, now: Time, index: usize, why: &'static str);
    /// Handles an expired timer.
    fn handle_timeout(&mut self, now: Time, index: usize);
    /// Returns the instant of the machine's next timer.
    fn poll_timeout(&self, index: usize) -> Option<Time>;
    /// Queues what is due at `now`, before the machine's bytes are sent.
    fn issue(&mut self, _now: Time, _index: usize) {}
    /// Returns the machine's queue of bytes to be sent.
    fn transmit(&mut self, index: usize) -> &mut Transmit;
    /// Returns the session of a socket.
    fn session(&self, index: usize) -> &Session;
    /// Forwards the events of a machine to its owner; called each time the machine has been served.
    /// Returns an address if the machine must connect again, to that address.
    fn settle(&mut self, index: usize) -> Option<SocketAddr>;
    /// Returns another machine that may have bytes to send because this one was served.
    fn poll_transmit(&mut self, _index: usize) -> Option<usize> {
        None
    }
    /// Returns whether the machine connects again after a loss. Its timers then run while it is not
    /// connected, and lost connections are reset, so that nothing of them is sent any more.
    fn is_persistent(&self, _index: usize) -> bool {
        false
    }
}

enum Link {
    /// No connection attempt has begun.
    Waiting,
    /// Socket and deadline of the connection attempt.
    Connecting(Socket, Time),
    /// The connection attempt failed at once, for example without a route. Its timer has expired,
    /// so that the machine learns of it in the next turn, as of an attempt that fails later.
    Failed(io::Error),
    Up {
        socket: Socket,
        /// Whether the socket's buffer is full, so that sending waits until it is writable.
        full: bool,
        /// Number of bytes sent, modulo 2^32.
        sent: u32,
        /// Whether the kernel stamps sent data. Without that setting, a stamp that a call requests
        /// would return with the data, which fill the socket's buffer.
        stamps: bool,
    },
    Down,
}

struct Entry {
    address: SocketAddr,
    link: Link,
    /// Earliest timer that is set for this socket.
    armed: Time,
    /// Whether the last receive discarded its data in the kernel.
    discarded: bool,
}

/// All sockets of an engine. Their numbers are the reactor's tokens.
pub struct Sockets<'r> {
    reactor: &'r Reactor,
    /// Limit for a connection attempt.
    timeout: Duration,
    options: SocketOptions,
    entries: Vec<Entry>,
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    buffer: Box<[u8]>,
    stamps: Stamps,
    /// Empty between two sends.
    slices: Vec<IoSlice<'static>>,
}

impl<'r> Sockets<'r> {
    /// Creates an empty set. A connection attempt may take up to `timeout`.
    pub fn new(reactor: &'r Reactor, timeout: Duration, options: SocketOptions) -> Sockets<'r> {
        Sockets {
            reactor,
            timeout,
            options,
            entries: Vec::new(),
            timers: BinaryHeap::new(),
            buffer: vec![0; RECEIVE_BYTES].into(),
            stamps: Stamps::default(),
            slices: Vec::with_capacity(SLICES),
        }
    }

    /// Adds a socket to `address`. Sockets are numbered from 0 in order.
    pub fn add(&mut self, address: SocketAddr) {
        self.entries.push(Entry {
            address,
            link: Link::Waiting,
            armed: Time::MAX,
            discarded: false,
        });
    }

    /// Returns the number of sockets.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the socket if it is connected.
    pub fn socket(&self, index: usize) -> Option<&Socket> {
        match &self.entries[index].link {
            Link::Up { socket, .. } => Some(socket),
            _ => None,
        }
    }

    /// Returns the instant at which [`Sockets::handle_timeouts`] is due.
    pub fn poll_timeout(&self) -> Time {
        self.timers.peek().map_or(Time::MAX, |&Reverse((at, _))| at)
    }

    /// Handles the timers that expired by `now`.
    pub fn handle_timeouts(&mut self, now: Time, machines: &mut impl Machines) {
        while let Some(&Reverse((at, index))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let entry = &mut self.entries[index];
            if entry.armed == at {
                entry.armed = Time::MAX;
            }
            match &mut entry.link {
                Link::Connecting(_, limit) if now >= *limit => {
                    let error = io::Error::new(io::ErrorKind::TimedOut, "no answer");
                    self.lose_connection(index, &error, machines);
                    self.flush(index, machines);
                }
                Link::Failed(error) => {
                    let error = std::mem::replace(error, io::ErrorKind::Other.into());
                    self.lose_connection(index, &error, machines);
                    self.flush(index, machines);
                }
                Link::Up { .. } => {
                    machines.handle_timeout(now, index);
                    self.flush(index, machines);
                }
                Link::Connecting(..) | Link::Waiting | Link::Down => {
                    if machines.is_persistent(index) {
                        machines.handle_timeout(now, index);
                        self.flush(index, machines);
                    }
                    if let Link::Connecting(_, limit) = self.entries[index].link {
                        self.arm(index, limit);
                    }
                }
            }
        }
    }

    /// Serves the socket of the event. Returns whether any data was received.
    pub fn handle_event(&mut self, event: Event, machines: &mut impl Machines) -> bool {
        let index = event.token.0 as usize;
        let Some(entry) = self.entries.get_mut(index) else {
            return false;
        };
        if matches!(entry.link, Link::Connecting(..)) {
            if event.writable {
                self.finish_connecting(index, machines);
            }
            return false;
        }
        if event.writable
            && let Link::Up { full, .. } = &mut entry.link
        {
            *full = false;
        }
        let received = event.readable && self.receive(index, event.closed, machines);
        self.flush(index, machines);
        received
    }

    /// Begins to connect.
    pub fn connect(&mut self, index: usize, machines: &mut impl Machines) {
        self.disconnect(index, machines);
        let entry = &mut self.entries[index];
        entry.discarded = false;
        let begun = Socket::connect_with(entry.address, &self.options).and_then(|socket| {
            // Without stamps of received data, data arrives when it is read.
            let _ = socket.enable_stamps();
            self.reactor
                .register(&socket, Token(index as u64), Interest::Edge)?;
            Ok(socket)
        });
        match begun {
            Ok(socket) => {
                let limit = clock::now() + self.timeout;
                entry.link = Link::Connecting(socket, limit);
                self.arm(index, limit);
            }
            Err(error) => {
                entry.link = Link::Failed(error);
                self.arm(index, clock::now());
            }
        }
    }

    /// Completes the service of a machine and of the machines that it affects: sends the queued
    /// bytes, forwards the events, and sets the timer.
    pub fn flush(&mut self, index: usize, machines: &mut impl Machines) {
        self.flush_socket(index, machines);
        while let Some(other) = machines.poll_transmit(index) {
            self.flush_socket(other, machines);
        }
    }

    fn flush_socket(&mut self, index: usize, machines: &mut impl Machines) {
        machines.issue(clock::now(), index);
        self.send(index, machines);
        while let Some(address) = machines.settle(index) {
            self.entries[index].address = address;
            self.connect(index, machines);
        }
        let link = &self.entries[index].link;
        let is_connecting = matches!(link, Link::Connecting(..) | Link::Failed(_));
        if machines.session(index).is_ended() && !is_connecting {
            self.disconnect(index, machines);
        }
        if let Some(at) = machines.poll_timeout(index) {
            self.arm(index, at);
        }
    }

    fn finish_connecting(&mut self, index: usize, machines: &mut impl Machines) {
        let entry = &mut self.entries[index];
        let Link::Connecting(socket, _) = std::mem::replace(&mut entry.link, Link::Down) else {
            return;
        };
        match socket.take_error() {
            Ok(()) => {
                // Without stamps of sent data, commands leave when they are passed to the kernel.
                let stamps = socket.enable_sent_stamps().is_ok();
                entry.link = Link::Up {
                    socket,
                    full: false,
                    sent: 0,
                    stamps,
                };
                machines.handle_connected(clock::now(), index);
                self.flush(index, machines);
            }
            Err(error) => {
                self.lose_connection(index, &error, machines);
                self.flush(index, machines);
            }
        }
    }

    /// Closes the connection of a socket, if there is one.
    fn disconnect(&mut self, index: usize, machines: &impl Machines) {
        let link = std::mem::replace(&mut self.entries[index].link, Link::Down);
        if let Link::Up { socket, .. } = link
            && machines.is_persistent(index)
        {
            socket.abort();
        }
    }

    fn lose_connection(&mut self, index: usize, error: &io::Error, machines: &mut impl Machines) {
        self.entries[index].link = Link::Down;
        machines.handle_unreachable(index, error);
    }

    /// Receives until the socket is drained. If `closed`, receives to the end of the stream,
    /// because no further event will announce it. Returns whether any data was received.
    fn receive(&mut self, index: usize, closed: bool, machines: &mut impl Machines) -> bool {
        let mut any = false;
        loop {
            let entry = &mut self.entries[index];
            let Link::Up { socket, .. } = &entry.link else {
                return any;
            };
            let unwanted = machines.session(index).unwanted_bytes(DISCARD_MIN_BYTES);
            let discard = unwanted > 0;
            let most = self.buffer.len();
            let buffer = match (discard, entry.discarded) {
                (true, _) => &mut self.buffer[..unwanted.min(most)],
                (false, true) => &mut self.buffer[..AFTER_DISCARD_BYTES],
                (false, false) => &mut self.buffer[..],
            };
            // A discard ends with a response at the latest, so only its last instant matters.
            let many = !discard && machines.session(index).tasks() > 1;
            let first = if many { socket.peek_stamp() } else { Ok(None) };
            let received = first.and_then(|first| {
                let (n, last) = socket.receive_stamped(buffer, discard)?;
                Ok((n, first, last))
            });
            let now = clock::now();
            match received {
                // No stream continues after its end or an error. The session may be a new one that
                // has no connection yet, after a redirect.
                Ok((0, ..)) => {
                    machines.handle_closed(now, index, "(closed by the target)");
                    return any;
                }
                Ok((n, first, last)) => {
                    any = true;
                    entry.discarded = discard;
                    let drained = n < buffer.len() && !closed;
                    let arrival = self.stamps.arrival(first, last, now);
                    machines.handle_received(arrival, index, &self.buffer[..n]);
                    if drained {
                        return any;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return any,
                Err(error) => {
                    machines.handle_closed(now, index, why_lost(&error));
                    return any;
                }
            }
            if machines.session(index).is_ended() {
                return any;
            }
        }
    }

    fn send(&mut self, index: usize, machines: &mut impl Machines) {
        let Link::Up {
            socket,
            full,
            sent,
            stamps,
        } = &mut self.entries[index].link
        else {
            return;
        };
        let transmit = machines.transmit(index);
        while !*full && !transmit.is_empty() {
            // A call without a command needs no stamp, so it may be longer than a packet.
            let stamped = *stamps && transmit.has_command_within(STAMPED_BYTES);
            let most = if stamped { STAMPED_BYTES } else { usize::MAX };
            let mut slices = recycle(std::mem::take(&mut self.slices));
            let length = collect(transmit, most, &mut slices);
            let passed = clock::now();
            let result = if stamped {
                socket.send_stamped(&slices)
            } else {
                socket.send_vectored(&slices)
            };
            self.slices = recycle(slices);
            match result {
                Ok(n) => {
                    *sent = sent.wrapping_add(n as u32);
                    let left = stamped.then(|| self.stamps.departure(socket, *sent));
                    let left = left.flatten().unwrap_or(passed).max(passed);
                    transmit.advance(Departure { passed, left }, n);
                    *full = n < length;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => *full = true,
                Err(error) => {
                    return machines.handle_closed(clock::now(), index, why_lost(&error));
                }
            }
        }
    }

    /// Sets a timer, unless an earlier timer is set for the socket. When that timer expires, the
    /// later one is set again.
    fn arm(&mut self, index: usize, at: Time) {
        let entry = &mut self.entries[index];
        if at < entry.armed {
            entry.armed = at;
            self.timers.push(Reverse((at, index)));
        }
    }
}

/// Adds the first queued bytes to `slices`, at most `most`. Returns their number.
fn collect<'a>(transmit: &'a Transmit, most: usize, slices: &mut Vec<IoSlice<'a>>) -> usize {
    let mut length = 0;
    for slice in transmit.slices().take(SLICES) {
        if length == most {
            break;
        }
        let slice = &slice[..slice.len().min(most - length)];
        length += slice.len();
        slices.push(IoSlice::new(slice));
    }
    length
}

fn why_lost(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "(reset by the target)",
        io::ErrorKind::TimedOut => "(the network does not answer)",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "(no route to the target)"
        }
        _ => "(socket error)",
    }
}
