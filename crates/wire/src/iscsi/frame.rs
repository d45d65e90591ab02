//! Splits a byte stream into PDUs without collecting them.
//!
//! TCP delivers pieces of any size. [`Framer::next`] consumes the front of a piece and returns the
//! next part of a PDU:
//!
//! ```text
//!             +-----------------------------------------------------------+
//!   stream    | BHS 48 | AHS 0..1020 | digest 0|4 | data | pad | digest 0|4 |  next PDU ...
//!             +-----------------------------------------------------------+
//!   frames     Header{bhs, ahs}                     Data*        End{ok}
//! ```
//!
//! Every PDU yields one `Header`, any number of `Data` (none for an empty segment) and one `End`. A
//! header that lies entirely in one piece is read in place. A header that is split across pieces is
//! assembled in a buffer of at most 48 + 1020 + 4 bytes, allocated when first needed. The framer
//! keeps BHS and AHS until the next PDU, so its caller need not. Data is passed on in place and
//! never stored. Lengths are checked against the limit first.
//!
//! The next header is read only after `End` was returned, so a change of digests or limit (after
//! login) takes effect with the next PDU.
//!
//! Errors are final: after a header that cannot be read, the start of the next header is unknown
//! (RFC 7143 section 7.7), and the connection must be closed.
use super::ahs::AHS_LENGTH_MAX;
use super::digest::{DIGEST_LENGTH, DataDigest, header_digest, padding};
use super::{BHS_LENGTH, Bhs};

/// A part of a PDU. `'f` ends when the framer is used again; `'i` is the lifetime of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'f, 'i> {
    /// A PDU begins.
    Header {
        /// Basic header.
        bhs: &'f Bhs,
        /// Additional headers, see [`super::ahs`].
        ahs: &'f [u8],
    },
    /// A piece of the data segment.
    Data {
        /// Offset of the piece in the data segment, bytes.
        offset: u32,
        /// At least one byte. Unverified until `End` if data digests are on.
        bytes: &'i [u8],
    },
    /// The PDU is complete.
    End {
        /// Whether the data digest matches. Always true without data or without a digest.
        data_digest_ok: bool,
    },
}

/// Errors after which the stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header does not match its digest.
    #[error("header digest error")]
    HeaderDigest,
    /// The data segment exceeds the limit. [`Framer::bhs`] returns its header.
    #[error("data segment of {length} bytes exceeds the limit of {limit} bytes")]
    DataSegmentTooLong {
        /// DataSegmentLength.
        length: u32,
        /// The limit.
        limit: u32,
    },
}

/// Position of the stream within a PDU.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Before or within a header.
    Header,
    /// Within the data segment.
    Data { offset: u32, length: u32 },
    /// Within padding and data digest; `received` bytes of them are in `trailer`.
    Trailer { received: u8, length: u8 },
    /// After the last byte of the PDU.
    End { data_digest_ok: bool },
    /// After an error.
    Failed(FrameError),
}

/// Reads one direction of one connection.
#[derive(Debug)]
pub struct Framer {
    state: State,
    header_digest: bool,
    data_digest: bool,
    data_segment_length_max: u32,
    /// Basic header of the current PDU, or of the previous PDU between PDUs. Belongs to the next
    /// PDU while a split header is incomplete.
    bhs: Bhs,
    /// Additional headers of the current PDU.
    ahs: Vec<u8>,
    /// Bytes received of a split header; empty otherwise.
    partial: Vec<u8>,
    /// Bytes received of padding and digest: 3 + 4 at most.
    trailer: [u8; 7],
    digest: DataDigest,
}

impl Framer {
    /// Creates the framer of a new connection, without digests. `data_segment_length_max` is the
    /// MaxRecvDataSegmentLength that this side has declared, bytes, or 8192 before the declaration
    /// (RFC 7143 section 13.12).
    pub fn new(data_segment_length_max: u32) -> Framer {
        Framer {
            state: State::Header,
            header_digest: false,
            data_digest: false,
            data_segment_length_max,
            bhs: Bhs::new([0; BHS_LENGTH]),
            ahs: Vec::new(),
            partial: Vec::new(),
            trailer: [0; 7],
            digest: DataDigest::default(),
        }
    }

