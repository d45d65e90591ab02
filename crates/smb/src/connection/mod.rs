//! One connection: login, operations, credits, time limits, logoff.

mod flight;
mod link;
mod login;
mod requests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hakaru_units::Time;

use crate::config::{Config, Entropy};
use crate::encryption::{TRANSFORM_LENGTH, is_sealed};
use crate::error::{ConnectionError, OpError};
use crate::op::{Done, Op, OpId, Output, WriteData};
use crate::receive::{Assembler, Frame};
use crate::wire::{
    Command, FLAG_ASYNC, FLAG_RESPONSE, FLAG_SIGNED, HEADER_LENGTH, Header, Status, UNSOLICITED,
    emit_empty,
};
use flight::{Expected, Flight, Purpose};
use link::{Link, Properties};
pub use login::SessionFacts;
use login::{Login, LoginRequest, Step};
use requests::{charge, emit_op};

/// Limit of a frame without the data that was requested, bytes: headers, tokens of a login,
/// padding.
const FRAME_BYTES: usize = 64 << 10;
/// Length of the longest compound, bytes. The prefix of a frame has 24 bits.
const COMPOUND_BYTES_MAX: usize = (1 << 24) - 1 - TRANSFORM_LENGTH;

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

/// An operation that waits for credits.
struct Waiting {
    id: OpId,
    op: Op,
    submitted: Time,
    related: bool,
    /// Whether the next operation belongs to the same compound.
    more: bool,
}

