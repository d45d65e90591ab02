//! Requests in flight with their time limits, and the parsing of the responses to operations.
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use hakaru_units::Time;

use crate::error::{ConnectionError, OpError};
use crate::op::{Op, OpId, Output, ReadData};
use crate::wire::{
    Command, CreateResponse, FLAG_ASYNC, Header, Query, Status, parse_buffer_response,
    parse_close_response, parse_entries, parse_facts, parse_read_response, parse_space,
    parse_write_response,
};

/// A request in flight.
#[derive(Debug)]
pub(super) struct Flight {
    pub command: Command,
    pub purpose: Purpose,
    pub charge: u16,
    pub submitted: Time,
    pub sent: Time,
    pub deadline: Time,
}

impl Flight {
    /// Creates a request that costs one credit. [`Flights::add`] sets its deadline.
    pub(super) fn new(command: Command, purpose: Purpose, submitted: Time) -> Flight {
        Flight {
            command,
            purpose,
            charge: 1,
            submitted,
            sent: submitted,
            deadline: Time::ZERO,
        }
    }

    /// Returns the limit of the data of the response, bytes.
    fn data_bytes_max(&self) -> usize {
        match self.purpose {
            Purpose::Op(_, expected) => expected.data_bytes_max(),
            _ => 0,
        }
    }
}

/// All requests in flight, by message id.
#[derive(Debug)]
pub(super) struct Flights {
    by_id: BTreeMap<u64, Flight>,
    timeout: Duration,
    /// Instant not after the first deadline, if any request is in flight.
    timer: Option<Time>,
    /// Limit of the data of all responses, bytes.
    expected_bytes: usize,
}

impl Flights {
    pub(super) fn new(timeout: Duration) -> Flights {
        Flights {
            by_id: BTreeMap::new(),
            timeout,
            timer: None,
            expected_bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn get(&self, message_id: u64) -> Option<&Flight> {
        self.by_id.get(&message_id)
    }

    pub(super) fn expected_bytes(&self) -> usize {
        self.expected_bytes
    }

    /// Adds a request that is sent now.
    pub(super) fn add(&mut self, now: Time, message_id: u64, flight: Flight) {
        let deadline = now + self.timeout;
        self.timer = Some(self.timer.map_or(deadline, |timer| timer.min(deadline)));
        self.restore(message_id, Flight { deadline, ..flight });
    }

    /// Adds a request again whose response could not be used. It ends with the connection.
    pub(super) fn restore(&mut self, message_id: u64, flight: Flight) {
        self.expected_bytes += flight.data_bytes_max();
        self.by_id.insert(message_id, flight);
    }

    /// Records that a request was passed to the kernel entirely.
    pub(super) fn handle_sent(&mut self, now: Time, message_id: u64) {
        if let Some(flight) = self.by_id.get_mut(&message_id) {
            flight.sent = now;
        }
    }

    /// Removes and returns the request of a final response; `None` for a notice that the response
    /// follows later, which restarts the time limit.
    ///
    /// # Errors
    /// There is no such request, or it has another command.
    pub(super) fn answer(
        &mut self,
        now: Time,
        header: &Header,
    ) -> Result<Option<Flight>, ConnectionError> {
        let Some(flight) = self.by_id.get_mut(&header.message_id) else {
            return Err(ConnectionError::Protocol("a response to no request"));
        };
        if flight.command != header.command {
            return Err(ConnectionError::Protocol("a response to another command"));
        }
        if header.status == Status::PENDING && header.has(FLAG_ASYNC) {
            // The final response has the same message id.
            flight.deadline = now + self.timeout;
            return Ok(None);
        }
        let flight = self.by_id.remove(&header.message_id);
        self.expected_bytes -= flight.as_ref().map_or(0, Flight::data_bytes_max);
        if self.by_id.is_empty() {
            self.timer = None;
        }
        Ok(flight)
    }

    /// Returns the time at which [`Flights::overdue`] must be called next.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.timer
    }

    /// Returns the error of a request that was not answered in time.
    pub(super) fn overdue(&mut self, now: Time) -> Option<ConnectionError> {
        if self.timer.is_none_or(|timer| now < timer) {
            return None;
        }
        let first = self.by_id.values().min_by_key(|flight| flight.deadline);
        self.timer = first.map(|flight| flight.deadline);
        let late = first.filter(|flight| flight.deadline <= now)?;
        Some(ConnectionError::Timeout {
            request: late.command.name(),
            after: self.timeout,
        })
    }

    /// Removes and returns all requests, in the order of their message ids.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Flight> + use<> {
        self.timer = None;
        self.expected_bytes = 0;
        std::mem::take(&mut self.by_id).into_values()
    }
}

