//! What a session has to send: header bytes of its own, and data that is referenced, not copied.
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
enum Segment {
    /// This many bytes of the arena, after those of the segments before.
    Bytes(usize),
    /// A part of a buffer that a write references.
    Data {
        buffer: Arc<Vec<u8>>,
        begin: usize,
        length: usize,
    },
}

impl Segment {
    fn length(&self) -> usize {
        match *self {
            Segment::Bytes(length) | Segment::Data { length, .. } => length,
        }
    }
}

/// A queue of bytes to send, in order.
///
/// Commands that carry no data lie side by side in one arena, so a batch of reads is one slice however many they are.
#[derive(Debug, Default)]
pub struct Transmit {
    segments: VecDeque<Segment>,
    arena: Vec<u8>,
    /// Bytes of the arena that were sent.
    arena_sent: usize,
    /// Bytes of the first segment that were sent.
    first_sent: usize,
    length: usize,
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

    /// All that is queued, in order. The sender takes as many slices as fit one call, then calls [`Transmit::advance`].
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut arena = &self.arena[self.arena_sent..];
        let mut skip = self.first_sent;
        self.segments.iter().map(move |segment| {
            let skipped = std::mem::take(&mut skip);
            match segment {
                Segment::Bytes(length) => {
                    // `arena_sent` already stands behind what was sent of the first segment.
                    let (slice, rest) = arena.split_at(length - skipped);
                    arena = rest;
                    slice
                }
                Segment::Data {
                    buffer,
                    begin,
                    length,
                } => &buffer[begin + skipped..begin + length],
            }
        })
    }

    /// The first `n` bytes were sent.
    ///
    /// # Panics
    /// Panics if fewer are queued: a defect of the caller.
    pub fn advance(&mut self, mut n: usize) {
        assert!(n <= self.length, "{n} bytes sent of {} queued", self.length);
        self.length -= n;
        while n > 0 {
            let first = self
                .segments
                .front()
                .expect("bytes are queued, so there is a segment");
            let taken = n.min(first.length() - self.first_sent);
            if matches!(first, Segment::Bytes(_)) {
                self.arena_sent += taken;
            }
            self.first_sent += taken;
            n -= taken;
            if self.first_sent == first.length() {
                self.segments.pop_front();
                self.first_sent = 0;
            }
        }
        self.reclaim();
    }

    /// Forgets everything that is queued.
    pub(crate) fn clear(&mut self) {
        *self = Transmit::default();
    }

    /// Queues `bytes`.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.arena.extend_from_slice(bytes);
        self.length += bytes.len();
        match self.segments.back_mut() {
            Some(Segment::Bytes(length)) => *length += bytes.len(),
            _ => self.segments.push_back(Segment::Bytes(bytes.len())),
        }
    }

    /// Queues a part of `buffer` without copying it.
    pub(crate) fn push_data(&mut self, buffer: &Arc<Vec<u8>>, begin: usize, length: usize) {
        if length > 0 {
            self.segments.push_back(Segment::Data {
                buffer: Arc::clone(buffer),
                begin,
                length,
            });
            self.length += length;
        }
    }

    /// Gives the sent part of the arena back once it is at least half of it: every byte moves at most once on average.
    fn reclaim(&mut self) {
        if self.arena_sent == self.arena.len() {
            self.arena.clear();
            self.arena_sent = 0;
        } else if self.arena_sent >= 4096 && self.arena_sent * 2 >= self.arena.len() {
            self.arena.drain(..self.arena_sent);
            self.arena_sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is queued in whatever pieces comes out once, in order, whatever the sender takes at a time.
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
                transmit.advance(n);
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
    fn a_batch_of_headers_is_one_slice() {
        let mut transmit = Transmit::default();
        (0..32u8).for_each(|i| transmit.push(&[i; 48]));
        assert_eq!(transmit.slices().count(), 1);
        assert_eq!(transmit.len(), 32 * 48);
    }
}
