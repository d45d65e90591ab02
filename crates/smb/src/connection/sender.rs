//! The requests of a connection: operations that wait for credits, and requests in flight.
use std::time::Duration;

use hakaru_units::Time;

use super::flight::{Expected, Flight, Flights, Purpose};
use super::link::{Link, Properties};
use super::login::{LoginRequest, SessionFacts};
use super::requests::{charge, emit_op};
use super::waiting::{Waiting, WaitingQueue};
use crate::error::{ConnectionError, OpError};
use crate::op::{Op, OpId, WriteData};
use crate::wire::{Command, emit_empty};

/// Result of sending what credits allow.
pub(super) enum Issued {
    /// Nothing else can be sent now.
    All,
    /// The first waiting compound, which is returned, can never be sent.
    Refused(OpError),
}

/// Requests that wait or are in flight, and the sending side of the stream.
pub(super) struct Sender {
    pub link: Link,
    pub flights: Flights,
    pub waiting: WaitingQueue,
    /// Credits when more were last requested for a waiting operation.
    probed: Option<u32>,
}

impl Sender {
    pub(super) fn new(credits: u16, timeout: Duration) -> Sender {
        Sender {
            link: Link::new(credits),
            flights: Flights::new(timeout),
            waiting: WaitingQueue::default(),
            probed: None,
        }
    }

    /// Adds operations as one compound, and returns the id of the first.
    pub(super) fn submit(&mut self, now: Time, ops: impl IntoIterator<Item = Op>) -> OpId {
        self.waiting.push(now, ops)
    }

    /// Sends waiting operations in order, as far as credits allow.
    ///
    /// # Errors
    /// The server has left the client without credits.
    pub(super) fn issue(
        &mut self,
        now: Time,
        facts: &SessionFacts,
    ) -> Result<Issued, ConnectionError> {
        while let Some(needed) = self.waiting.front_needs(facts) {
            match needed {
                Ok(needed) if needed <= self.link.credits() => {
                    self.probed = None;
                    self.send_compound(now, facts);
                }
                Ok(_) if !self.flights.is_empty() => break,
                Ok(needed) if self.probed == Some(self.link.credits()) => {
                    let granted = self.link.credits();
                    return Ok(Issued::Refused(OpError::Credits { needed, granted }));
                }
                Ok(_) => {
                    self.probed = Some(self.link.credits());
                    self.send_empty(now, Command::Echo, Purpose::Credits)?;
                    break;
                }
                Err(error) => return Ok(Issued::Refused(error)),
            }
        }
        Ok(Issued::All)
    }

    fn send_compound(&mut self, now: Time, facts: &SessionFacts) {
        for waiting in self.waiting.take_first() {
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
            let purpose = Purpose::Op(id, expected);
            let flight = Flight {
                charge,
                ..Flight::new(command, purpose, submitted)
            };
            self.flights.add(now, message_id, flight);
        }
        self.link.finish();
    }

    /// Sends a request of the login. Returns its message.
    ///
    /// # Errors
    /// There is no credit.
    pub(super) fn send_login(
        &mut self,
        now: Time,
        request: LoginRequest,
        record: impl FnOnce(&[u8]),
    ) -> Result<(), ConnectionError> {
        let LoginRequest {
            command,
            body,
            sign,
        } = request;
        let emit = |out: &mut Vec<u8>| out.extend_from_slice(&body);
        self.send(now, command, Purpose::Login, sign, emit, record)
    }

    /// Sends a request without parameters.
    ///
    /// # Errors
    /// There is no credit.
    pub(super) fn send_empty(
        &mut self,
        now: Time,
        command: Command,
        purpose: Purpose,
    ) -> Result<(), ConnectionError> {
        self.send(now, command, purpose, false, emit_empty, |_| {})
    }

    fn send(
        &mut self,
        now: Time,
        command: Command,
        purpose: Purpose,
        sign: bool,
        emit: impl FnOnce(&mut Vec<u8>),
        record: impl FnOnce(&[u8]),
    ) -> Result<(), ConnectionError> {
        if self.link.credits() == 0 {
            return Err(NO_CREDITS);
        }
        let properties = Properties {
            command,
            charge: 1,
            related: false,
            more: false,
            sign,
        };
        let (message_id, message) = self.link.add(properties, None, emit);
        record(message);
        self.link.finish();
        let flight = Flight::new(command, purpose, now);
        self.flights.add(now, message_id, flight);
        Ok(())
    }
}

const NO_CREDITS: ConnectionError =
    ConnectionError::Protocol("the server left the client without credits");
