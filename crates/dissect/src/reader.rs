//! Reads the PDUs of one direction.
//!
//! In step, `wire`'s [`Framer`] does the reading. Only headers are needed. If data was cut off or
//! is in no packet, its length is known, and zeros are read in its place. If a *header* is missing,
//! the session may know its contents (the next part of a burst). Otherwise the reader is out of
//! step and searches for the next bytes that can only be a header ([`crate::search`]). Skipped
//! bytes are counted.
//!
//! Bytes that are read again, because a decision needed more of them, keep their arrival time.
use std::collections::VecDeque;

use hakaru_wire::iscsi::digest::{DIGEST_LENGTH, header_digest};
use hakaru_wire::iscsi::frame::{Frame, Framer};
use hakaru_wire::iscsi::{BHS_LENGTH, Bhs, DATA_SEGMENT_LENGTH_MAX};

use crate::Sender;
use crate::clock::Stamp;
use crate::login::Digests;
use crate::plausible;
use crate::search::{MatchingHeader, search};
use crate::session::{Session, is_login};
use crate::stream::{Content, Piece};
use crate::window::{Run, Window};

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// State of a reader.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// In step.
    Reading,
    /// Out of step: bytes that may hold the beginning of a header.
    Searching(Window),
    /// In step, at the end of data; it is unknown whether a data digest precedes the next header.
    Deciding(Window),
}

/// Reader of one direction of a connection.
#[derive(Debug)]
pub(crate) struct Reader {
    step: Step,
    framer: Framer,
    digests: Digests,
    /// No header was assumed, and no digest guessed, between the last header that was seen and
    /// here.
    certain: bool,
    /// A data digest, or its absence, was guessed after the last header that was seen.
    guessed: bool,
    /// Bytes of an incomplete header.
    partial: Vec<u8>,
    /// The header of a PDU was read, and its end was not.
    in_pdu: bool,
    /// The PDU being read has data.
    has_data: bool,
    /// A part of that data was not captured.
    data_missing: bool,
    /// Bytes skipped out of step.
    pub(crate) skipped_bytes: u64,
    /// Number of times that the reader fell out of step.
    pub(crate) losses: u64,
    /// PDUs whose data digest is wrong.
    pub(crate) digest_errors: u64,
}

impl Reader {
    /// Creates a reader. `from_start`: its first byte is the first byte of the connection.
    pub(crate) fn new(from_start: bool) -> Reader {
        Reader {
            step: if from_start {
                Step::Reading
            } else {
                Step::Searching(Window::default())
            },
            framer: Framer::new(DATA_SEGMENT_LENGTH_MAX),
            digests: Digests {
                header: false,
                data: false,
            },
            certain: true,
            guessed: false,
            partial: Vec::new(),
            in_pdu: false,
            has_data: false,
            data_missing: false,
            skipped_bytes: 0,
            losses: 0,
            digest_errors: 0,
        }
    }

    /// Returns whether the reader knows its place in the stream.
    pub(crate) fn in_step(&self) -> bool {
        !matches!(self.step, Step::Searching(_))
    }

    /// Reads the next piece of the stream.
    pub(crate) fn handle_piece(&mut self, sender: Sender, piece: Piece<'_>, session: &mut Session) {
        let stamp = piece.stamp;
        match piece.content {
            Content::Bytes(bytes) => {
                let begins_packet = true;
                let run = Run {
                    stamp,
                    bytes,
                    begins_packet,
                };
                if let Some(again) = self.feed(sender, run, session) {
                    self.replay(sender, &again, session);
                }
            }
            Content::Cut(length) => self.handle_missing(stamp, sender, length.into(), session),
            Content::Hole(length) => self.handle_missing(stamp, sender, length, session),
        }
    }

    /// Reads bytes again. Bytes that a step returns to be read once more come before the rest.
    fn replay(&mut self, sender: Sender, window: &Window, session: &mut Session) {
        let mut queue: VecDeque<(Stamp, Vec<u8>, bool)> = VecDeque::new();
        let put_first = |queue: &mut VecDeque<_>, window: &Window| {
            for run in window.runs().rev() {
                queue.push_front((run.stamp, run.bytes.to_vec(), run.begins_packet));
            }
        };
        put_first(&mut queue, window);
        while let Some((stamp, bytes, begins_packet)) = queue.pop_front() {
            let run = Run {
                stamp,
                bytes: &bytes,
                begins_packet,
            };
            if let Some(again) = self.feed(sender, run, session) {
                put_first(&mut queue, &again);
            }
        }
    }

