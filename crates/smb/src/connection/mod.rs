//! One connection: login, operations, credits, time limits, logoff.

mod flight;
mod link;
mod login;
mod protection;
mod requests;
mod sender;
mod waiting;

use std::collections::VecDeque;

use hakaru_units::Time;

use crate::config::{Config, Entropy};
use crate::encryption::is_sealed;
use crate::error::{ConnectionError, OpError};
use crate::op::{Done, Op, OpId, Output};
use crate::receive::{Assembler, Frame};
use crate::wire::{Command, FLAG_RESPONSE, Header, Status, UNSOLICITED};
use flight::Purpose;
pub use login::SessionFacts;
use login::{Login, LoginRequest, Step};
use sender::{Issued, Sender};
use waiting::Waiting;

/// Limit of a frame without the data that was requested, bytes: headers, tokens of a login,
/// padding.
const FRAME_BYTES: usize = 64 << 10;

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The share is connected, and operations are sent.
    Ready(SessionFacts),
    /// An operation ended.
    Done(Done),
    /// The session ended as requested.
    LoggedOff,
    /// The connection ended for another reason. All operations have ended before.
    Lost(ConnectionError),
}

enum State {
    /// The socket is not connected.
    Idle(Box<Login>),
    LoggingIn(Box<Login>),
    Ready,
    /// LOGOFF is sent once no operation is left.
    LoggingOff {
        sent: bool,
    },
    Ended,
}

/// A connection to one share. See the documentation of the crate for the calls of its owner.
pub struct Connection {
    state: State,
    facts: Option<SessionFacts>,
    lost: Option<ConnectionError>,
    sender: Sender,
    assembler: Assembler,
    events: VecDeque<Event>,
}

impl Connection {
    /// Creates a connection.
    ///
    /// # Panics
    /// Panics if the configuration has no dialect, or credits or sizes out of their bounds, which
    /// is a defect of the caller.
    #[must_use]
    pub fn new(config: Config, entropy: Entropy) -> Connection {
        assert!(!config.dialects.is_empty(), "no dialect to offer");
        assert!((1..=8192).contains(&config.credits), "credits");
        assert!(
            (4096..=8 << 20).contains(&config.io_bytes_max),
            "size of requests"
        );
        Connection {
            facts: None,
            lost: None,
            sender: Sender::new(config.credits, config.timeout),
            assembler: Assembler::default(),
            events: VecDeque::new(),
            state: State::Idle(Box::new(Login::new(config, entropy))),
        }
    }

