//! The sending side of plain TCP streams: what the path carries without a protocol above TCP.
//!
//! A stream always has data to send and waits for no answer, so only TCP and the path limit it. The
//! counters are those that the initiator reports about its own connections. A load over the same
//! path with the same socket options can therefore be compared with the streams.
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::time::Duration;

use hakaru_contract::StreamConfig;
use hakaru_runtime::net::Socket;
use hakaru_runtime::{Reactor, Token, clock};
use hakaru_units::Time;

use super::path::Path;
use super::protocol::{CHUNK_BYTES, SINK};
use crate::address::parse_address;
use crate::control::{Control, Counters};
use crate::failure::Failure;
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
    let server = parse_address("connect", &config.connect)?;
    let mut streams = Streams {
        path: Path::new(server, reactor, control),
        samples: Schedule::new(config.sample_interval_ms)?,
        all: Vec::new(),
        log: TcpLog::default(),
    };
    streams.open(config)?;
    streams.path.wait_for_start()?;
    if let Some(start) = streams.path.begin {
        streams.samples.start(start);
        let measure = start + Duration::from_secs_f64(config.warmup_s);
        streams.send_until("warmup", measure)?;
        streams.send_until(
            "measure",
            measure + Duration::from_secs_f64(config.measure_s),
        )?;
        streams.path.control.phase("drain", clock::now());
    }
    let values = streams.sample(clock::now());
    for stream in std::mem::take(&mut streams.all) {
        stream.socket.abort();
    }
    streams
        .path
        .control
        .result(clock::now(), values, Vec::new());
    Ok(())
}

/// One connection.
struct Stream {
    socket: Socket,
    /// Whether the send buffer was full at the last attempt and no event has reported room since.
    full: bool,
}

struct Streams<'a> {
    path: Path<'a>,
    samples: Schedule,
    all: Vec<Stream>,
    log: TcpLog,
}

impl Streams<'_> {
    /// Opens every connection and sends its first byte, which makes the server discard the rest.
    /// All connect at once, because a path may be long.
    fn open(&mut self, config: &StreamConfig) -> Result<(), Failure> {
        for index in 0..config.streams {
            let socket = self.path.connect(Token(index.into()), &config.socket)?;
            self.all.push(Stream {
                socket,
                full: false,
            });
        }
        for stream in &self.all {
            self.path.open(&stream.socket, SINK, ACCEPT_TIMEOUT)?;
        }
        Ok(())
    }

    /// Sleeps until an event or `until`. Notes which streams have room in their buffers again.
    fn wait(&mut self, until: Time) -> Result<(), Failure> {
        self.path.wait(Some(until))?;
        for event in self.path.waiter.events() {
            if let Some(stream) = self.all.get_mut(event.token.0 as usize) {
                stream.full = false;
            }
        }
        Ok(())
    }

    /// Sends during the phase `name`, which ends at `until` or with `stop`. Takes the samples that
    /// are due, and one at each end of the phase.
    fn send_until(&mut self, name: &str, until: Time) -> Result<(), Failure> {
        let begun = clock::now();
        self.sample(begun);
        self.path.control.phase(name, begun);
        let chunk = vec![0_u8; CHUNK_BYTES];
        while !self.path.stopped && clock::now() < until {
            let mut unfinished = false;
            for stream in &mut self.all {
                unfinished |= send_turn(stream, &chunk).map_err(|e| self.path.lost(&e))?;
            }
            let next = self.samples.next().map_or(until, |at| at.min(until));
            self.wait(if unfinished { Time::ZERO } else { next })?;
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
        self.path.control.sample(
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