    /// Reads bytes. Returns the bytes that must be read again before any others.
    fn feed(&mut self, sender: Sender, run: Run<'_>, session: &mut Session) -> Option<Window> {
        match &mut self.step {
            Step::Reading => {
                let mut rest = run.bytes;
                self.read(run.stamp, sender, &mut rest, session);
                if self.step == Step::Reading {
                    self.remember_partial(run.bytes);
                    return None;
                }
                let rest = Run {
                    bytes: rest,
                    begins_packet: run.begins_packet && rest.len() == run.bytes.len(),
                    ..run
                };
                self.feed_rest(sender, rest, session)
            }
            Step::Deciding(window) => {
                window.push(run);
                let window = std::mem::take(window);
                self.decide(sender, window, session)
            }
            Step::Searching(window) => {
                window.push(run);
                let window = std::mem::take(window);
                self.search(sender, window, false, session)
            }
        }
    }

    /// Handles the bytes at which reading stopped.
    fn feed_rest(
        &mut self,
        sender: Sender,
        rest: Run<'_>,
        session: &mut Session,
    ) -> Option<Window> {
        if let Step::Searching(window) = &mut self.step {
            window.push(rest);
            let window = std::mem::take(window);
            return self.search(sender, window, false, session);
        }
        let mut again = Window::default();
        again.push(rest);
        Some(again)
    }

    /// Reads PDUs until the bytes are used up or the reader leaves [`Step::Reading`].
    fn read(&mut self, now: Stamp, sender: Sender, input: &mut &[u8], session: &mut Session) {
        while self.step == Step::Reading {
            if !self.prepare(session) {
                return;
            }
            match self.framer.next(input) {
                Ok(None) => return,
                Ok(Some(Frame::Header { bhs, .. })) => {
                    let bhs = *bhs;
                    if self.accept(now, sender, &bhs, session) {
                        self.begin(&bhs);
                        session.handle_header(now, sender, &bhs, false);
                    }
                }
                Ok(Some(Frame::Data { bytes, .. })) => session.handle_data(sender, bytes),
                Ok(Some(Frame::End { data_digest_ok })) => {
                    self.end(now, sender, data_digest_ok, session);
                }
                Err(_) => self.lose(sender, Window::default(), session),
            }
        }
    }

    /// Adopts the digests that are known by now, between two PDUs. Returns `false` if header
    /// digests must be detected first.
    fn prepare(&mut self, session: &Session) -> bool {
        if !self.framer.is_between_pdus() || self.in_pdu {
            return true;
        }
        let current_digests = if session.is_in_login() {
            Digests {
                header: false,
                data: false,
            }
        } else if let Some(header) = session.digests.header() {
            let data = session.digests.data().unwrap_or(false);
            Digests { header, data }
        } else {
            self.fall_out(Window::default());
            return false;
        };
        if current_digests != self.digests {
            self.set_digests(current_digests);
        }
        true
    }

    /// Checks a header by its place in the stream, or by everything that is known if that place is
    /// not certain. Falls out of step if the bytes are not a header.
    fn accept(&mut self, now: Stamp, sender: Sender, bhs: &Bhs, session: &mut Session) -> bool {
        if session.is_in_login() && !is_login(bhs) && plausible::is_header(bhs, Some(sender)) {
            // The end of the login is missing. Digests may be in use here.
            self.fall_out(Window::within_packet(now, bhs.as_bytes()));
            return false;
        }
        let fits = plausible::follows(bhs, sender) && session.is_allowed_now(bhs);
        let strictly = || {
            plausible::is_header(bhs, Some(sender))
                && session.numbers_fit(bhs, sender) != Some(false)
        };
        if !fits || !(self.certain || strictly()) {
            // Searching one byte fewer than before makes the search terminate.
            self.skipped_bytes += 1;
            let again = Window::within_packet(now, &bhs.as_bytes()[1..]);
            self.lose(sender, again, session);
            return false;
        }
        session.digests.handle_header();
        if self.guessed {
            session.digests.detect_data(session.digests.data_or_guess());
        }
        (self.certain, self.guessed) = (true, false);
        true
    }

    fn begin(&mut self, bhs: &Bhs) {
        self.partial.clear();
        self.in_pdu = true;
        self.has_data = bhs.data_segment_length() > 0;
        self.data_missing = false;
    }

    fn end(&mut self, now: Stamp, sender: Sender, data_digest_ok: bool, session: &mut Session) {
        self.in_pdu = false;
        if !data_digest_ok && !self.data_missing {
            self.digest_errors += 1;
        }
        let in_login = session.is_in_login();
        session.handle_end(now, sender);
        if self.has_data && !in_login && session.digests.data().is_none() {
            self.step = Step::Deciding(Window::default());
        }
    }

    fn set_digests(&mut self, digests: Digests) {
        self.digests = digests;
        self.framer.set_digests(digests.header, digests.data);
    }