    /// Begins the login on a connected socket.
    pub fn handle_connected(&mut self, now: Time) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Idle(login) => {
                let request = login.begin();
                self.state = State::LoggingIn(login);
                self.send_login(now, request);
            }
            other => self.state = other,
        }
    }

    /// Handles received bytes: any piece of the stream.
    pub fn handle_received(&mut self, now: Time, mut bytes: &[u8]) {
        while self.is_receiving() {
            let Sender { link, flights, .. } = &self.sender;
            let limit = FRAME_BYTES + flights.expected_bytes();
            let is_unwanted = |head: &[u8]| protection::is_unwanted(head, link, flights);
            match self.assembler.next(&mut bytes, limit, is_unwanted) {
                Ok(Some(frame)) => {
                    if let Err(error) = self.handle_frame(now, frame) {
                        return self.lose(now, error);
                    }
                    self.issue(now);
                }
                Ok(None) => return,
                Err(error) => return self.lose(now, error.into()),
            }
        }
    }

    /// Returns the number of bytes to be received next that are discarded: data of a read that is
    /// not to be kept, in a session without signatures. The kernel may discard them on its own, and
    /// any bytes may be passed to [`Connection::handle_received`] in their place.
    #[must_use]
    pub fn unwanted_bytes(&self) -> usize {
        self.assembler.unwanted_bytes()
    }

    /// Handles the end of the connection. `why` completes "connection lost …".
    pub fn handle_closed(&mut self, now: Time, why: &'static str) {
        self.lose(now, ConnectionError::Closed(why));
    }

    /// Returns the slices of bytes to send, in order. The owner passes any number of them to the
    /// kernel, then calls [`Connection::handle_sent`].
    pub fn poll_transmit(&self) -> impl Iterator<Item = &[u8]> {
        self.sender.link.transmit.slices()
    }

    /// Returns whether bytes are to be sent.
    #[must_use]
    pub fn has_transmit(&self) -> bool {
        !self.sender.link.transmit.is_empty()
    }

    /// Removes the first `n` bytes to send, which were passed to the kernel.
    ///
    /// # Panics
    /// Panics if fewer bytes were to be sent, which is a defect of the caller.
    pub fn handle_sent(&mut self, now: Time, n: usize) {
        let Sender { link, flights, .. } = &mut self.sender;
        link.transmit
            .advance(n, |message_id| flights.handle_sent(now, message_id));
    }

    /// Submits an operation. It is sent once the share is connected and the server has granted
    /// enough credits, in order.
    pub fn submit(&mut self, now: Time, op: Op) -> OpId {
        self.submit_related(now, [op])
    }

    /// Submits operations as one compound of related requests: an operation whose file is
    /// [`FileId::RELATED`](crate::wire::FileId::RELATED) uses that of the operation before. Each
    /// ends with its own event. Returns the first id; the others follow it.
    ///
    /// # Panics
    /// Panics without an operation, which is a defect of the caller.
    pub fn submit_related(&mut self, now: Time, ops: impl IntoIterator<Item = Op>) -> OpId {
        let first = self.sender.submit(now, ops);
        match (&self.state, self.lost) {
            (State::Ended | State::LoggingOff { .. }, error) => {
                let error = error.unwrap_or(ConnectionError::Closed("(logged off)"));
                let refused = self.sender.waiting.take_last();
                self.fail(now, refused, OpError::Lost(error));
            }
            _ => self.issue(now),
        }
        first
    }

    /// Ends the session once all operations have ended. Further ones are refused.
    pub fn log_off(&mut self, now: Time) {
        match self.state {
            State::Ready => {
                self.state = State::LoggingOff { sent: false };
                self.issue(now);
            }
            State::Idle(_) | State::LoggingIn(_) => {
                self.lose(now, ConnectionError::Closed("(logged off)"));
            }
            State::LoggingOff { .. } | State::Ended => {}
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time at which [`Connection::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.sender.flights.poll_timeout()
    }

    /// Ends the connection if a request was not answered in time.
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(error) = self.sender.flights.overdue(now) {
            self.lose(now, error);
        }
    }

    /// Returns facts about the session while it is ready.
    #[must_use]
    pub fn facts(&self) -> Option<&SessionFacts> {
        self.facts.as_ref()
    }

    /// Returns the number of operations that have not ended.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.sender.waiting.len() + self.sender.flights.len()
    }

    /// Returns the number of credits that are available.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.sender.link.credits()
    }

    /// Returns whether the connection has ended. Its owner closes the socket.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn is_receiving(&self) -> bool {
        !matches!(self.state, State::Ended | State::Idle(_))
    }

    fn handle_frame(&mut self, now: Time, frame: Frame<'_>) -> Result<(), ConnectionError> {
        let sealed = is_sealed(frame.bytes());
        let mut frame = match &self.sender.link.sealer {
            Some(sealer) if sealed => frame.open(sealer).ok_or(ConnectionError::Encryption(
                "of a response is wrong: it does not match its key",
            ))?,
            _ => frame,
        };
        let length = frame.bytes().len();
        let mut begin = 0;
        while begin < length {
            let bytes = &frame.bytes()[begin..];
            let (header, message) = crate::wire::split_compound(bytes)
                .next()
                .ok_or(ConnectionError::Protocol("an empty message"))??;
            let end = begin + message.len();
            protection::check(&self.sender.link, &header, message, sealed)?;
            self.handle_message(now, &header, &mut frame, begin..end)?;
            if matches!(self.state, State::Ended) {
                break;
            }
            begin = end;
        }
        self.assembler.recycle(frame);
        Ok(())
    }

    fn handle_message(
        &mut self,
        now: Time,
        header: &Header,
        frame: &mut Frame<'_>,
        place: std::ops::Range<usize>,
    ) -> Result<(), ConnectionError> {
        let whole = place.len() == frame.bytes().len();
        let begin = place.start;
        let message = &frame.bytes()[place];
        if !header.has(FLAG_RESPONSE) {
            return Err(ConnectionError::Protocol("the server sent a request"));
        }
        if header.message_id == UNSOLICITED {
            // No oplock is ever requested, so a break of one concerns nothing.
            return Ok(());
        }
        let Sender { link, flights, .. } = &mut self.sender;
        let Some(flight) = flights.answer(now, header)? else {
            link.grant(header.credits, 0);
            return Ok(());
        };
        link.grant(header.credits, flight.charge);
        match flight.purpose {
            Purpose::Login => self.handle_login(now, header, message),
            Purpose::Credits => Ok(()),
            Purpose::Logoff => {
                self.end();
                self.events.push_back(Event::LoggedOff);
                Ok(())
            }
            Purpose::Op(id, expected) => {
                if matches!(
                    header.status,
                    Status::USER_SESSION_DELETED | Status::NETWORK_SESSION_EXPIRED
                ) {
                    // The operation ends with the others.
                    self.sender.flights.restore(header.message_id, flight);
                    return Err(ConnectionError::SessionEnded(header.status));
                }
                let length = if whole { frame.length() } else { message.len() };
                let parsed = expected.parse(header.status, message, length);
                let result = match parsed {
                    Ok(result) => result,
                    Err(error) => {
                        self.sender.flights.restore(header.message_id, flight);
                        return Err(error);
                    }
                };
                let result = result.map(|answer| {
                    answer.into_output(expected, |data| {
                        frame.take(begin + data.start..begin + data.end, whole)
                    })
                });
                let (submitted, sent) = (flight.submitted, flight.sent);
                self.push_done(id, result, submitted, sent, now);
                Ok(())
            }
        }
    }

    fn handle_login(
        &mut self,
        now: Time,
        header: &Header,
        message: &[u8],
    ) -> Result<(), ConnectionError> {
        let State::LoggingIn(login) = &mut self.state else {
            return Err(ConnectionError::Protocol("a login is out of order"));
        };
        match login.handle_response(header, message, &mut self.sender.link)? {
            Step::Send(request) => self.send_login(now, request),
            Step::Ready(facts) => {
                self.state = State::Ready;
                self.facts = Some(facts);
                self.events.push_back(Event::Ready(facts));
            }
        }
        Ok(())
    }

    fn send_login(&mut self, now: Time, request: LoginRequest) {
        let record = |message: &[u8]| {
            if let State::LoggingIn(login) = &mut self.state {
                login.record_request(message);
            }
        };
        if let Err(error) = self.sender.send_login(now, request, record) {
            self.lose(now, error);
        }
    }

    /// Sends what credits allow: waiting operations in order, then the LOGOFF.
    fn issue(&mut self, now: Time) {
        let Some(facts) = self.facts else { return };
        loop {
            match self.sender.issue(now, &facts) {
                Ok(Issued::All) => break,
                Ok(Issued::Refused(error)) => {
                    let refused = self.sender.waiting.take_first();
                    self.fail(now, refused, error);
                }
                Err(error) => return self.lose(now, error),
            }
        }
        let logs_off = matches!(self.state, State::LoggingOff { sent: false });
        if logs_off && self.sender.flights.is_empty() {
            self.state = State::LoggingOff { sent: true };
            let sent = self
                .sender
                .send_empty(now, Command::Logoff, Purpose::Logoff);
            if let Err(error) = sent {
                self.lose(now, error);
            }
        }
    }

    fn push_done(
        &mut self,
        id: OpId,
        result: Result<Output, OpError>,
        submitted: Time,
        sent: Time,
        completed: Time,
    ) {
        self.events.push_back(Event::Done(Done {
            id,
            result,
            submitted,
            sent,
            completed,
        }));
    }

    /// Ends operations that were never sent.
    fn fail(&mut self, now: Time, waiting: VecDeque<Waiting>, error: OpError) {
        for Waiting { id, submitted, .. } in waiting {
            self.push_done(id, Err(error), submitted, submitted, now);
        }
    }

    /// Ends the connection, and with it all operations, in the order of their ids.
    fn lose(&mut self, now: Time, error: ConnectionError) {
        if self.is_ended() {
            return;
        }
        self.lost = Some(error);
        for flight in self.sender.flights.take_all() {
            if let Purpose::Op(id, _) = flight.purpose {
                let failed = Err(OpError::Lost(error));
                self.push_done(id, failed, flight.submitted, flight.sent, now);
            }
        }
        let waiting = self.sender.waiting.take_all();
        self.fail(now, waiting, OpError::Lost(error));
        self.end();
        self.events.push_back(Event::Lost(error));
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.facts = None;
        drop(self.sender.flights.take_all());
        self.assembler = Assembler::default();
        self.sender.link.transmit = Default::default();
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("facts", &self.facts)
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}