/// A connection to one share. See the documentation of the crate for the calls of its owner.
pub struct Connection {
    state: State,
    facts: Option<SessionFacts>,
    lost: Option<ConnectionError>,
    link: Link,
    assembler: Assembler,
    flights: BTreeMap<u64, Flight>,
    waiting: VecDeque<Waiting>,
    events: VecDeque<Event>,
    next_op: u64,
    timeout: Duration,
    /// Instant not after the first deadline, if any request is in flight.
    timer: Option<Time>,
    /// Limit of the data of all responses in flight, bytes.
    expected_bytes: usize,
    /// Credits when more were last requested for a waiting operation.
    probed: Option<u32>,
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
            link: Link::new(config.credits),
            assembler: Assembler::default(),
            flights: BTreeMap::new(),
            waiting: VecDeque::new(),
            events: VecDeque::new(),
            next_op: 0,
            timeout: config.timeout,
            timer: None,
            expected_bytes: 0,
            probed: None,
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
            let limit = FRAME_BYTES + self.expected_bytes;
            let is_unwanted = |head: &[u8]| is_unwanted(head, &self.link, &self.flights);
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
        self.link.transmit.slices()
    }

    /// Returns whether bytes are to be sent.
    #[must_use]
    pub fn has_transmit(&self) -> bool {
        !self.link.transmit.is_empty()
    }

    /// Removes the first `n` bytes to send, which were passed to the kernel.
    ///
    /// # Panics
    /// Panics if fewer bytes were to be sent, which is a defect of the caller.
    pub fn handle_sent(&mut self, now: Time, n: usize) {
        let flights = &mut self.flights;
        self.link.transmit.advance(n, |message_id| {
            if let Some(flight) = flights.get_mut(&message_id) {
                flight.sent = now;
            }
        });
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
        let first = self.next_op;
        for op in ops {
            self.waiting.push_back(Waiting {
                id: OpId(self.next_op),
                op,
                submitted: now,
                related: self.next_op > first,
                more: true,
            });
            self.next_op += 1;
        }
        assert!(self.next_op > first, "a compound without an operation");
        if let Some(last) = self.waiting.back_mut() {
            last.more = false;
        }
        match (&self.state, self.lost) {
            (State::Ended | State::LoggingOff { .. }, error) => {
                let error = error.unwrap_or(ConnectionError::Closed("(logged off)"));
                self.fail_last_compound(now, error);
            }
            _ => self.issue(now),
        }
        OpId(first)
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
        self.timer
    }

    /// Ends the connection if a request was not answered in time.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.timer.is_none_or(|timer| now < timer) {
            return;
        }
        let first = self.flights.values().min_by_key(|flight| flight.deadline);
        match first {
            Some(flight) if flight.deadline <= now => {
                let error = ConnectionError::Timeout {
                    request: flight.command.name(),
                    after: self.timeout,
                };
                self.lose(now, error);
            }
            first => self.timer = first.map(|flight| flight.deadline),
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
        self.waiting.len() + self.flights.len()
    }

    /// Returns the number of credits that are available.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.link.credits()
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
        let mut frame = match &self.link.sealer {
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
            self.check_protection(&header, message, sealed)?;
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
        let Some(flight) = self.flights.get_mut(&header.message_id) else {
            return Err(ConnectionError::Protocol("a response to no request"));
        };
        if flight.command != header.command {
            return Err(ConnectionError::Protocol("a response to another command"));
        }
        if header.status == Status::PENDING && header.has(FLAG_ASYNC) {
            // The final response follows, with the same message id.
            flight.deadline = now + self.timeout;
            self.link.grant(header.credits, 0);
            return Ok(());
        }
        let Some(flight) = self.flights.remove(&header.message_id) else {
            return Ok(());
        };
        if self.flights.is_empty() {
            self.timer = None;
        }
        self.link.grant(header.credits, flight.charge);
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
                    self.flights.insert(header.message_id, flight);
                    return Err(ConnectionError::SessionEnded(header.status));
                }
                let length = if whole { frame.length() } else { message.len() };
                let parsed = expected.parse(header.status, message, length);
                let result = match parsed {
                    Ok(result) => result,
                    Err(error) => {
                        self.flights.insert(header.message_id, flight);
                        return Err(error);
                    }
                };
                self.expected_bytes -= expected.data_bytes_max();
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

    /// Checks that a response is protected as it must be. One that was decrypted needs no signature
    /// (MS-SMB2 section 3.2.5.1.3).
    fn check_protection(
        &self,
        header: &Header,
        message: &[u8],
        sealed: bool,
    ) -> Result<(), ConnectionError> {
        if sealed {
            return Ok(());
        }
        self.verify(header, message)?;
        match self.link.seal_all && !is_exempt(header) {
            true => Err(ConnectionError::Encryption("of a response is missing")),
            false => Ok(()),
        }
    }

    /// Checks the signature of a response.
    fn verify(&self, header: &Header, message: &[u8]) -> Result<(), ConnectionError> {
        let Some(signer) = &self.link.signer else {
            return Ok(());
        };
        if header.has(FLAG_SIGNED) {
            let right = signer.verify_response(header.message_id, &header.signature, message);
            return match right {
                true => Ok(()),
                false => Err(ConnectionError::Signature("wrong")),
            };
        }
        match self.link.sign_all && !is_exempt(header) {
            true => Err(ConnectionError::Signature("missing")),
            false => Ok(()),
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
        match login.handle_response(header, message, &mut self.link)? {
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
        if self.link.credits() == 0 {
            return self.lose(now, NO_CREDITS);
        }
        let LoginRequest {
            command,
            body,
            sign,
        } = request;
        let properties = Properties {
            command,
            charge: 1,
            related: false,
            more: false,
            sign,
        };
        let (message_id, message) = self
            .link
            .add(properties, None, |out| out.extend_from_slice(&body));
        if let State::LoggingIn(login) = &mut self.state {
            login.record_request(message);
        }
        self.link.finish();
        self.fly(now, message_id, command, Purpose::Login);
    }

    /// Sends what credits allow: waiting operations in order, then the LOGOFF.
    fn issue(&mut self, now: Time) {
        let Some(facts) = self.facts else { return };
        if self.is_ended() {
            return;
        }
        while let Some(needed) = self.front_compound(&facts) {
            match needed {
                Ok(needed) if needed <= self.link.credits() => {
                    self.probed = None;
                    self.send_compound(now, &facts);
                }
                Ok(_) if !self.flights.is_empty() => return,
                Ok(_) if self.link.credits() == 0 => return self.lose(now, NO_CREDITS),
                Ok(needed) if self.probed == Some(self.link.credits()) => {
                    let granted = self.link.credits();
                    self.fail_first_compound(now, OpError::Credits { needed, granted });
                }
                Ok(_) => {
                    self.probed = Some(self.link.credits());
                    return self.send_empty(now, Command::Echo, Purpose::Credits);
                }
                Err(error) => self.fail_first_compound(now, error),
            }
        }
        if matches!(self.state, State::LoggingOff { sent: false }) && self.flights.is_empty() {
            if self.link.credits() == 0 {
                return self.lose(now, NO_CREDITS);
            }
            self.state = State::LoggingOff { sent: true };
            self.send_empty(now, Command::Logoff, Purpose::Logoff);
        }
    }

    /// Returns the credits that the first waiting compound needs, or why it cannot be sent.
    fn front_compound(&self, facts: &SessionFacts) -> Option<Result<u32, OpError>> {
        self.waiting.front()?;
        let (mut needed, mut length) = (0, 0);
        for (n, waiting) in self.waiting.iter().enumerate() {
            let (data, limit) = match &waiting.op {
                Op::Read { length, .. } => (*length as usize, facts.read_bytes_max),
                Op::Write { data, .. } => (data.range.len(), facts.write_bytes_max),
                _ => (0, u32::MAX),
            };
            let limit = limit as usize;
            if data > limit {
                return Some(Err(OpError::TooLarge {
                    length: data,
                    limit,
                }));
            }
            // Names of rename and create have at most 64 KiB.
            length += data + HEADER_LENGTH + FRAME_BYTES + 128;
            let is_compound = n > 0 || waiting.more;
            if is_compound && length > COMPOUND_BYTES_MAX {
                let limit = COMPOUND_BYTES_MAX;
                return Some(Err(OpError::TooLarge { length, limit }));
            }
            needed += u32::from(charge(&waiting.op, facts));
            if !waiting.more {
                break;
            }
        }
        Some(Ok(needed))
    }

    fn send_compound(&mut self, now: Time, facts: &SessionFacts) {
        while let Some(waiting) = self.waiting.pop_front() {
            let Waiting {
                id,
                op,
                submitted,
                related,
                more,
            } = waiting;
            let expected = Expected::of(&op, facts.list_bytes_max);
            let command = op.command();
            let charge = charge(&op, facts);
            let properties = Properties {
                command,
                charge,
                related,
                more,
                sign: false,
            };
            let data = match &op {
                Op::Write { data, .. } => Some(WriteData::clone(data)),
                _ => None,
            };
            let emit = |out: &mut Vec<u8>| emit_op(&op, facts, out);
            let (message_id, _) = self.link.add(properties, data, emit);
            self.expected_bytes += expected.data_bytes_max();
            self.fly(now, message_id, command, Purpose::Op(id, expected));
            if let Some(flight) = self.flights.get_mut(&message_id) {
                (flight.submitted, flight.sent) = (submitted, submitted);
                flight.charge = charge;
            }
            if !more {
                break;
            }
        }
        self.link.finish();
    }

    fn send_empty(&mut self, now: Time, command: Command, purpose: Purpose) {
        let properties = Properties {
            command,
            charge: 1,
            related: false,
            more: false,
            sign: false,
        };
        let (message_id, _) = self.link.add(properties, None, emit_empty);
        self.link.finish();
        self.fly(now, message_id, command, purpose);
    }

    fn fly(&mut self, now: Time, message_id: u64, command: Command, purpose: Purpose) {
        let deadline = now + self.timeout;
        self.timer = Some(self.timer.map_or(deadline, |timer| timer.min(deadline)));
        let flight = Flight {
            command,
            purpose,
            charge: 1,
            submitted: now,
            sent: now,
            deadline,
        };
        self.flights.insert(message_id, flight);
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

    /// Ends the operations of the first waiting compound.
    fn fail_first_compound(&mut self, now: Time, error: OpError) {
        while let Some(waiting) = self.waiting.pop_front() {
            let submitted = waiting.submitted;
            self.push_done(waiting.id, Err(error), submitted, submitted, now);
            if !waiting.more {
                break;
            }
        }
    }

    /// Ends the operations that were just submitted to a connection that has ended.
    fn fail_last_compound(&mut self, now: Time, error: ConnectionError) {
        let begin = self.waiting.iter().rposition(|waiting| !waiting.related);
        for waiting in self.waiting.split_off(begin.unwrap_or(0)) {
            let submitted = waiting.submitted;
            let error = OpError::Lost(error);
            self.push_done(waiting.id, Err(error), submitted, submitted, now);
        }
    }

    /// Ends the connection, and with it all operations, in the order of their ids.
    fn lose(&mut self, now: Time, error: ConnectionError) {
        if self.is_ended() {
            return;
        }
        self.lost = Some(error);
        for flight in std::mem::take(&mut self.flights).into_values() {
            if let Purpose::Op(id, _) = flight.purpose {
                let failed = Err(OpError::Lost(error));
                self.push_done(id, failed, flight.submitted, flight.sent, now);
            }
        }
        while !self.waiting.is_empty() {
            self.fail_first_compound(now, OpError::Lost(error));
        }
        self.end();
        self.events.push_back(Event::Lost(error));
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.facts = None;
        self.timer = None;
        self.expected_bytes = 0;
        self.flights.clear();
        self.assembler = Assembler::default();
        self.link.transmit = Default::default();
    }
}

/// Returns whether a response is never signed: an interim one, or one of a session that has ended
/// (MS-SMB2 section 3.2.5.1.3).
fn is_exempt(header: &Header) -> bool {
    header.message_id == UNSOLICITED
        || header.status == Status::PENDING
        || header.status == Status::USER_SESSION_DELETED
        || header.status == Status::NETWORK_SESSION_EXPIRED
}

/// Returns whether a frame is the data of a read that is not to be kept. A signed one is needed to
/// verify it.
fn is_unwanted(head: &[u8], link: &Link, flights: &BTreeMap<u64, Flight>) -> bool {
    let Ok(header) = Header::parse(head) else {
        return false;
    };
    let verified = link.signer.is_some() && (link.sign_all || header.has(FLAG_SIGNED));
    let purpose = flights
        .get(&header.message_id)
        .map(|flight| &flight.purpose);
    header.command == Command::Read
        && header.status == Status::SUCCESS
        && header.next_command == 0
        && !verified
        && matches!(
            purpose,
            Some(Purpose::Op(_, Expected::Read { keep: false, .. }))
        )
}

const NO_CREDITS: ConnectionError =
    ConnectionError::Protocol("the server left the client without credits");

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("facts", &self.facts)
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}
