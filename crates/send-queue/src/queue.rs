//! The send queue: copied bytes in an arena, and payloads by reference.

use std::collections::VecDeque;

/// A reference to bytes that are sent in place.
pub trait Payload {
    /// Returns the number of bytes that remain to be sent, at least 1.
    fn remaining(&self) -> usize;

    /// Drops the first `sent` bytes, fewer than [`Self::remaining`].
    fn advance(&mut self, sent: usize);
}

/// Contiguous bytes to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a, P> {
    /// Bytes of the arena; at least 1.
    Bytes(&'a [u8]),
    /// A payload.
    Payload(&'a P),
}

/// A payload and its position among the copied bytes.
#[derive(Debug)]
struct Placed<P> {
    /// Number of bytes copied into the queue before the payload, over the life of the queue.
    after: u64,
    payload: P,
}

/// Bytes to send, in order.
///
/// Copied bytes are contiguous in one reusable arena, so any number of headers without payloads
/// between them is one piece. Payloads are referenced, never copied.
#[derive(Debug)]
pub struct SendQueue<P> {
    arena: Vec<u8>,
    /// Number of bytes of the arena that were sent.
    arena_sent: usize,
    /// Number of bytes removed from the front of the arena over the life of the queue.
    reclaimed: u64,
    payloads: VecDeque<Placed<P>>,
    /// Number of bytes to send, of the arena and all payloads.
    pending: usize,
}

/// Capacity that an empty arena keeps, bytes. Also the number of sent bytes from which an arena
/// that does not run empty is compacted.
const COMPACT_BYTES: usize = 64 << 10;

impl<P> Default for SendQueue<P> {
    fn default() -> Self {
        Self {
            arena: Vec::new(),
            arena_sent: 0,
            reclaimed: 0,
            payloads: VecDeque::new(),
            pending: 0,
        }
    }
}

impl<P: Payload> SendQueue<P> {
    /// Returns whether the queue has nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending == 0
    }

    /// Returns the number of bytes to send.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.pending
    }

    /// Returns the number of copied bytes to send, without payloads.
    #[must_use]
    pub fn copied_bytes(&self) -> usize {
        self.arena.len() - self.arena_sent
    }

    /// Returns the pieces in order. The sender passes any number of them to one system call, then
    /// calls [`Self::advance`].
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_, P>> {
        let mut copied = &self.arena[self.arena_sent..];
        let mut place = self.place();
        let mut payloads = self.payloads.iter().peekable();
        std::iter::from_fn(move || {
            let before = payloads
                .peek()
                .map_or(copied.len(), |next| (next.after - place) as usize);
            if before > 0 {
                let (bytes, rest) = copied.split_at(before);
                copied = rest;
                place += before as u64;
                return Some(Piece::Bytes(bytes));
            }
            payloads.next().map(|next| Piece::Payload(&next.payload))
        })
    }

    /// Returns the first payload, if no copied byte comes before it.
    #[must_use]
    pub fn front_payload(&self) -> Option<&P> {
        let first = self.payloads.front()?;
        (first.after == self.place()).then_some(&first.payload)
    }

    /// Returns all payloads in order, including a partly sent one.
    pub fn payloads(&self) -> impl Iterator<Item = &P> {
        self.payloads.iter().map(|placed| &placed.payload)
    }

    /// Appends a copy of `bytes`.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.arena.extend_from_slice(bytes);
        self.pending += bytes.len();
    }

    /// Appends a payload.
    pub fn push_payload(&mut self, payload: P) {
        debug_assert!(payload.remaining() > 0, "a payload has at least one byte");
        self.pending += payload.remaining();
        self.payloads.push_back(Placed {
            after: self.reclaimed + self.arena.len() as u64,
            payload,
        });
    }

    /// Puts a payload before everything that is pending.
    pub fn push_front_payload(&mut self, payload: P) {
        debug_assert!(payload.remaining() > 0, "a payload has at least one byte");
        self.pending += payload.remaining();
        self.payloads.push_front(Placed {
            after: self.place(),
            payload,
        });
    }

    /// Removes the first `sent` bytes. Calls `completed` with each payload that was sent entirely,
    /// in order. Returns the partly sent payload if the first `sent` bytes end within a payload.
    ///
    /// # Panics
    /// Panics if fewer bytes are pending.
    pub fn advance(&mut self, mut sent: usize, mut completed: impl FnMut(P)) -> Option<&mut P> {
        assert!(
            sent <= self.pending,
            "{sent} bytes sent of {} queued",
            self.pending
        );
        self.pending -= sent;
        while sent > 0 {
            let place = self.place();
            let Some(first) = self
                .payloads
                .front_mut()
                .filter(|first| first.after == place)
            else {
                sent -= self.advance_arena(sent);
                continue;
            };
            let remaining = first.payload.remaining();
            if sent < remaining {
                first.payload.advance(sent);
                break;
            }
            sent -= remaining;
            if let Some(first) = self.payloads.pop_front() {
                completed(first.payload);
            }
        }
        self.reclaim();
        if sent > 0 {
            self.payloads.front_mut().map(|first| &mut first.payload)
        } else {
            None
        }
    }

    /// Removes up to `sent` copied bytes that come before the first payload. Returns their number.
    fn advance_arena(&mut self, sent: usize) -> usize {
        let until_payload = self.payloads.front().map_or(self.copied_bytes(), |first| {
            (first.after - self.place()) as usize
        });
        let removed = sent.min(until_payload);
        self.arena_sent += removed;
        removed
    }

    /// Returns the number of copied bytes sent over the life of the queue.
    fn place(&self) -> u64 {
        self.reclaimed + self.arena_sent as u64
    }

    /// Removes the sent bytes from the arena if they are all of it, or if they are many and at
    /// least half of it. A byte therefore moves at most once on average.
    fn reclaim(&mut self) {
        let drained = self.arena_sent == self.arena.len();
        if drained || (self.arena_sent >= COMPACT_BYTES && self.arena_sent * 2 >= self.arena.len())
        {
            self.arena.drain(..self.arena_sent);
            self.reclaimed += self.arena_sent as u64;
            self.arena_sent = 0;
        }
        if drained {
            self.arena.shrink_to(COMPACT_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A payload: bytes `start..end` of a source in which byte n is n mod 251.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Range {
        start: usize,
        end: usize,
    }

    impl Payload for Range {
        fn remaining(&self) -> usize {
            self.end - self.start
        }

        fn advance(&mut self, sent: usize) {
            self.start += sent;
        }
    }

    fn source(range: &Range) -> impl Iterator<Item = u8> {
        (range.start..range.end).map(|n| (n % 251) as u8)
    }

    fn content(queue: &SendQueue<Range>) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in queue.pieces() {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Payload(range) => out.extend(source(range)),
            }
        }
        out
    }

    proptest! {
        #[test]
        fn bytes_are_sent_once_and_in_order_with_any_size_of_send(
            pushes in proptest::collection::vec((any::<bool>(), 1usize..3000), 1..200),
            sends in proptest::collection::vec(0usize..5000, 1..200),
        ) {
            let mut queue = SendQueue::default();
            let mut model: VecDeque<u8> = VecDeque::new();
            let (mut queued, mut completed) = (Vec::new(), Vec::new());
            let mut sends = sends.into_iter().chain([1]).cycle();
            for (copied, length) in pushes {
                let range = Range { start: model.len() * 13 % 1000, end: model.len() * 13 % 1000 + length };
                model.extend(source(&range));
                if copied {
                    queue.push_bytes(&source(&range).collect::<Vec<_>>());
                } else {
                    queued.push(range.end);
                    queue.push_payload(range);
                }
                let sent = sends.next().unwrap().min(model.len());
                let cut = queue.advance(sent, |range| completed.push(range.end)).is_some();
                model.drain(..sent);
                prop_assert!(!cut || queue.front_payload().is_some());
                prop_assert_eq!(queue.pending_bytes(), model.len());
                prop_assert_eq!(content(&queue), model.iter().copied().collect::<Vec<_>>());
            }
            prop_assert!(queue.advance(model.len(), |range| completed.push(range.end)).is_none());
            prop_assert!(queue.is_empty() && queue.pieces().next().is_none());
            prop_assert_eq!(completed, queued);
        }
    }

    #[test]
    fn adjacent_headers_are_one_piece() {
        let mut queue = SendQueue::<Range>::default();
        (0..32u8).for_each(|i| queue.push_bytes(&[i; 48]));
        assert_eq!(queue.pieces().count(), 1);
        assert_eq!((queue.pending_bytes(), queue.copied_bytes()), (1536, 1536));
    }

    #[test]
    fn a_payload_is_first_only_when_no_copied_byte_is_before_it() {
        let mut queue = SendQueue::default();
        queue.push_bytes(&[0; 10]);
        queue.push_payload(Range { start: 0, end: 5 });
        assert_eq!(queue.front_payload(), None);
        assert_eq!(queue.advance(9, drop), None);
        assert_eq!(queue.front_payload(), None);
        assert_eq!(queue.advance(1, drop), None);
        assert_eq!(queue.front_payload(), Some(&Range { start: 0, end: 5 }));
    }

    #[test]
    fn a_payload_put_in_front_is_sent_before_the_rest() {
        let mut queue = SendQueue::default();
        queue.push_bytes(&[7; 3]);
        queue.push_payload(Range { start: 0, end: 9 });
        queue.push_bytes(&[8; 2]);
        let cut = queue.advance(5, drop);
        assert_eq!(cut, Some(&mut Range { start: 2, end: 9 }));
        queue.push_front_payload(Range {
            start: 100,
            end: 102,
        });
        assert_eq!(content(&queue), [100, 101, 2, 3, 4, 5, 6, 7, 8, 8, 8]);
    }

    #[test]
    fn a_queue_that_never_runs_empty_keeps_a_small_arena() {
        let mut queue = SendQueue::<Range>::default();
        for _ in 0..100_000 {
            queue.push_bytes(&[0; 48]);
            queue.push_bytes(&[0; 48]);
            queue.advance(queue.pending_bytes() - 48, drop);
        }
        assert!(
            queue.arena.len() < 4 * COMPACT_BYTES,
            "{}",
            queue.arena.len()
        );
    }

    #[test]
    #[should_panic(expected = "11 bytes sent of 10 queued")]
    fn sending_more_than_is_queued_is_a_defect_of_the_caller() {
        let mut queue = SendQueue::<Range>::default();
        queue.push_bytes(&[0; 10]);
        queue.advance(11, drop);
    }
}
