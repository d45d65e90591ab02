//! Frames of the stream (MS-SMB2 section 2.1): a zero byte, a length of 24 bits, and a message or a
//! compound.
use std::ops::Range;

use crate::encryption::{Sealer, TRANSFORM_LENGTH};
use crate::op::ReadData;
use crate::wire::{READ_HEAD_LENGTH, WireError};

const PREFIX_LENGTH: usize = 4;
/// Capacity that the buffer keeps between two frames, bytes.
const KEPT_BYTES: usize = 64 << 10;

/// A frame: part of the received bytes, or a buffer in which it was collected.
#[derive(Debug)]
pub(crate) enum Frame<'a> {
    Received(&'a [u8]),
    Collected(Vec<u8>),
    /// The first [`READ_HEAD_LENGTH`] bytes of a frame whose other bytes were discarded.
    Head {
        head: Vec<u8>,
        /// Length of the frame.
        length: usize,
    },
}

impl Frame<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Frame::Received(bytes) => bytes,
            Frame::Collected(bytes) | Frame::Head { head: bytes, .. } => bytes,
        }
    }

    /// Returns the length of the frame, of which a head is only the first part.
    pub(crate) fn length(&self) -> usize {
        match self {
            Frame::Head { length, .. } => *length,
            _ => self.bytes().len(),
        }
    }

    /// Decrypts an encrypted frame. Returns `None` if it is not one of the sealer's session.
    pub(crate) fn open(self, sealer: &Sealer) -> Option<Frame<'static>> {
        let mut bytes = match self {
            Frame::Received(bytes) => bytes.to_vec(),
            Frame::Collected(bytes) => bytes,
            Frame::Head { .. } => return None,
        };
        let opened = sealer.open(&mut bytes);
        bytes.drain(..TRANSFORM_LENGTH.min(bytes.len()));
        opened.then_some(Frame::Collected(bytes))
    }

    /// Returns part of the frame. Copies it only if it must outlive the received bytes. With
    /// `last`, the rest of the frame is not needed any more.
    pub(crate) fn take(&mut self, range: Range<usize>, last: bool) -> ReadData {
        match self {
            Frame::Collected(bytes) if last => ReadData::new(std::mem::take(bytes), range),
            _ => {
                let data = self.bytes()[range].to_vec();
                let all = 0..data.len();
                ReadData::new(data, all)
            }
        }
    }
}

/// Splits a stream into frames. A frame that arrives in one piece is not copied, and of one that is
/// not wanted only the head is.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    prefix: [u8; PREFIX_LENGTH],
    prefix_filled: usize,
    /// Length of the frame whose begin is in `buffer`.
    length: usize,
    buffer: Vec<u8>,
    /// Bytes of the frame that are still to be discarded, if all behind its head are.
    unwanted: Option<usize>,
}

impl Assembler {
    /// Returns the number of bytes that will be discarded next.
    pub(crate) fn unwanted_bytes(&self) -> usize {
        self.unwanted.unwrap_or(0)
    }

    /// Removes the next frame, or the begin of one, from `input`. `limit` bounds its length, so a
    /// peer cannot make the buffer grow further. `is_unwanted` is asked, with the head of a frame
    /// that has not arrived entirely, whether the rest is to be discarded.
    pub(crate) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        limit: usize,
        is_unwanted: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<Frame<'a>>, WireError> {
        if self.prefix_filled < PREFIX_LENGTH {
            let part = split(input, PREFIX_LENGTH - self.prefix_filled);
            let end = self.prefix_filled + part.len();
            self.prefix[self.prefix_filled..end].copy_from_slice(part);
            self.prefix_filled = end;
            if end < PREFIX_LENGTH {
                return Ok(None);
            }
            let [kind, length @ ..] = self.prefix;
            if kind != 0 {
                return Err(WireError::Invalid("the stream has no frames of SMB"));
            }
            self.length = length
                .iter()
                .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
            if self.length == 0 || self.length > limit {
                return Err(WireError::Invalid("a frame is empty or too long"));
            }
        }
        if self.buffer.is_empty() && input.len() >= self.length {
            self.prefix_filled = 0;
            return Ok(Some(Frame::Received(split(input, self.length))));
        }
        if self.buffer.len() < READ_HEAD_LENGTH && self.length > READ_HEAD_LENGTH {
            let part = split(input, READ_HEAD_LENGTH - self.buffer.len());
            self.buffer.extend_from_slice(part);
            if self.buffer.len() < READ_HEAD_LENGTH {
                return Ok(None);
            }
            if is_unwanted(&self.buffer) {
                self.unwanted = Some(self.length - READ_HEAD_LENGTH);
            } else {
                self.buffer.reserve(self.length - READ_HEAD_LENGTH);
            }
        }
        if let Some(unwanted) = self.unwanted {
            let rest = unwanted - split(input, unwanted).len();
            if rest > 0 {
                self.unwanted = Some(rest);
                return Ok(None);
            }
            self.unwanted = None;
            self.prefix_filled = 0;
            return Ok(Some(Frame::Head {
                head: std::mem::take(&mut self.buffer),
                length: self.length,
            }));
        }
        let part = split(input, self.length - self.buffer.len());
        self.buffer.extend_from_slice(part);
        if self.buffer.len() < self.length {
            return Ok(None);
        }
        self.prefix_filled = 0;
        Ok(Some(Frame::Collected(std::mem::take(&mut self.buffer))))
    }

    /// Takes the buffer of a frame back.
    pub(crate) fn recycle(&mut self, frame: Frame<'_>) {
        if let Frame::Collected(mut buffer)
        | Frame::Head {
            head: mut buffer, ..
        } = frame
            && self.buffer.capacity() < buffer.capacity()
            && self.buffer.is_empty()
        {
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES);
            self.buffer = buffer;
        }
    }
}

/// Removes up to `length` bytes from the front of `input`.
fn split<'a>(input: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (part, rest) = input.split_at(length.min(input.len()));
    *input = rest;
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_are_the_same_in_pieces_of_any_size(
            frames in proptest::collection::vec(1usize..400, 1..20),
            cuts in proptest::collection::vec(1usize..500, 1..20),
            unwanted in proptest::collection::vec(any::<bool>(), 20),
        ) {
            let mut stream = Vec::new();
            for (n, &length) in frames.iter().enumerate() {
                stream.extend([0, 0, (length >> 8) as u8, length as u8]);
                stream.extend(vec![n as u8; length]);
            }
            let (mut assembler, mut got) = (Assembler::default(), Vec::new());
            let (mut rest, mut cuts) = (&stream[..], cuts.into_iter().cycle());
            while !rest.is_empty() {
                let mut piece = split(&mut rest, cuts.next().unwrap());
                let is_unwanted = |head: &[u8]| unwanted[usize::from(head[0])];
                while let Some(frame) = assembler.next(&mut piece, 400, is_unwanted).unwrap() {
                    if let Frame::Head { head, length } = &frame {
                        prop_assert!(is_unwanted(head) && head.len() == READ_HEAD_LENGTH);
                        got.push(vec![head[0]; *length]);
                    } else {
                        got.push(frame.bytes().to_vec());
                    }
                    assembler.recycle(frame);
                }
                prop_assert!(piece.is_empty());
            }
            let expected: Vec<_> = frames.iter().enumerate().map(|(n, &l)| vec![n as u8; l]).collect();
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn frames_that_are_too_long_are_refused_at_their_prefix() {
        for prefix in [[0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1]] {
            let error = Assembler::default()
                .next(&mut &prefix[..], 256, |_| false)
                .unwrap_err();
            assert!(matches!(error, WireError::Invalid(_)));
        }
    }
}
