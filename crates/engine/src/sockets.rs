//! Sockets under iSCSI sessions, whatever the sessions are for: connect, receive all that is ready,
//! send all that is queued, timers.
//!
//! One receive buffer serves all sessions, since a session takes whatever it is given; one call
//! carries everything a session has queued. Sockets are edge-triggered, so each event is served
//! until the socket is drained or full.
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

/// Receive buffer. Larger ones fall out of the second-level cache between the kernel's copy and our
/// look.
const RECEIVE_BYTES: usize = 256 * 1024;
/// Slices of one send; what has more goes in several.
const SLICES: usize = 128;
/// Data segments that nobody looks at are thrown away inside the kernel if they have at least so
/// many bytes: the calls for it cost as much as copying some KiB.
const DISCARD_MIN_BYTES: u32 = 32 * 1024;
/// Received at once after that: the next header, and not also what would be thrown away.
const AFTER_DISCARD_BYTES: usize = 1024;

/// The machines above the sockets, each by the number of its socket.
pub trait Machines {
    /// The connection stands.
    fn handle_connected(&mut self, now: Time, index: usize);
    /// The connection could not be made.
    fn handle_unreachable(&mut self, index: usize, error: &io::Error);
    /// Takes what was received.
    fn handle_received(&mut self, now: Time, index: usize, bytes: &[u8]);
    /// The connection ended; `why` completes "connection lost …".
    fn handle_closed(&mut self, now: Time, index: usize, why: &'static str);
    /// Something may be due.
    fn handle_timeout(&mut self, now: Time, index: usize);
    /// When that is wanted next.
    fn poll_timeout(&self, index: usize) -> Option<Time>;
    /// What is to be sent.
    fn transmit(&mut self, index: usize) -> &mut Transmit;
    /// Returns the session of a socket.
    fn session(&self, index: usize) -> &Session;
    /// The end of every service: tells its owner what has come up. An address: connect again,
    /// there.
    fn settle(&mut self, index: usize) -> Option<SocketAddr>;
    /// Another machine that may have something to send by now, if serving this one can bring that
    /// about.
    fn poll_transmit(&mut self, _index: usize) -> Option<usize> {
        None
    }
}

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
    address: SocketAddr,
    link: Link,
    /// Earliest timer that is set for it.
    armed: Time,
    /// What came last was thrown away.
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
    /// None yet; a connection attempt may take as long as `timeout`.
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

    /// Adds one to `address`, numbered from 0 in order.
    pub fn add(&mut self, address: SocketAddr) {
        self.places.push(Place {
            address,
            link: Link::Waiting,
            armed: Time::MAX,
            discarded: false,
        });
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The connected socket, if it is.
    pub fn socket(&self, index: usize) -> Option<&Socket> {
        match &self.places[index].link {
            Link::Up { socket, .. } => Some(socket),
            _ => None,
        }
    }

    /// When [`Sockets::handle_timeouts`] is wanted next.
    pub fn poll_timeout(&self) -> Time {
        self.timers.peek().map_or(Time::MAX, |&Reverse((at, _))| at)
    }

    /// Timers that have come by `now`.
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

    /// Serves the socket that the event is about. Whether anything was received.
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

    /// Sends what is queued, tells what has come up, sets the timer: the end of every service of a
    /// machine, and of all that it has brought about.
    pub fn flush(&mut self, index: usize, machines: &mut impl Machines) {
        self.flush_one(index, machines);
        while let Some(other) = machines.poll_transmit(index) {
            self.flush_one(other, machines);
        }
    }

    fn flush_one(&mut self, index: usize, machines: &mut impl Machines) {
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

    /// Receives until the socket is drained; if `closed`, to the end of the stream, of which
    /// nothing will tell again. Whether there was anything.
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

    /// Sets a timer unless an earlier one is set, which will look again.
    fn arm(&mut self, index: usize, at: Time) {
        let place = &mut self.places[index];
        if at < place.armed {
            place.armed = at;
            self.timers.push(Reverse((at, index)));
        }
    }
}

/// One call with what is queued; whether the socket took all of it.
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
