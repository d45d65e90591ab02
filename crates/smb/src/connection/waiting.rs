//! Operations that wait for credits, in order, as the compounds that they belong to.
use std::collections::VecDeque;

use hakaru_units::Time;

use super::login::SessionFacts;
use super::requests::charge;
use crate::encryption::TRANSFORM_LENGTH;
use crate::error::OpError;
use crate::op::{Op, OpId};
use crate::wire::HEADER_LENGTH;

/// Limit of a request without its data, bytes: names of rename and create have at most 64 KiB.
const REQUEST_BYTES: usize = (64 << 10) + HEADER_LENGTH + 128;
/// Length of the longest compound, bytes. The prefix of a frame has 24 bits.
const COMPOUND_BYTES_MAX: usize = (1 << 24) - 1 - TRANSFORM_LENGTH;

/// An operation that waits for credits.
pub(super) struct Waiting {
    pub id: OpId,
    pub op: Op,
    pub submitted: Time,
    /// Whether it uses the file of the operation before.
    pub related: bool,
    /// Whether the next operation belongs to the same compound.
    pub more: bool,
}

/// Operations in the order of their submission.
#[derive(Default)]
pub(super) struct WaitingQueue {
    ops: VecDeque<Waiting>,
    next_op: u64,
}

impl WaitingQueue {
    /// Adds a compound. Returns the first id; the others follow it.
    ///
    /// # Panics
    /// Panics without an operation, which is a defect of the caller.
    pub(super) fn push(&mut self, now: Time, ops: impl IntoIterator<Item = Op>) -> OpId {
        let first = self.next_op;
        for op in ops {
            self.ops.push_back(Waiting {
                id: OpId(self.next_op),
                op,
                submitted: now,
                related: self.next_op > first,
                more: true,
            });
            self.next_op += 1;
        }
        assert!(self.next_op > first, "a compound without an operation");
        if let Some(last) = self.ops.back_mut() {
            last.more = false;
        }
        OpId(first)
    }

    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    /// Returns the credits that the first compound needs, or why it cannot be sent.
    pub(super) fn front_needs(&self, facts: &SessionFacts) -> Option<Result<u32, OpError>> {
        self.ops.front()?;
        let (mut needed, mut length) = (0, 0);
        for (n, waiting) in self.ops.iter().enumerate() {
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
            length += data + REQUEST_BYTES;
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

    /// Removes and returns the first compound; empty without one.
    pub(super) fn take_first(&mut self) -> VecDeque<Waiting> {
        let end = self.ops.iter().position(|waiting| !waiting.more);
        let behind = self.ops.split_off(end.map_or(0, |end| end + 1));
        std::mem::replace(&mut self.ops, behind)
    }

    /// Removes and returns the compound that was added last.
    pub(super) fn take_last(&mut self) -> VecDeque<Waiting> {
        let begin = self.ops.iter().rposition(|waiting| !waiting.related);
        self.ops.split_off(begin.unwrap_or(0))
    }

    /// Removes and returns all operations.
    pub(super) fn take_all(&mut self) -> VecDeque<Waiting> {
        std::mem::take(&mut self.ops)
    }
}
