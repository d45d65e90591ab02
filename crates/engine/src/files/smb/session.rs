//! One session with a share, on a socket of its own. The calling thread waits for each answer.
use std::io::{self, IoSlice};
use std::sync::Arc;

use hakaru_contract::smb::SmbCompound;
use hakaru_runtime::net::Socket;
use hakaru_runtime::{Events, Interest, Reactor, Token, clock};
use hakaru_smb::wire::Path;
use hakaru_smb::{
    Connection, ConnectionError, Event, FileRun, FileSteps, Op, OpError, OpId, Output,
    SessionFacts, Step, StepDone,
};
use hakaru_units::Time;

use super::problem::{io_error, of_session};
use super::settings::Settings;
use crate::failure::{Failure, OrEnvironment};

const RECEIVE_BYTES: usize = 128 << 10;
/// Slices that are passed to the kernel at once.
const SLICES: usize = 64;
/// Unwanted bytes from which on the kernel discards them; for fewer, a copy costs less.
const DISCARD_MIN_BYTES: usize = 16 << 10;

/// A session that is ready. It ends with its socket, when this is dropped; the server then closes
/// its files.
pub struct Session {
    settings: Arc<Settings>,
    reactor: Reactor,
    events: Events,
    socket: Socket,
    connection: Connection,
    steps: FileSteps,
    run: FileRun,
    /// Whether the socket's buffer is full.
    full: bool,
    buffer: Vec<u8>,
    lost: Option<ConnectionError>,
}

impl Session {
    /// Connects and logs in.
    ///
    /// # Errors
    /// The server does not listen, does not answer in time, or refuses the session.
    pub fn begin(settings: &Arc<Settings>) -> Result<Session, Failure> {
        let limit = clock::now() + settings.connect_timeout;
        let reactor =
            Reactor::new().or_environment("create a reactor", "raise the limit of open files")?;
        let unreachable = |error: &io::Error| {
            Failure::environment(
                format_args!("cannot connect to {}: {error}", settings.locate("")),
                "check the address, and whether the file server runs",
            )
        };
        let socket = Socket::connect(settings.address).map_err(|error| unreachable(&error))?;
        reactor
            .register(&socket, Token(0), Interest::Edge)
            .or_environment("watch a socket", "raise the limit of open files")?;
        let mut session = Session {
            connection: Connection::new(settings.config.clone(), Settings::entropy()),
            settings: Arc::clone(settings),
            reactor,
            events: Events::with_capacity(4),
            socket,
            steps: FileSteps::new(settings.compound != SmbCompound::None),
            run: FileRun::new(),
            full: true,
            buffer: vec![0; RECEIVE_BYTES],
            lost: None,
        };
        session
            .connect(limit)
            .map_err(|error| unreachable(&error))?;
        session.connection.handle_connected(clock::now());
        loop {
            match session.connection.poll_event() {
                Some(Event::Ready(_)) => return Ok(session),
                Some(Event::Lost(error)) => return Err(session.failure(&error)),
                Some(_) => {}
                None => {
                    let served = session.serve(Some(limit));
                    served.map_err(|error| unreachable(&error))?;
                }
            }
        }
    }

    /// Returns facts about the session, unless it has ended.
    pub fn facts(&self) -> Option<&SessionFacts> {
        self.connection.facts()
    }

    /// Returns the failure that ended the session, if one did.
    pub fn lost(&self) -> Option<Failure> {
        self.lost.as_ref().map(|error| self.failure(error))
    }

    /// Returns the path of a file below the share.
    pub fn path(&self, below: &str) -> Path {
        self.settings.path(below)
    }

    /// Carries out a step.
    ///
    /// # Errors
    /// The server refused it, or the session has ended.
    pub fn step(&mut self, step: Step) -> io::Result<StepDone> {
        let begun = self.steps.begin(clock::now(), &mut self.connection, step);
        begun.map_err(io_error)?;
        loop {
            while let Some(event) = self.connection.poll_event() {
                let Event::Done(done) = event else { continue };
                self.note(&done.result);
                let now = clock::now();
                if self.run.owns(done.id) {
                    // The close of a file whose steps have ended.
                    self.run.handle_done(now, &mut self.connection, done);
                    continue;
                }
                let ended = self.steps.handle_done(now, &mut self.connection, done);
                if let Some(ended) = ended {
                    return match ended.result {
                        Ok(_) => Ok(ended),
                        Err(error) => Err(io_error(error)),
                    };
                }
            }
            self.serve(None)?;
        }
    }

