//! The send queue of a session: header bytes in an arena, and data that is referenced, not copied.
use std::collections::VecDeque;
use std::sync::Arc;

use hakaru_units::Time;

use crate::session::Mark;

/// A part of a buffer that a write references.
#[derive(Debug)]
struct Data {
    /// Bytes of the arena that go before it, counted from the beginning.
    place: u64,
    buffer: Arc<Vec<u8>>,
    begin: usize,
    length: usize,
}

impl Data {
    /// Bytes of the arena between there and it.
    fn behind(&self, place: u64) -> usize {
        (self.place - place) as usize
    }
}

/// A queue of bytes to send, in order.
///
/// Commands that carry no data lie side by side in one arena, so a batch of reads is one slice
/// however many they are.
#[derive(Debug, Default)]
pub struct Transmit {
    arena: Vec<u8>,
    /// Bytes of the arena that were sent.
    arena_sent: usize,
    /// Bytes that were given back, of which the arena's begin is the end.
    reclaimed: u64,
    /// What is referenced; all else is in the arena.
    data: VecDeque<Data>,
    /// Bytes of the first of them that were sent.
    data_sent: usize,
    length: usize,
    /// Bytes sent since the beginning.
    sent: u64,
    /// Places in the stream of bytes that a command waits for to be passed, in order.
    marks: VecDeque<(u64, Mark)>,
    /// Places that were reached while marks were waiting, and when.
    reached: VecDeque<(Time, u64)>,
}

impl Transmit {
    /// Nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// All that is queued, in order. The sender takes as many slices as fit one call, then calls
    /// [`Transmit::advance`].
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut arena = &self.arena[self.arena_sent..];
        let mut place = self.place();
        let mut skip = self.data_sent;
        let mut data = self.data.iter().peekable();
        std::iter::from_fn(move || {
            let before = data.peek().map_or(arena.len(), |next| next.behind(place));
            if before > 0 {
                let (slice, rest) = arena.split_at(before);
                (arena, place) = (rest, place + before as u64);
                return Some(slice);
            }
            let next = data.next()?;
            let skipped = std::mem::take(&mut skip);
            Some(&next.buffer[next.begin + skipped..next.begin + next.length])
        })
    }

    /// The first `n` bytes were sent; by `now` the network has them.
    ///
    /// # Panics
    /// Panics if fewer are queued: a defect of the caller.
    pub fn advance(&mut self, now: Time, mut n: usize) {
        assert!(n <= self.length, "{n} bytes sent of {} queued", self.length);
        self.length -= n;
        self.sent += n as u64;
        if !self.marks.is_empty() {
            self.reached.push_back((now, self.sent));
        }
        while n > 0 {
            let place = self.place();
            let taken = match self.data.front() {
                Some(first) if first.place == place => {
                    let taken = n.min(first.length - self.data_sent);
                    self.data_sent += taken;
                    if self.data_sent == first.length {
                        self.data.pop_front();
                        self.data_sent = 0;
                    }
                    taken
                }
                first => {
                    let taken = first.map_or(n, |first| n.min(first.behind(place)));
                    self.arena_sent += taken;
                    taken
                }
            };
            n -= taken;
        }
        self.reclaim();
    }

    /// Forgets everything that is queued.
    pub(crate) fn clear(&mut self) {
        *self = Transmit::default();
    }

    /// Reports `mark` once the first byte queued next was sent.
    #[inline]
    pub(crate) fn mark_next(&mut self, mark: Mark) {
        let place = self.sent + self.length as u64 + 1;
        self.marks.push_back((place, mark));
    }

    /// Reports `mark` once every byte queued so far was sent.
    pub(crate) fn mark_all(&mut self, mark: Mark) {
        let place = self.sent + self.length as u64;
        self.marks.push_back((place, mark));
    }

    /// Visits the marks passed after the last call, each with its instant.
    #[inline]
    pub(crate) fn take_passed(&mut self, mut see: impl FnMut(Time, Mark)) {
        while let Some((at, reached)) = self.reached.pop_front() {
            while let Some(&(place, mark)) = self.marks.front()
                && place <= reached
            {
                self.marks.pop_front();
                see(at, mark);
            }
        }
    }

    /// Queues `bytes`.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.arena.extend_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Queues a part of `buffer` without copying it.
    pub(crate) fn push_data(&mut self, buffer: &Arc<Vec<u8>>, begin: usize, length: usize) {
        if length > 0 {
            self.data.push_back(Data {
                place: self.reclaimed + self.arena.len() as u64,
                buffer: Arc::clone(buffer),
                begin,
                length,
            });
            self.length += length;
        }
    }

    /// How many bytes of the arena were sent, counted from the beginning.
    fn place(&self) -> u64 {
        self.reclaimed + self.arena_sent as u64
    }

    /// Gives the sent part of the arena back once it is at least half of it: every byte moves at
    /// most once on average.
    fn reclaim(&mut self) {
        let all = self.arena_sent == self.arena.len();
        if all || (self.arena_sent >= 4096 && self.arena_sent * 2 >= self.arena.len()) {
            self.arena.drain(..self.arena_sent);
            self.reclaimed += self.arena_sent as u64;
            self.arena_sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Bytes queued in any pieces leave once and in order, however many are sent at a time.
        #[test]
        fn bytes_come_out_as_they_went_in(
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
    fn marks_are_told_when_their_bytes_were_sent_and_in_order() {
        let mark = |n| Mark::burst_ended(hakaru_wire::iscsi::Itt(n), n);
        let mut transmit = Transmit::default();
        transmit.push(&[0; 10]);
        transmit.mark_next(mark(1));
        transmit.push(&[0; 10]);
        transmit.mark_all(mark(2));
        transmit.mark_next(mark(3));
        let passed = |transmit: &mut Transmit| {
            let mut all = Vec::new();
            transmit.take_passed(|at, mark| all.push((at, mark)));
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
        // However late the look is, each has its own instant.
        for n in 6..9 {
            transmit.mark_next(mark(n));
            transmit.push(&[0; 2]);
            transmit.advance(Time(n.into()), 2);
        }
        let all = (6..9).map(|n| (Time(n.into()), mark(n)));
        assert_eq!(passed(&mut transmit), all.collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_of_headers_is_one_slice() {
        let mut transmit = Transmit::default();
        (0..32u8).for_each(|i| transmit.push(&[i; 48]));
        assert_eq!(transmit.slices().count(), 1);
        assert_eq!(transmit.len(), 32 * 48);
    }
}