    /// Examines the 52 bytes after data: the next header, or a digest and the next header. Returns
    /// the bytes to read once the decision is made.
    fn decide(
        &mut self,
        sender: Sender,
        mut window: Window,
        session: &mut Session,
    ) -> Option<Window> {
        let fits = |at: usize| {
            let bytes = window.bytes().get(at..)?.first_chunk()?;
            let bhs = Bhs::new(*bytes);
            Some(
                plausible::is_header(&bhs, Some(sender))
                    && session.numbers_fit(&bhs, sender) != Some(false),
            )
        };
        let digest = match (fits(0), fits(DIGEST_LENGTH)) {
            (Some(true), _) => false,
            (_, Some(true)) => true,
            (Some(false), Some(false)) => {
                self.lose(sender, Window::default(), session);
                return self.search(sender, window, false, session);
            }
            _ => {
                self.step = Step::Deciding(window);
                return None;
            }
        };
        session.digests.detect_data(digest);
        self.step = Step::Reading;
        if digest {
            window.drop_front(DIGEST_LENGTH);
        }
        Some(window)
    }

    /// Continues with the guessed digest because the bytes after data were not captured. Returns
    /// how many of the `missing` bytes lie after the digest.
    fn guess(
        &mut self,
        sender: Sender,
        mut window: Window,
        missing: u64,
        session: &mut Session,
    ) -> u64 {
        self.step = Step::Reading;
        (self.certain, self.guessed) = (false, true);
        let digest = if session.digests.data_or_guess() {
            DIGEST_LENGTH
        } else {
            0
        };
        let captured = digest.min(window.bytes().len());
        window.drop_front(captured);
        self.replay(sender, &window, session);
        missing.saturating_sub((digest - captured) as u64)
    }

    /// Handles `length` bytes that the capture lacks.
    fn handle_missing(
        &mut self,
        now: Stamp,
        sender: Sender,
        mut length: u64,
        session: &mut Session,
    ) {
        length = self.settle(sender, length, session);
        while length > 0 && self.step == Step::Reading {
            if !self.in_pdu {
                length = self.assume_header(now, sender, length, session);
            } else {
                length = self.read_zeros(now, sender, length, session);
            }
            length = self.settle(sender, length, session);
        }
        if !self.in_step() {
            self.skipped_bytes += length;
        }
    }

    /// Resolves a pending decision or search without the missing bytes. Returns how many bytes are
    /// still missing.
    fn settle(&mut self, sender: Sender, mut missing: u64, session: &mut Session) -> u64 {
        while missing > 0 {
            match std::mem::replace(&mut self.step, Step::Reading) {
                Step::Reading => break,
                Step::Deciding(window) => missing = self.guess(sender, window, missing, session),
                Step::Searching(window) => match self.search(sender, window, true, session) {
                    Some(rest) => self.replay(sender, &rest, session),
                    None => break,
                },
            }
        }
        missing
    }

    /// Reads zeros in place of data, up to the end of the PDU. Returns how many bytes are still
    /// missing.
    fn read_zeros(
        &mut self,
        now: Stamp,
        sender: Sender,
        length: u64,
        session: &mut Session,
    ) -> u64 {
        self.data_missing = true;
        session.handle_data_missing(sender);
        let zeros = &ZEROS[..length.min(ZEROS.len() as u64) as usize];
        let mut input = zeros;
        loop {
            match self.framer.next(&mut input) {
                Ok(Some(Frame::End { data_digest_ok })) => {
                    self.end(now, sender, data_digest_ok, session);
                    break;
                }
                // No header can be read here: the loop begins inside data and ends with it.
                Ok(Some(Frame::Data { .. } | Frame::Header { .. })) => {}
                Ok(None) => break,
                Err(_) => {
                    self.lose(sender, Window::default(), session);
                    break;
                }
            }
        }
        length - (zeros.len() - input.len()) as u64
    }

    /// Reads the header that the session expects in place of a header that begins or continues in
    /// the missing bytes. Returns how many bytes are still missing.
    fn assume_header(
        &mut self,
        now: Stamp,
        sender: Sender,
        length: u64,
        session: &mut Session,
    ) -> u64 {
        if !self.prepare(session) {
            return length;
        }
        let seen = std::mem::take(&mut self.partial);
        let Some((mut header, assumed)) = complete_header(&seen, sender, session) else {
            self.lose(sender, Window::default(), session);
            return length;
        };
        if self.digests.header {
            let digest = header_digest(&header);
            header.extend_from_slice(&digest);
        }
        let Some(rest) = header.get(seen.len()..).filter(|rest| !rest.is_empty()) else {
            self.lose(sender, Window::default(), session);
            return length;
        };
        let consumed = rest
            .len()
            .min(usize::try_from(length).unwrap_or(usize::MAX));
        let (mut input, before) = (&rest[..consumed], &rest[..consumed]);
        match self.framer.next(&mut input) {
            Ok(Some(Frame::Header { bhs, .. })) => {
                let bhs = *bhs;
                if !assumed && !self.accept(now, sender, &bhs, session) {
                    return length - consumed as u64;
                }
                self.certain &= !assumed;
                self.begin(&bhs);
                session.handle_header(now, sender, &bhs, assumed);
            }
            // The rest of the header was captured.
            Ok(_) => {
                self.partial = seen;
                self.partial.extend_from_slice(before);
                self.certain &= !assumed;
                return length - consumed as u64;
            }
            Err(_) => {
                self.lose(sender, Window::default(), session);
                return length;
            }
        }
        // A PDU without data ends with its header.
        if let Ok(Some(Frame::End { data_digest_ok })) = self.framer.next(&mut input) {
            self.end(now, sender, data_digest_ok, session);
        }
        length - consumed as u64
    }

