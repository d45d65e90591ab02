//! The send queue of a session: header bytes by copy, the data of writes by reference, and marks
//! that report when bytes were sent.
use std::collections::VecDeque;
use std::sync::Arc;

use hakaru_send_queue::{Payload, Piece, SendQueue};

use crate::departure::Departure;
use crate::session::Mark;

/// Part of a buffer that a write references.
#[derive(Debug)]
struct Data {
    buffer: Arc<Vec<u8>>,
    begin: usize,
    length: usize,
}

impl Payload for Data {
    fn remaining(&self) -> usize {
        self.length
    }

    fn advance(&mut self, sent: usize) {
        self.begin += sent;
        self.length -= sent;
    }
}

/// A queue of bytes to send, in order.
///
/// Commands without data are adjacent, so a batch of any number of reads is one slice.
#[derive(Debug, Default)]
pub struct Transmit {
    queue: SendQueue<Data>,
    /// Number of bytes sent over the life of the queue.
    sent: u64,
    /// Positions in the byte stream, ascending, each with the mark to report once it was sent.
    marks: VecDeque<(u64, Mark)>,
    /// Positions that were reached while marks were pending, each with its instant.
    reached: VecDeque<(Departure, u64)>,
}

impl Transmit {
    /// Returns whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of bytes queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.pending_bytes()
    }

    /// Returns all queued bytes, in order. The sender passes as many slices as fit one system call,
    /// then calls [`Transmit::advance`].
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.queue.pieces().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::Payload(data) => &data.buffer[data.begin..data.begin + data.length],
        })
    }

    /// Removes the first `n` bytes, which were passed to the kernel.
    ///
    /// # Panics
    /// Panics if fewer bytes are queued, which is a defect of the caller.
    pub fn advance(&mut self, departure: impl Into<Departure>, n: usize) {
        self.queue.advance(n, drop);
        self.sent += n as u64;
        if !self.marks.is_empty() {
            self.reached.push_back((departure.into(), self.sent));
        }
    }

    /// Returns whether a command begins within the next `n` bytes.
    #[must_use]
    pub fn has_command_within(&self, n: usize) -> bool {
        let end = self.sent + n as u64;
        let mut marks = self.marks.iter().take_while(|&&(place, _)| place <= end);
        marks.any(|(_, mark)| mark.is_command())
    }

    /// Discards everything that is queued.
    pub(crate) fn clear(&mut self) {
        *self = Transmit::default();
    }

    /// Returns the number of bytes sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of bytes that will have been sent once the queue is empty.
    pub(crate) fn end(&self) -> u64 {
        self.sent + self.len() as u64
    }

    /// Reports `mark` once the first byte of the next push was sent.
    pub(crate) fn mark_next(&mut self, mark: Mark) {
        self.marks.push_back((self.end() + 1, mark));
    }

    /// Reports `mark` once all bytes queued so far were sent.
    pub(crate) fn mark_all(&mut self, mark: Mark) {
        self.marks.push_back((self.end(), mark));
    }

    /// Calls `visit` with every mark that was reached after the last call, and its instant.
    pub(crate) fn take_passed(&mut self, mut visit: impl FnMut(Departure, Mark)) {
        while let Some((departure, reached)) = self.reached.pop_front() {
            while let Some(&(place, mark)) = self.marks.front()
                && place <= reached
            {
                self.marks.pop_front();
                visit(departure, mark);
            }
        }
    }

    /// Queues a copy of `bytes`.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.queue.push_bytes(bytes);
    }

    /// Queues part of `buffer` by reference.
    pub(crate) fn push_data(&mut self, buffer: &Arc<Vec<u8>>, begin: usize, length: usize) {
        if length > 0 {
            self.queue.push_payload(Data {
                buffer: Arc::clone(buffer),
                begin,
                length,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakaru_units::Time;
    use proptest::prelude::*;

    proptest! {
        /// Bytes queued in any pieces are sent once and in order, with any size of send.
        #[test]
        fn bytes_are_sent_as_they_were_queued(
            pieces in proptest::collection::vec((any::<bool>(), 0usize..3000), 1..60),
            sends in proptest::collection::vec(1usize..5000, 1..200),
        ) {
            let source: Arc<Vec<u8>> = Arc::new((0..4096u32).map(|i| (i * 7 % 251) as u8).collect());
            let (mut transmit, mut expected, mut got) = (Transmit::default(), Vec::new(), Vec::new());
            let mut sends = sends.into_iter().cycle();
            let mut send = |transmit: &mut Transmit| {
                let n = sends.next().unwrap().min(transmit.len());
                let all: Vec<u8> = transmit.slices().flatten().copied().collect();
                assert_eq!(all.len(), transmit.len());
                got.extend_from_slice(&all[..n]);
                transmit.advance(Time(0), n);
            };
            for (copied, length) in pieces {
                let begin = (expected.len() * 13) % 1000;
                expected.extend_from_slice(&source[begin..begin + length]);
                if copied { transmit.push(&source[begin..begin + length]) } else { transmit.push_data(&source, begin, length) }
                send(&mut transmit);
            }
            while !transmit.is_empty() {
                send(&mut transmit);
            }
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_command_is_found_within_the_bytes_that_contain_its_begin() {
        let itt = hakaru_wire::iscsi::Itt(1);
        let mut transmit = Transmit::default();
        transmit.push(&[0; 10]);
        transmit.mark_all(Mark::burst_ended(itt, 10));
        assert!(!transmit.has_command_within(100));
        transmit.mark_next(Mark::command(itt));
        transmit.push(&[0; 48]);
        assert!(!transmit.has_command_within(10));
        assert!(transmit.has_command_within(11));
        let departure = Departure {
            passed: Time(5),
            left: Time(7),
        };
        transmit.advance(departure, 58);
        let mut passed = Vec::new();
        transmit.take_passed(|at, mark| passed.push((at, mark.is_command())));
        assert_eq!(passed, [(departure, false), (departure, true)]);
        assert!(!transmit.has_command_within(100));
    }

    #[test]
    fn marks_are_reported_in_order_when_their_bytes_were_sent() {
        let mark = |n| Mark::burst_ended(hakaru_wire::iscsi::Itt(n), n);
        let mut transmit = Transmit::default();
        transmit.push(&[0; 10]);
        transmit.mark_next(mark(1));
        transmit.push(&[0; 10]);
        transmit.mark_all(mark(2));
        transmit.mark_next(mark(3));
        let passed = |transmit: &mut Transmit| {
            let mut all = Vec::new();
            transmit.take_passed(|at, mark| all.push((at.left, mark)));
            all
        };
        let sent = |transmit: &mut Transmit, at, n| {
            transmit.advance(Time(at), n);
            passed(transmit)
        };
        assert_eq!(sent(&mut transmit, 1, 10), []);
        assert_eq!(sent(&mut transmit, 2, 1), [(Time(2), mark(1))]);
        assert_eq!(sent(&mut transmit, 3, 8), []);
        assert_eq!(sent(&mut transmit, 4, 1), [(Time(4), mark(2))]);
        transmit.push(&[0; 1]);
        assert_eq!(sent(&mut transmit, 5, 1), [(Time(5), mark(3))]);
        // Each mark keeps its own instant, even if the call is late.
        for n in 6..9 {
            transmit.mark_next(mark(n));
            transmit.push(&[0; 2]);
            transmit.advance(Time(n.into()), 2);
        }
        let all = (6..9).map(|n| (Time(n.into()), mark(n)));
        assert_eq!(passed(&mut transmit), all.collect::<Vec<_>>());
    }
}
