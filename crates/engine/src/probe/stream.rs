//! The sending side of plain TCP streams: what the path carries without a protocol above TCP.
//!
//! A stream always has data to send and waits for no answer, so only TCP and the path limit it. The
//! counters are those that the initiator reports about its own connections. A load over the same
//! path with the same socket options can therefore be compared with the streams.
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

use hakaru_contract::StreamConfig;
use hakaru_runtime::net::Socket;
use hakaru_runtime::{Interest, Reactor, Token, Waiter, clock};
use hakaru_units::Time;

use super::protocol::{CHUNK_BYTES, SINK};
use crate::address::parse_address;
use crate::control::{Control, Counters, Order};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;
use crate::tcp::{TcpLog, counters};

/// Time within which the server must accept every connection.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of chunks sent on one connection before the others have their turn.
const CHUNKS_PER_TURN: u32 = 8;
/// Entity of all streams together.
const ENTITY: &str = "tcp/streams";

/// Connects, waits for `start`, and sends for the warm-up and the measuring time.
pub fn run(config: &StreamConfig, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    config
        .validate()
        .map_err(|error| Failure::usage(&error, &error.hint))?;
    let mut streams = Streams {
        server: parse_address("connect", &config.connect)?,
        reactor,
        control,
        waiter: Waiter::sleeping(64),
        samples: Schedule::new(config.sample_interval_ms)?,
        all: Vec::new(),
        log: TcpLog::default(),
        start: None,
        stopped: false,
    };
    streams.open(config)?;
    streams.control.ready(BTreeMap::new());
    while streams.start.is_none() && !streams.stopped {
        streams.wait(None)?;
    }
    if let Some(start) = streams.start {
        streams.wait_until(start)?;
        streams.samples.start(start);
        let measure = start + Duration::from_secs_f64(config.warmup_s);
        streams.send_until("warmup", measure)?;
        streams.send_until(
            "measure",
            measure + Duration::from_secs_f64(config.measure_s),
        )?;
        streams.control.phase("drain", clock::now());
    }
    let values = streams.sample(clock::now());
    for stream in std::mem::take(&mut streams.all) {
        stream.socket.abort();
    }
    streams.control.result(clock::now(), values, Vec::new());
    Ok(())
}

/// One connection.
struct Stream {
    socket: Socket,
    /// Whether the send buffer was full at the last attempt and no event has reported room since.
    full: bool,
}

struct Streams<'a> {
    server: SocketAddr,
    reactor: &'a Reactor,
    control: &'a mut Control,
    waiter: Waiter,
    samples: Schedule,
    all: Vec<Stream>,
    log: TcpLog,
    start: Option<Time>,
    stopped: bool,
}

impl Streams<'_> {
    /// Opens every connection and sends its first byte, which makes the server discard the rest.
    fn open(&mut self, config: &StreamConfig) -> Result<(), Failure> {
        let server = self.server;
        let refused = |e: io::Error| {
            Failure::peer(
                format_args!("cannot reach the probe at {server}: {e}"),
                "start the server of the probe first",
            )
        };
        let deadline = clock::now() + ACCEPT_TIMEOUT;
        for index in 0..config.streams {
            let socket = Socket::connect_with(server, &config.socket).or_environment(
                format_args!("open stream {index} to {server}"),
                "reduce `socket`, or run as root: larger buffers need CAP_NET_ADMIN",
            )?;
            self.reactor
                .register(&socket, Token(index.into()), Interest::Edge)
                .or_environment("watch a socket", "raise the limit of open files")?;
            self.all.push(Stream {
                socket,
                full: false,
            });
        }
        for index in 0..self.all.len() {
            loop {
                match self.all[index]
                    .socket
                    .send_vectored(&[IoSlice::new(&[SINK])])
                {
                    Ok(_) => break,
                    // Linux returns ENOTCONN or EAGAIN during the handshake.
                    Err(e)
                        if matches!(
                            e.kind(),
                            io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected
                        ) => {}
                    Err(e) => return Err(refused(e)),
                }
                if clock::now() >= deadline || self.stopped {
                    return Err(refused(io::ErrorKind::TimedOut.into()));
                }
                self.wait(Some(deadline))?;
            }
        }
        Ok(())
    }

    /// Sleeps until an event or `until`, and stores the orders that arrived.
    fn wait(&mut self, until: Option<Time>) -> Result<(), Failure> {
        self.control.wait(self.reactor, &mut self.waiter, until)?;
        for event in self.waiter.events() {
            if !self.control.handle_event(event)?
                && let Some(stream) = self.all.get_mut(event.token.0 as usize)
            {
                stream.full = false;
            }
        }
        while let Some(order) = self.control.poll_order() {
            match order {
                Order::Start(at) => self.start = Some(at.max(clock::now())),
                Order::Stop => self.stopped = true,
            }
        }
        Ok(())
    }

    /// Sleeps until `instant` or until `stop`.
    fn wait_until(&mut self, instant: Time) -> Result<(), Failure> {
        while !self.stopped && clock::now() < instant {
            self.wait(Some(instant))?;
        }
        Ok(())
    }

    /// Sends during the phase `name`, which ends at `until` or with `stop`. Takes the samples that
    /// are due, and one at each end of the phase.
    fn send_until(&mut self, name: &str, until: Time) -> Result<(), Failure> {
        let begun = clock::now();
        self.sample(begun);
        self.control.phase(name, begun);
        let chunk = vec![0_u8; CHUNK_BYTES];
        while !self.stopped && clock::now() < until {
            let mut unfinished = false;
            for stream in &mut self.all {
                unfinished |= send_turn(stream, &chunk).map_err(|e| lost(self.server, &e))?;
            }
            let next = self.samples.next().map_or(until, |at| at.min(until));
            self.wait(Some(if unfinished { Time::ZERO } else { next }))?;
            if self.samples.due(clock::now()) {
                self.sample(clock::now());
            }
        }
        Ok(())
    }

    /// Sends a sample and returns the counters of all streams.
    fn sample(&mut self, at: Time) -> BTreeMap<String, f64> {
        for (index, stream) in self.all.iter().enumerate() {
            self.log.read(index, &stream.socket);
        }
        let mut values = counters(self.log.of(0..self.all.len()));
        values.insert("connections_now".to_owned(), self.all.len() as f64);
        self.control.sample(
            at,
            Counters::from([(ENTITY.to_owned(), values.clone())]),
            Vec::new(),
        );
        values.retain(|name, _| !name.ends_with("_now"));
        values
    }
}

/// Sends up to [`CHUNKS_PER_TURN`] chunks. Returns whether the send buffer still has room.
fn send_turn(stream: &mut Stream, chunk: &[u8]) -> io::Result<bool> {
    for _ in 0..CHUNKS_PER_TURN {
        if stream.full {
            break;
        }
        match stream.socket.send_vectored(&[IoSlice::new(chunk)]) {
            Ok(sent) => stream.full = sent < chunk.len(),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => stream.full = true,
            Err(e) => return Err(e),
        }
    }
    Ok(!stream.full)
}

fn lost(server: SocketAddr, e: &io::Error) -> Failure {
    Failure::peer(
        format_args!("lost the probe at {server}: {e}"),
        "check why its server ended, and whether the network works",
    )
}