    /// Keeps the framer's bytes of an incomplete header.
    fn remember_partial(&mut self, read: &[u8]) {
        if self.in_pdu {
            return;
        }
        let buffered = self.framer.buffered();
        if buffered <= read.len() {
            self.partial.clear();
            self.partial
                .extend_from_slice(&read[read.len() - buffered..]);
        } else {
            self.partial.extend_from_slice(read);
        }
    }

    /// Counts the loss and falls out of step. The bytes of `again` are searched again.
    fn lose(&mut self, sender: Sender, again: Window, session: &mut Session) {
        self.losses += 1;
        session.digests.handle_lost();
        self.fall_out(again);
        session.handle_lost(sender);
    }

    fn fall_out(&mut self, again: Window) {
        self.partial.clear();
        self.in_pdu = false;
        self.framer = Framer::new(DATA_SEGMENT_LENGTH_MAX);
        self.framer
            .set_digests(self.digests.header, self.digests.data);
        self.step = Step::Searching(again);
    }

    /// Searches for a header. If there is one, the reader is in step again, and the bytes after the
    /// header are returned. `last`: the bytes after the window are missing.
    fn search(
        &mut self,
        sender: Sender,
        mut window: Window,
        last: bool,
        session: &mut Session,
    ) -> Option<Window> {
        let (skipped, matching_header) = search(&window, sender, last, session);
        if skipped > 0 {
            self.skipped_bytes += skipped as u64;
            session.handle_lost(sender);
            window.drop_front(skipped);
        }
        let Some(MatchingHeader {
            bhs,
            header,
            proven,
        }) = matching_header
        else {
            self.step = Step::Searching(window);
            return None;
        };
        if proven && !is_login(&bhs) {
            session.digests.detect_header(header);
        }
        let data = session.digests.data().unwrap_or(false);
        session.handle_recovered(sender, &bhs);
        self.step = Step::Reading;
        (self.certain, self.guessed) = (true, false);
        self.set_digests(Digests { header, data });
        self.read_matching_header(sender, window, session)
    }

    /// Reads the matching header with its own digest setting, because the next header may have
    /// another.
    fn read_matching_header(
        &mut self,
        sender: Sender,
        mut window: Window,
        session: &mut Session,
    ) -> Option<Window> {
        let runs: Vec<(Stamp, Vec<u8>)> = window
            .runs()
            .map(|run| (run.stamp, run.bytes.to_vec()))
            .collect();
        let mut consumed = 0;
        for (stamp, bytes) in runs {
            let mut rest = bytes.as_slice();
            let frame = self.framer.next(&mut rest);
            consumed += bytes.len() - rest.len();
            if let Ok(Some(Frame::Header { bhs, .. })) = frame {
                let bhs = *bhs;
                session.digests.handle_header();
                self.begin(&bhs);
                session.handle_header(stamp, sender, &bhs, false);
                // A PDU without data ends with its header.
                self.read(stamp, sender, &mut &[][..], session);
                break;
            }
        }
        if !self.in_pdu {
            self.partial.extend_from_slice(&window.bytes()[..consumed]);
        }
        window.drop_front(consumed);
        Some(window)
    }
}

/// Returns a complete basic header of which only `seen` was captured, and whether a part is
/// assumed.
fn complete_header(seen: &[u8], sender: Sender, session: &Session) -> Option<(Vec<u8>, bool)> {
    if let Some(bytes) = seen.first_chunk::<BHS_LENGTH>() {
        // Additional headers are never assumed.
        return (Bhs::new(*bytes).ahs_length() == 0).then(|| (bytes.to_vec(), false));
    }
    let expected = session.expected_header(sender)?;
    // The captured part must agree with the expected header in opcode, lengths and tags.
    let agrees = seen
        .iter()
        .zip(&expected)
        .enumerate()
        .all(|(at, (a, b))| a == b || !matches!(at, 0 | 4..8 | 16..20));
    let mut header = seen.to_vec();
    header.extend_from_slice(&expected[seen.len()..]);
    agrees.then_some((header, true))
}
