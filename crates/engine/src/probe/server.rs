//! The answering side of a probe.
use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::time::Duration;

use hakaru_contract::SocketOptions;
use hakaru_runtime::net::Socket;
use hakaru_runtime::{Interest, Reactor, Token, Waiter, clock};
use hakaru_units::Time;
use serde_json::json;

use super::protocol::{CHUNK_BYTES, DRAIN, ECHO, Report, SINK, SOURCE};
use crate::accept::{Accept, Acceptor};
use crate::address::parse_address;
use crate::control::{Control, Order};
use crate::failure::Failure;

const LISTENER: Token = Token(0);

/// Interval of the reports of a draining connection: 20 reports in the shortest sensible
/// measurement, and 3 kB/s on the way back.
const REPORT_EVERY: Duration = Duration::from_millis(5);

/// Maximum number of chunks moved for one connection before the others have their turn.
const CHUNKS_PER_TURN: u32 = 8;

/// Answers until `stop`.
pub fn run(
    listen: &str,
    options: &SocketOptions,
    reactor: &Reactor,
    control: &mut Control,
) -> Result<(), Failure> {
    let address = parse_address("listen", listen)?;
    options
        .validate("socket")
        .map_err(|error| Failure::usage(&error, &error.hint))?;
    let acceptor = Acceptor::listen(&[address], options, reactor, LISTENER.0)?;
    let bound = acceptor.addresses()[0];
    control.ready(BTreeMap::from([(
        "listen".to_owned(),
        json!(bound.to_string()),
    )]));
    Server {
        reactor,
        acceptor,
        clients: HashMap::new(),
        tokens_used: 0,
        buffer: vec![0; CHUNK_BYTES],
    }
    .serve(control)
}

struct Server<'r> {
    reactor: &'r Reactor,
    acceptor: Acceptor<'r>,
    clients: HashMap<Token, Client>,
    tokens_used: u64,
    buffer: Vec<u8>,
}

struct Client {
    socket: Socket,
    duty: Option<Duty>,
}

/// Duty of a connection, selected by its first byte.
enum Duty {
    Echo {
        /// Bytes received and not sent back yet.
        unsent: Vec<u8>,
    },
    Drain {
        total: u64,
        report_at: Time,
    },
    Sink,
    Source,
}

/// Result of a turn of a client.
#[derive(PartialEq, Eq)]
enum Turn {
    /// No bytes can be moved until the next event.
    Blocked,
    /// More bytes can be moved; the other connections have their turn first.
    Unfinished,
    /// The connection has ended.
    Closed,
}

impl Server<'_> {
    fn serve(&mut self, control: &mut Control) -> Result<(), Failure> {
        let mut waiter = Waiter::sleeping(64);
        let mut unfinished: Vec<Token> = Vec::new();
        loop {
            let until = if unfinished.is_empty() {
                self.acceptor.poll_timeout()
            } else {
                Some(Time::ZERO)
            };
            control.wait(self.reactor, &mut waiter, until)?;
            let mut turns = std::mem::take(&mut unfinished);
            for event in waiter.events() {
                if control.handle_event(event)? {
                    continue;
                }
                if event.token == LISTENER {
                    self.accept(control);
                } else if !turns.contains(&event.token) {
                    turns.push(event.token);
                }
            }
            let mut closed = false;
            for token in turns {
                match self.run_turn(token) {
                    Turn::Blocked => {}
                    Turn::Unfinished => unfinished.push(token),
                    Turn::Closed => {
                        self.clients.remove(&token);
                        closed = true;
                    }
                }
            }
            self.acceptor.resume(clock::now(), closed);
            while let Some(order) = control.poll_order() {
                if order == Order::Stop {
                    control.result(clock::now(), BTreeMap::new(), Vec::new());
                    return Ok(());
                }
            }
        }
    }

    fn accept(&mut self, control: &Control) {
        loop {
            match self.acceptor.accept(clock::now(), 0, self.clients.len()) {
                Accept::Connection(socket, _) => {
                    self.tokens_used += 1;
                    let token = Token(self.tokens_used);
                    match self.reactor.register(&socket, token, Interest::Edge) {
                        Ok(()) => {
                            self.clients.insert(token, Client { socket, duty: None });
                        }
                        Err(error) => control.error(&watch_failure(&error), false),
                    }
                }
                Accept::Nothing => return,
                Accept::Failed(failure) => {
                    if let Some(failure) = failure {
                        control.error(&failure, false);
                    }
                    return;
                }
            }
        }
    }

    fn run_turn(&mut self, token: Token) -> Turn {
        let Some(client) = self.clients.get_mut(&token) else {
            return Turn::Blocked;
        };
        for _ in 0..CHUNKS_PER_TURN {
            match client.step(&mut self.buffer) {
                Ok(true) => {}
                Ok(false) => return Turn::Closed,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Turn::Blocked,
                Err(_) => return Turn::Closed,
            }
        }
        Turn::Unfinished
    }
}

impl Client {
    /// Moves one chunk. Returns `Ok(false)` at the end of the stream, or if the first byte is
    /// unknown.
    fn step(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        match &mut self.duty {
            None => {
                let mut first = [0];
                if self.socket.receive(&mut first)? == 0 {
                    return Ok(false);
                }
                self.duty = Duty::parse(first[0]);
                Ok(self.duty.is_some())
            }
            Some(Duty::Echo { unsent }) => {
                if unsent.is_empty() {
                    let n = self.socket.receive(buffer)?;
                    unsent.extend_from_slice(&buffer[..n]);
                    if n == 0 {
                        return Ok(false);
                    }
                }
                let sent = self.socket.send_vectored(&[IoSlice::new(unsent)])?;
                unsent.drain(..sent);
                Ok(true)
            }
            Some(Duty::Drain { total, report_at }) => {
                let n = self.socket.receive(buffer)?;
                *total += n as u64;
                let now = clock::now();
                if now >= *report_at {
                    *report_at = now + REPORT_EVERY;
                    // Reports are few and small, so they fit the socket's buffer unless the client
                    // never reads them.
                    let report = Report {
                        at: now,
                        total: *total,
                    };
                    self.socket.send_vectored(&[IoSlice::new(&report.emit())])?;
                }
                Ok(n > 0)
            }
            Some(Duty::Sink) => Ok(self.socket.receive(buffer)? > 0),
            Some(Duty::Source) => {
                buffer.fill(0);
                self.socket.send_vectored(&[IoSlice::new(buffer)])?;
                Ok(true)
            }
        }
    }
}

impl Duty {
    fn parse(first: u8) -> Option<Duty> {
        match first {
            ECHO => Some(Duty::Echo { unsent: Vec::new() }),
            DRAIN => Some(Duty::Drain {
                total: 0,
                report_at: Time::ZERO,
            }),
            SINK => Some(Duty::Sink),
            SOURCE => Some(Duty::Source),
            _ => None,
        }
    }
}

fn watch_failure(error: &io::Error) -> Failure {
    Failure::environment(
        format_args!("cannot watch a connection of a probe client: {error}"),
        "raise the number of watches (fs.epoll.max_user_watches)",
    )
}
