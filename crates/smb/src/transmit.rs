//! The send queue of a connection: messages by copy, the data of writes by reference, and marks
//! that report when a message was sent.
use std::collections::VecDeque;

use hakaru_send_queue::{Payload, Piece, SendQueue};

use crate::op::WriteData;

impl Payload for WriteData {
    fn remaining(&self) -> usize {
        self.range.len()
    }

    fn advance(&mut self, sent: usize) {
        self.range.start += sent;
    }
}

/// Bytes to send, in order.
#[derive(Debug, Default)]
pub(crate) struct Transmit {
    queue: SendQueue<WriteData>,
    /// Number of bytes sent over the life of the queue.
    sent: u64,
    /// Positions in the stream, ascending, each with the message that ends there.
    marks: VecDeque<(u64, u64)>,
}

impl Transmit {
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.queue.pieces().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::Payload(data) => data.bytes(),
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.queue.push_bytes(bytes);
    }

    pub(crate) fn push_data(&mut self, data: WriteData) {
        if !data.range.is_empty() {
            self.queue.push_payload(data);
        }
    }

    /// Reports `message_id` once all bytes queued so far were sent.
    pub(crate) fn mark(&mut self, message_id: u64) {
        let place = self.sent + self.queue.pending_bytes() as u64;
        self.marks.push_back((place, message_id));
    }

    /// Removes the first `n` bytes, and calls `passed` with each message whose end was sent.
    pub(crate) fn advance(&mut self, n: usize, mut passed: impl FnMut(u64)) {
        self.queue.advance(n, drop);
        self.sent += n as u64;
        while let Some(&(place, message_id)) = self.marks.front()
            && place <= self.sent
        {
            self.marks.pop_front();
            passed(message_id);
        }
    }
}
