//! Requests in flight, and the parsing of the responses to operations.
use std::ops::Range;

use hakaru_units::Time;

use crate::error::{ConnectionError, OpError};
use crate::op::{Op, OpId, Output, ReadData};
use crate::wire::{
    Command, CreateResponse, Query, Status, parse_buffer_response, parse_close_response,
    parse_entries, parse_facts, parse_read_response, parse_space, parse_write_response,
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