/// Reason for a request.
#[derive(Debug)]
pub(super) enum Purpose {
    Login,
    /// Obtains credits for a waiting operation.
    Credits,
    Logoff,
    Op(OpId, Expected),
}

/// Properties of an operation that its response depends on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Created,
    Closed,
    Read { length: u32, keep: bool },
    Written { length: usize },
    Entries { length_max: u32 },
    Information(Query),
    Nothing,
}

impl Expected {
    pub(super) fn of(op: &Op, list_bytes_max: u32) -> Expected {
        match op {
            Op::Create(_) => Expected::Created,
            Op::Close { .. } => Expected::Closed,
            &Op::Read { length, keep, .. } => Expected::Read { length, keep },
            Op::Write { data, .. } => Expected::Written {
                length: data.range.len(),
            },
            Op::List { .. } => Expected::Entries {
                length_max: list_bytes_max,
            },
            &Op::Query { query, .. } => Expected::Information(query),
            Op::Flush { .. } | Op::Set { .. } | Op::Echo => Expected::Nothing,
        }
    }

    /// Returns the limit of the data of the response, bytes.
    pub(super) fn data_bytes_max(self) -> usize {
        match self {
            Expected::Read { length, .. } => length as usize,
            Expected::Entries { length_max } => length_max as usize,
            _ => 0,
        }
    }

    /// Parses a final response of `message_length` bytes. The data of a read is returned as its
    /// place in the message, of which only the head is needed.
    ///
    /// # Errors
    /// The outer error is the server's violation of the protocol, the inner one its refusal.
    pub(super) fn parse(
        self,
        status: Status,
        message: &[u8],
        message_length: usize,
    ) -> Result<Result<Answer, OpError>, ConnectionError> {
        let refused = Ok(Err(OpError::Status(status)));
        let output = match (self, status) {
            (Expected::Read { .. }, Status::END_OF_FILE) => return Ok(Ok(Answer::Read(0..0))),
            (Expected::Entries { .. }, Status::NO_MORE_FILES | Status::NO_SUCH_FILE) => {
                Output::Entries {
                    entries: Vec::new(),
                    end: true,
                }
            }
            (_, status) if status != Status::SUCCESS => return refused,
            (Expected::Read { length, .. }, _) => {
                let place = parse_read_response(message, message_length)?;
                if place.len() > length as usize {
                    return Err(ConnectionError::Protocol("more was read than requested"));
                }
                return Ok(Ok(Answer::Read(place)));
            }
            (Expected::Created, _) => Output::Created(CreateResponse::parse(message)?),
            (Expected::Closed, _) => {
                parse_close_response(message)?;
                Output::Nothing
            }
            (Expected::Written { length }, _) => {
                let count = parse_write_response(message)?;
                if count as usize > length {
                    return Err(ConnectionError::Protocol("more was written than sent"));
                }
                Output::Written(count)
            }
            (Expected::Entries { .. }, _) => Output::Entries {
                entries: parse_entries(parse_buffer_response(message)?)?,
                end: false,
            },
            (Expected::Information(Query::File), _) => {
                Output::Facts(parse_facts(parse_buffer_response(message)?)?)
            }
            (Expected::Information(Query::Space), _) => {
                Output::Space(parse_space(parse_buffer_response(message)?)?)
            }
            (Expected::Nothing, _) => Output::Nothing,
        };
        Ok(Ok(Answer::Output(output)))
    }
}

/// Parsed response to an operation.
pub(super) enum Answer {
    /// Place of the data that was read, in the message.
    Read(Range<usize>),
    Output(Output),
}

impl Answer {
    /// Converts the answer. `take` returns the data of a read.
    pub(super) fn into_output(
        self,
        expected: Expected,
        take: impl FnOnce(Range<usize>) -> ReadData,
    ) -> Output {
        match self {
            Answer::Output(output) => output,
            Answer::Read(place) => Output::Read {
                length: place.len() as u32,
                data: match expected {
                    Expected::Read { keep: true, .. } if !place.is_empty() => take(place),
                    _ => ReadData::default(),
                },
            },
        }
    }
}
