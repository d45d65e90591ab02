//! Frames of the stream (MS-SMB2 section 2.1): a zero byte, a length of 24 bits, and a message or a
//! compound.
use std::ops::Range;

use crate::op::ReadData;
use crate::wire::WireError;

const PREFIX_LENGTH: usize = 4;
/// Capacity that the buffer keeps between two frames, bytes.
const KEPT_BYTES: usize = 64 << 10;

/// A frame: part of the received bytes, or a buffer in which it was collected.
#[derive(Debug)]
pub(crate) enum Frame<'a> {
    Received(&'a [u8]),
    Collected(Vec<u8>),
}

impl Frame<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Frame::Received(bytes) => bytes,
            Frame::Collected(bytes) => bytes,
        }
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

/// Splits a stream into frames. A frame that arrives in one piece is not copied.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    prefix: [u8; PREFIX_LENGTH],
    prefix_filled: usize,
    /// Length of the frame whose begin is in `buffer`.
    length: usize,
    buffer: Vec<u8>,
}

impl Assembler {
    /// Removes the next frame, or the begin of one, from `input`. `limit` bounds its length, so a
    /// peer cannot make the buffer grow further.
    pub(crate) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        limit: usize,
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
        if self.buffer.is_empty() && !input.is_empty() {
            self.buffer.reserve(self.length.min(limit));
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
        if let Frame::Collected(mut buffer) = frame
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
                while let Some(frame) = assembler.next(&mut piece, 400).unwrap() {
                    got.push(frame.bytes().to_vec());
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
                .next(&mut &prefix[..], 256)
                .unwrap_err();
            assert!(matches!(error, WireError::Invalid(_)));
        }
    }
}