    /// Begins steps of one file and sends them, without waiting for their ends. Returns the id of the
    /// first one; those of the others follow it.
    ///
    /// # Errors
    /// As [`FileRun::begin`].
    pub fn begin_steps(&mut self, steps: Vec<Step>) -> io::Result<OpId> {
        let first = self.run.begin(clock::now(), &mut self.connection, steps);
        self.send();
        first.map_err(io_error)
    }

    /// Waits until steps that [`Session::begin_steps`] has begun end, and appends all of them that have.
    ///
    /// # Errors
    /// The session has ended, and no step is in flight.
    pub fn wait(&mut self, ended: &mut Vec<(OpId, StepDone)>) -> io::Result<()> {
        loop {
            while let Some(event) = self.connection.poll_event() {
                let Event::Done(done) = event else { continue };
                self.note(&done.result);
                let (id, now) = (done.id, clock::now());
                let step = self.run.handle_done(now, &mut self.connection, done);
                ended.extend(step.map(|step| (id, step)));
            }
            if !ended.is_empty() {
                return Ok(());
            }
            if self.connection.is_ended() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            self.serve(None)?;
        }
    }

    /// Carries out an operation.
    ///
    /// # Errors
    /// As [`Session::step`].
    pub fn call(&mut self, op: Op) -> io::Result<Output> {
        self.connection.submit(clock::now(), op);
        loop {
            match self.connection.poll_event() {
                Some(Event::Done(done)) => {
                    self.note(&done.result);
                    return done.result.map_err(|error| io_error(error.into()));
                }
                Some(_) => {}
                None => self.serve(None)?,
            }
        }
    }

    fn note(&mut self, result: &Result<Output, OpError>) {
        if let Err(OpError::Lost(error)) = result {
            self.lost.get_or_insert(*error);
        }
    }

    fn failure(&self, error: &ConnectionError) -> Failure {
        of_session(&self.settings.locate(""), error)
    }

    /// Waits until the socket is connected.
    fn connect(&mut self, limit: Time) -> io::Result<()> {
        while self.full {
            check_time(limit)?;
            self.reactor.wait(&mut self.events, Some(limit))?;
            self.full = !self.events.iter().any(|event| event.writable);
        }
        self.socket.take_error()
    }

    /// Sends what is queued, waits for the socket or a time limit, and handles what was received.
    fn serve(&mut self, limit: Option<Time>) -> io::Result<()> {
        self.send();
        if self.connection.is_ended() {
            return Ok(());
        }
        if let Some(limit) = limit {
            check_time(limit)?;
        }
        let until = [limit, self.connection.poll_timeout()];
        let until = until.into_iter().flatten().min();
        self.reactor.wait(&mut self.events, until)?;
        let (mut readable, mut closed) = (false, false);
        for event in self.events.iter() {
            self.full &= !event.writable;
            readable |= event.readable;
            closed |= event.closed;
        }
        if readable {
            self.receive(closed);
        }
        self.connection.handle_timeout(clock::now());
        Ok(())
    }

    /// Receives until the socket is drained; if `closed`, to the end of the stream, because no
    /// further event announces it.
    fn receive(&mut self, closed: bool) {
        while !self.connection.is_ended() {
            let unwanted = self.connection.unwanted_bytes();
            let discards = unwanted >= DISCARD_MIN_BYTES;
            let length = match discards {
                true => unwanted.min(RECEIVE_BYTES),
                false => RECEIVE_BYTES,
            };
            let buffer = &mut self.buffer[..length];
            let received = match discards {
                true => self.socket.discard(buffer),
                false => self.socket.receive(buffer),
            };
            let now = clock::now();
            match received {
                Ok(0) => self.connection.handle_closed(now, "(closed by the server)"),
                Ok(n) => {
                    self.connection.handle_received(now, &self.buffer[..n]);
                    if n < length && !closed {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.connection.handle_closed(now, why_lost(&error)),
            }
        }
    }

    fn send(&mut self) {
        while !self.full && self.connection.has_transmit() {
            let slices: Vec<IoSlice<'_>> = self
                .connection
                .poll_transmit()
                .take(SLICES)
                .map(IoSlice::new)
                .collect();
            let now = clock::now();
            match self.socket.send_vectored(&slices) {
                Ok(n) => self.connection.handle_sent(now, n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.full = true,
                Err(error) => self.connection.handle_closed(now, why_lost(&error)),
            }
        }
    }
}

fn check_time(limit: Time) -> io::Result<()> {
    if clock::now() < limit {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))
}

fn why_lost(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "(reset by the server)",
        io::ErrorKind::TimedOut => "(the network does not answer)",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "(no route to the server)"
        }
        _ => "(socket error)",
    }
}