    /// Switches digests on or off, with effect from the next PDU.
    ///
    /// # Panics
    /// Panics unless called between PDUs: after `End`, before the next header.
    pub fn set_digests(&mut self, header: bool, data: bool) {
        assert!(
            !matches!(self.state, State::Data { .. } | State::Trailer { .. }),
            "digests can change only between PDUs"
        );
        self.header_digest = header;
        self.data_digest = data;
    }

    /// Sets the limit of data segments, bytes, with effect from the next PDU.
    pub fn set_data_segment_length_max(&mut self, bytes: u32) {
        self.data_segment_length_max = bytes;
    }

    /// Returns the next part of a PDU, or `None` if `input` is used up. Advances `input` past the
    /// bytes consumed.
    ///
    /// # Errors
    /// See [`FrameError`]. Every later call returns the same error.
    pub fn next<'f, 'i: 'f>(
        &'f mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'f, 'i>>, FrameError> {
        match self.state {
            State::Header => self.next_header(input),
            State::Data { offset, length } => Ok(self.next_data(input, offset, length)),
            State::Trailer { received, length } => Ok(self.next_trailer(input, received, length)),
            State::End { data_digest_ok } => Ok(self.next_end(data_digest_ok)),
            State::Failed(error) => Err(error),
        }
    }

    /// Returns the basic header of the current PDU, from its `Header` to its `End`.
    pub fn bhs(&self) -> &Bhs {
        &self.bhs
    }

    /// Returns the additional headers of the current PDU.
    pub fn ahs(&self) -> &[u8] {
        &self.ahs
    }

    /// Returns the number of buffered bytes of a split header, at most 1072.
    pub fn buffered(&self) -> usize {
        self.partial.len()
    }

    /// Returns whether the stream is between two PDUs. A stream that ends here is complete.
    pub fn is_between_pdus(&self) -> bool {
        matches!(self.state, State::Header) && self.partial.is_empty()
    }

    /// Returns the number of bytes of the current data segment that are still missing. 0 if a data
    /// digest needs them, in a segment shorter than `segment_min` bytes and outside data segments.
    pub fn data_left(&self, segment_min: u32) -> u32 {
        match self.state {
            State::Data { offset, length } if length >= segment_min && !self.data_digest => {
                length - offset
            }
            _ => 0,
        }
    }

    fn next_header<'f, 'i: 'f>(
        &'f mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'f, 'i>>, FrameError> {
        let piece = *input;
        if self.partial.is_empty()
            && let Some(bytes) = piece.first_chunk::<BHS_LENGTH>()
        {
            self.bhs = Bhs::new(*bytes);
            let length = self.header_length()?;
            if let Some((header, rest)) = piece.split_at_checked(length) {
                *input = rest;
                return self.begin(header).map(Some);
            }
        }
        self.next_split_header(input)
    }

    /// Assembles a header that is split across pieces.
    #[cold]
    fn next_split_header<'f, 'i: 'f>(
        &'f mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'f, 'i>>, FrameError> {
        self.fill_partial(input, BHS_LENGTH);
        let Some(bytes) = self.partial.first_chunk::<BHS_LENGTH>() else {
            return Ok(None);
        };
        self.bhs = Bhs::new(*bytes);
        let length = self.header_length()?;
        self.fill_partial(input, length);
        if self.partial.len() < length {
            return Ok(None);
        }
        let mut header = std::mem::take(&mut self.partial);
        let result = self.begin(&header).map(|_| ());
        header.clear();
        self.partial = header;
        result?;
        Ok(Some(self.header()))
    }

    /// Moves bytes from `input` until `partial` holds `wanted`.
    fn fill_partial(&mut self, input: &mut &[u8], wanted: usize) {
        debug_assert!(wanted <= BHS_LENGTH + AHS_LENGTH_MAX + DIGEST_LENGTH);
        let missing = wanted.saturating_sub(self.partial.len()).min(input.len());
        let (moved, rest) = input.split_at(missing);
        self.partial.extend_from_slice(moved);
        *input = rest;
    }

    /// Checks the length of the data segment and returns the length of BHS, AHS and header digest.
    fn header_length(&mut self) -> Result<usize, FrameError> {
        let length = self.bhs.data_segment_length();
        let limit = self.data_segment_length_max;
        if length > limit {
            return Err(self.fail(FrameError::DataSegmentTooLong { length, limit }));
        }
        Ok(BHS_LENGTH + self.bhs.ahs_length() + if self.header_digest { DIGEST_LENGTH } else { 0 })
    }

    /// Checks the digest of a complete header and enters the state after it.
    fn begin<'f, 'i: 'f>(&'f mut self, header: &[u8]) -> Result<Frame<'f, 'i>, FrameError> {
        if self.header_digest {
            let (header, digest) = header.split_at(header.len() - DIGEST_LENGTH);
            if header_digest(header) != *digest {
                return Err(self.fail(FrameError::HeaderDigest));
            }
        }
        self.ahs.clear();
        let ahs_length = self.bhs.ahs_length();
        if ahs_length > 0 {
            let ahs = &header[BHS_LENGTH..BHS_LENGTH + ahs_length];
            self.ahs.extend_from_slice(ahs);
        }
        let length = self.bhs.data_segment_length();
        self.state = if length == 0 {
            State::End {
                data_digest_ok: true,
            }
        } else {
            self.digest = DataDigest::default();
            State::Data { offset: 0, length }
        };
        Ok(self.header())
    }

    fn header<'f, 'i: 'f>(&'f self) -> Frame<'f, 'i> {
        Frame::Header {
            bhs: &self.bhs,
            ahs: &self.ahs,
        }
    }

    fn next_data<'f, 'i: 'f>(
        &'f mut self,
        input: &mut &'i [u8],
        offset: u32,
        length: u32,
    ) -> Option<Frame<'f, 'i>> {
        let missing = (length - offset) as usize;
        let (bytes, rest) = input.split_at(missing.min(input.len()));
        if bytes.is_empty() {
            return None;
        }
        *input = rest;
        if self.data_digest {
            self.digest.update(bytes);
        }
        self.state = if bytes.len() < missing {
            State::Data {
                offset: offset + bytes.len() as u32,
                length,
            }
        } else {
            match padding(length as usize) + if self.data_digest { DIGEST_LENGTH } else { 0 } {
                0 => State::End {
                    data_digest_ok: true,
                },
                trailer => State::Trailer {
                    received: 0,
                    length: trailer as u8,
                },
            }
        };
        Some(Frame::Data { offset, bytes })
    }

    fn next_trailer<'f, 'i: 'f>(
        &'f mut self,
        input: &mut &'i [u8],
        received: u8,
        length: u8,
    ) -> Option<Frame<'f, 'i>> {
        let missing = usize::from(length - received);
        let (bytes, rest) = input.split_at(missing.min(input.len()));
        let begin = usize::from(received);
        self.trailer[begin..begin + bytes.len()].copy_from_slice(bytes);
        *input = rest;
        if bytes.len() < missing {
            self.state = State::Trailer {
                received: received + bytes.len() as u8,
                length,
            };
            return None;
        }
        let data_digest_ok = !self.data_digest || self.trailer_digest_matches(usize::from(length));
        self.next_end(data_digest_ok)
    }

    /// Compares the digest over data and padding *as received*. A peer's padding should be zeros
    /// (RFC 7143 section 11.2.3), but its digest covers the bytes that it sent.
    fn trailer_digest_matches(&self, length: usize) -> bool {
        let (padding, digest) = self.trailer[..length].split_at(length - DIGEST_LENGTH);
        let mut computed = self.digest;
        computed.update(padding);
        computed.finish() == *digest
    }

    fn next_end<'f, 'i: 'f>(&'f mut self, data_digest_ok: bool) -> Option<Frame<'f, 'i>> {
        self.state = State::Header;
        Some(Frame::End { data_digest_ok })
    }

    #[cold]
    fn fail(&mut self, error: FrameError) -> FrameError {
        self.state = State::Failed(error);
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::digest::emit_data_trailer;
    use proptest::prelude::*;

    /// A PDU as a stream carries it.
    #[derive(Clone, Debug)]
    struct Pdu {
        bhs: Bhs,
        ahs: Vec<u8>,
        data: Vec<u8>,
    }

    impl Pdu {
        fn new(opcode: u8, ahs_words: u8, data: Vec<u8>) -> Pdu {
            let mut bytes = [opcode; BHS_LENGTH];
            bytes[4] = ahs_words;
            bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
            Pdu {
                bhs: Bhs::new(bytes),
                ahs: vec![ahs_words; usize::from(ahs_words) * 4],
                data,
            }
        }

        fn emit(&self, header: bool, data: bool, out: &mut Vec<u8>) {
            let begin = out.len();
            out.extend_from_slice(self.bhs.as_bytes());
            out.extend_from_slice(&self.ahs);
            if header {
                let digest = header_digest(&out[begin..]);
                out.extend_from_slice(&digest);
            }
            out.extend_from_slice(&self.data);
            if !self.data.is_empty() {
                emit_data_trailer(&self.data, data, out);
            }
        }
    }

    /// Parsed PDUs with their pieces of data joined: (header, AHS, data, digest matches).
    type Read = Vec<(Bhs, Vec<u8>, Vec<u8>, bool)>;

    /// Feeds the pieces to the framer and checks the grammar Header Data* End.
    fn read<'a>(
        framer: &mut Framer,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Read, FrameError> {
        let mut all = Read::new();
        let mut within = false;
        for mut piece in pieces {
            while let Some(frame) = framer.next(&mut piece)? {
                match frame {
                    Frame::Header { bhs, ahs } => {
                        assert!(!within);
                        within = true;
                        all.push((*bhs, ahs.to_vec(), Vec::new(), false));
                    }
                    Frame::Data { offset, bytes } => {
                        let (_, _, data, _) = all.last_mut().expect("data follows a header");
                        assert!(within && !bytes.is_empty() && offset as usize == data.len());
                        data.extend_from_slice(bytes);
                    }
                    Frame::End { data_digest_ok } => {
                        assert!(within);
                        within = false;
                        let last = all.last_mut().expect("the end follows a header");
                        last.3 = data_digest_ok;
                        assert_eq!((framer.bhs(), framer.ahs()), (&last.0, &last.1[..]));
                    }
                }
            }
            assert!(piece.is_empty(), "the entire piece is consumed");
            assert!(framer.buffered() <= BHS_LENGTH + AHS_LENGTH_MAX + DIGEST_LENGTH);
        }
        assert_eq!(framer.is_between_pdus(), !within && framer.buffered() == 0);
        Ok(all)
    }

    fn framer(header: bool, data: bool) -> Framer {
        let mut framer = Framer::new(1 << 20);
        framer.set_digests(header, data);
        framer
    }

    fn pdus() -> impl Strategy<Value = Vec<Pdu>> {
        let ahs = prop_oneof![4 => Just(0u8), 1 => 1u8..=255];
        let data = prop_oneof![2 => Just(0usize), 3 => 1usize..40, 1 => 40usize..5000];
        let pdu = (any::<u8>(), ahs, data, any::<u8>()).prop_map(|(opcode, ahs, length, fill)| {
            let data = (0..length).map(|i| fill.wrapping_add(i as u8)).collect();
            Pdu::new(opcode, ahs, data)
        });
        proptest::collection::vec(pdu, 0..8)
    }

    proptest! {
        #[test]
        fn every_split_of_the_stream_yields_the_same_pdus(
            pdus in pdus(), header: bool, data: bool, cuts in proptest::collection::vec(1usize..300, 1..60),
        ) {
            let mut stream = Vec::new();
            pdus.iter().for_each(|pdu| pdu.emit(header, data, &mut stream));
            let expected: Read = pdus.iter().map(|pdu| (pdu.bhs, pdu.ahs.clone(), pdu.data.clone(), true)).collect();
            let whole = read(&mut framer(header, data), [&stream[..]]).unwrap();
            prop_assert_eq!(&whole, &expected);
            let mut rest = &stream[..];
            let mut cuts = cuts.into_iter().cycle();
            let pieces = std::iter::from_fn(|| {
                let (piece, after) = rest.split_at(cuts.next()?.min(rest.len()));
                rest = after;
                (!piece.is_empty()).then_some(piece)
            });
            prop_assert_eq!(read(&mut framer(header, data), pieces).unwrap(), expected);
        }

        #[test]
        fn no_bytes_panic(stream in proptest::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..4000), header: bool, data: bool, size in 1usize..100) {
            let _ = read(&mut framer(header, data), stream.chunks(size));
        }
    }

    #[test]
    fn byte_by_byte_yields_the_same_pdus_with_every_digest() {
        let pdus = [
            Pdu::new(1, 0, vec![]),
            Pdu::new(2, 3, vec![1, 2, 3]),
            Pdu::new(3, 255, vec![7; 600]),
            Pdu::new(4, 0, vec![4; 4]),
        ];
        let expected: Read = pdus
            .iter()
            .map(|pdu| (pdu.bhs, pdu.ahs.clone(), pdu.data.clone(), true))
            .collect();
        for (header, data) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut stream = Vec::new();
            pdus.iter()
                .for_each(|pdu| pdu.emit(header, data, &mut stream));
            assert_eq!(
                read(&mut framer(header, data), stream.chunks(1)).unwrap(),
                expected
            );
        }
    }

    #[test]
    fn flipped_bit_anywhere_in_the_header_is_detected() {
        let mut stream = Vec::new();
        Pdu::new(1, 2, vec![]).emit(true, false, &mut stream);
        for at in (0..stream.len()).filter(|at| !(4..8).contains(at)) {
            let mut damaged = stream.clone();
            damaged[at] ^= 0x10;
            let mut framer = framer(true, false);
            assert_eq!(
                read(&mut framer, [&damaged[..]]),
                Err(FrameError::HeaderDigest),
                "byte {at}"
            );
            assert_eq!(
                read(&mut framer, [&stream[..]]),
                Err(FrameError::HeaderDigest),
                "an error is final"
            );
        }
    }

    #[test]
    fn flipped_bit_of_data_padding_or_digest_is_reported_and_the_stream_continues() {
        let data = vec![9; 6];
        let mut stream = Vec::new();
        Pdu::new(1, 0, data).emit(false, true, &mut stream);
        for at in BHS_LENGTH..stream.len() {
            let mut damaged = stream.clone();
            damaged[at] ^= 1;
            damaged.extend_from_slice(&stream);
            let all = read(&mut framer(false, true), damaged.chunks(5)).unwrap();
            assert_eq!((all[0].3, all[1].3), (false, true), "byte {at}");
        }
    }

    #[test]
    fn length_above_the_limit_is_refused_before_its_data_is_consumed() {
        let mut stream = Vec::new();
        Pdu::new(1, 0, vec![0; 513]).emit(false, false, &mut stream);
        for cut in [1, 47, 48, 100] {
            let mut framer = Framer::new(512);
            let error = read(&mut framer, stream.chunks(cut)).unwrap_err();
            assert!(
                matches!(
                    error,
                    FrameError::DataSegmentTooLong {
                        length: 513,
                        limit: 512,
                        ..
                    }
                ),
                "{error}"
            );
        }
        assert!(read(&mut Framer::new(513), [&stream[..]]).is_ok());
    }

    #[test]
    fn digests_switched_on_after_a_pdu_apply_to_the_next_pdu_of_the_same_piece() {
        let (plain, digested) = (Pdu::new(1, 0, vec![1; 5]), Pdu::new(2, 0, vec![2; 5]));
        let mut stream = Vec::new();
        plain.emit(false, false, &mut stream);
        digested.emit(true, true, &mut stream);
        let mut framer = Framer::new(512);
        let mut input = &stream[..];
        while !matches!(framer.next(&mut input), Ok(Some(Frame::End { .. }))) {}
        framer.set_digests(true, true);
        assert_eq!(
            read(&mut framer, [input]),
            Ok(vec![(digested.bhs, vec![], digested.data, true)])
        );
    }

    #[test]
    fn whole_pdus_in_a_piece_need_no_buffer() {
        let mut stream = Vec::new();
        (0..100).for_each(|i| Pdu::new(1, 0, vec![0; i % 7]).emit(false, false, &mut stream));
        let mut framer = Framer::new(512);
        read(&mut framer, [&stream[..]]).unwrap();
        assert_eq!(framer.partial.capacity(), 0);
    }
}
