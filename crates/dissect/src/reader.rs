//! Reads the PDUs of one direction, and finds its way back where something is missing.
//!
//! In step, `wire`'s [`Framer`] does the reading. Only headers are needed; where data was cut off or is in no packet, its length is known and as many zeros
//! are read in its place. Where a *header* is missing, the session may know what it must have been (the next part of a burst); else the reader is out
//! of step and looks for the next bytes that can only be a header. What it passes over is counted.
//!
//! Whether there are digests a login says. In the middle of a capture a header digest is recognised by its value, and a data digest by where the
//! next header is.
use hakaru_units::Time;
use hakaru_wire::iscsi::digest::{DIGEST_LENGTH, header_digest, padding};
use hakaru_wire::iscsi::frame::{Frame, Framer};
use hakaru_wire::iscsi::{BHS_LENGTH, Bhs, DATA_SEGMENT_LENGTH_MAX};

use crate::Sender;
use crate::login::Digests;
use crate::plausible;
use crate::session::Session;
use crate::stream::Piece;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// Bytes among which a header is looked for at once.
const WINDOW_MAX: usize = 256 << 10;

/// How a direction is read.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// In step.
    Reading,
    /// Out of step: what may hold the beginning of a header.
    Searching(Vec<u8>),
    /// In step, at the end of the first data since digests were guessed: the next bytes tell whether a data digest lies before the next header.
    Deciding(Vec<u8>),
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Reader {
    step: Step,
    framer: Framer,
    digests: Digests,
    /// Somebody said, or it was seen, that there are data digests or not.
    data_digest_known: bool,
    /// A login was seen, and not the whole of what it said.
    guesses: bool,
    /// What was read of a header that is not complete.
    partial: Vec<u8>,
    /// A header was read, and the PDU's end was not.
    in_pdu: bool,
    /// The PDU being read has data.
    has_data: bool,
    /// A part of it was not captured.
    data_missing: bool,
    /// Bytes passed over out of step.
    pub(crate) skipped_bytes: u64,
    /// Times it fell out of step.
    pub(crate) losses: u64,
    /// PDUs whose data digest is wrong.
    pub(crate) digest_errors: u64,
}

impl Reader {
    /// `from_start`: what comes is the beginning of the connection.
    pub(crate) fn new(from_start: bool) -> Reader {
        Reader {
            step: if from_start {
                Step::Reading
            } else {
                Step::Searching(Vec::new())
            },
            framer: Framer::new(DATA_SEGMENT_LENGTH_MAX),
            digests: Digests {
                header: false,
                data: false,
            },
            data_digest_known: from_start,
            guesses: false,
            partial: Vec::new(),
            in_pdu: false,
            has_data: false,
            data_missing: false,
            skipped_bytes: 0,
            losses: 0,
            digest_errors: 0,
        }
    }

    /// Knows where it is in the stream.
    pub(crate) fn in_step(&self) -> bool {
        !matches!(self.step, Step::Searching(_))
    }

    /// Takes the next piece of the stream.
    pub(crate) fn handle_piece(
        &mut self,
        now: Time,
        sender: Sender,
        piece: Piece<'_>,
        session: &mut Session,
    ) {
        match piece {
            Piece::Bytes(bytes) => self.handle_bytes(now, sender, bytes, session),
            Piece::Cut(length) => self.handle_missing(now, sender, length.into(), session),
            Piece::Hole(length) => self.handle_missing(now, sender, length, session),
        }
    }

    fn handle_bytes(&mut self, now: Time, sender: Sender, bytes: &[u8], session: &mut Session) {
        let mut input = bytes;
        let mut found;
        loop {
            match &mut self.step {
                Step::Reading => {
                    let before = input;
                    self.read(now, sender, &mut input, session);
                    if self.step == Step::Reading {
                        self.remember_partial(before);
                        return;
                    }
                }
                Step::Deciding(held) => {
                    let wanted = BHS_LENGTH + DIGEST_LENGTH - held.len();
                    let (taken, rest) = input.split_at(wanted.min(input.len()));
                    held.extend_from_slice(taken);
                    input = rest;
                    if held.len() < BHS_LENGTH + DIGEST_LENGTH {
                        return;
                    }
                    let held = std::mem::take(held);
                    self.decide(now, sender, &held, session);
                }
                Step::Searching(window) => {
                    window.extend_from_slice(input);
                    let window = std::mem::take(window);
                    let Some(rest) = self.search(sender, window, false, session) else {
                        return;
                    };
                    found = rest;
                    input = &found;
                }
            }
        }
    }

    /// Reads PDUs until the bytes are used up or the reader is no more [`Step::Reading`].
    fn read(&mut self, now: Time, sender: Sender, input: &mut &[u8], session: &mut Session) {
        while self.step == Step::Reading {
            self.apply_digests(session);
            if self.step != Step::Reading {
                return;
            }
            match self.framer.next(input) {
                Ok(None) => return,
                Ok(Some(Frame::Header { bhs, .. })) => {
                    let bhs = *bhs;
                    if !plausible::follows(&bhs, sender) || !session.may_come(&bhs) {
                        // One byte less than before: the search comes to an end.
                        self.skipped_bytes += 1;
                        self.lose(sender, &bhs.as_bytes()[1..], session);
                        return;
                    }
                    self.begin(&bhs);
                    session.handle_header(now, sender, &bhs, false);
                }
                Ok(Some(Frame::Data { bytes, .. })) => session.handle_data(sender, bytes),
                Ok(Some(Frame::End { data_digest_ok })) => {
                    self.end(now, sender, data_digest_ok, session);
                }
                Err(_) => {
                    self.lose(sender, &[], session);
                    return;
                }
            }
        }
    }

    fn begin(&mut self, bhs: &Bhs) {
        self.partial.clear();
        self.in_pdu = true;
        self.has_data = bhs.data_segment_length() > 0;
        self.data_missing = false;
    }

    fn end(&mut self, now: Time, sender: Sender, data_digest_ok: bool, session: &mut Session) {
        self.in_pdu = false;
        if !data_digest_ok && !self.data_missing {
            self.digest_errors += 1;
        }
        session.handle_end(now, sender);
        if self.has_data && !self.data_digest_known {
            self.step = Step::Deciding(Vec::new());
        }
    }

    /// Takes up the digests that a login, or the other direction, has come to.
    fn apply_digests(&mut self, session: &mut Session) {
        if session.must_guess_digests() && !self.guesses && self.framer.is_between_pdus() {
            (self.guesses, self.data_digest_known) = (true, false);
            self.fall_out(&[]);
        }
        if let Some(digests) = session.digests()
            && (digests != self.digests || !self.data_digest_known)
            && self.framer.is_between_pdus()
        {
            self.set_digests(digests);
            self.data_digest_known = true;
        }
    }

    fn set_digests(&mut self, digests: Digests) {
        self.digests = digests;
        self.framer.set_digests(digests.header, digests.data);
    }

    /// The 52 bytes behind the first data: the next header, or a digest and most of the next header.
    fn decide(&mut self, now: Time, sender: Sender, held: &[u8], session: &mut Session) {
        let header_at = |at: usize| held[at..].first_chunk().map(|bytes| Bhs::new(*bytes));
        let fits = |at| header_at(at).is_some_and(|bhs| plausible::is_header(&bhs, Some(sender)));
        self.step = Step::Reading;
        let (data, at) = match (fits(0), fits(DIGEST_LENGTH)) {
            (true, _) => (false, 0),
            (false, true) => (true, DIGEST_LENGTH),
            (false, false) => return self.lose(sender, held, session),
        };
        self.data_digest_known = true;
        self.set_digests(Digests {
            data,
            ..self.digests
        });
        session.guess_digests(self.digests);
        self.handle_bytes(now, sender, &held[at..], session);
    }

    /// `length` bytes of the stream are not there.
    fn handle_missing(
        &mut self,
        now: Time,
        sender: Sender,
        mut length: u64,
        session: &mut Session,
    ) {
        self.settle(now, sender, session);
        while length > 0 && self.step == Step::Reading {
            if !self.in_pdu {
                length = self.assume_header(now, sender, length, session);
            } else {
                length = self.read_zeros(now, sender, length, session);
            }
            self.settle(now, sender, session);
        }
        if !self.in_step() {
            self.skipped_bytes += length;
        }
    }

    /// What was waiting for the bytes that are missing now does so no more.
    fn settle(&mut self, now: Time, sender: Sender, session: &mut Session) {
        loop {
            match std::mem::replace(&mut self.step, Step::Reading) {
                Step::Reading => return,
                // Nothing tells: without a digest is more frequent.
                Step::Deciding(held) => self.handle_bytes(now, sender, &held, session),
                Step::Searching(window) => match self.search(sender, window, true, session) {
                    Some(found) => self.handle_bytes(now, sender, &found, session),
                    None => return,
                },
            }
        }
    }

    /// Reads zeros in the place of data, up to the end of the PDU; how many bytes are still missing.
    fn read_zeros(&mut self, now: Time, sender: Sender, length: u64, session: &mut Session) -> u64 {
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
                // A header is never read here: this began inside of data, and ends with it.
                Ok(Some(Frame::Data { .. } | Frame::Header { .. })) => {}
                Ok(None) => break,
                Err(_) => {
                    self.lose(sender, &[], session);
                    break;
                }
            }
        }
        length - (zeros.len() - input.len()) as u64
    }

    /// A header begins in what is missing, or goes on there: what the session says that it must be is read in its place. How many bytes are
    /// still missing.
    fn assume_header(
        &mut self,
        now: Time,
        sender: Sender,
        length: u64,
        session: &mut Session,
    ) -> u64 {
        let seen = std::mem::take(&mut self.partial);
        let Some(expected) = session
            .expected_header(sender)
            .filter(|expected| agrees(&seen, expected))
        else {
            self.lose(sender, &[], session);
            return length;
        };
        // As far as it was seen, it is as it was seen.
        let mut header = expected.to_vec();
        let known = seen.len().min(header.len());
        header[..known].copy_from_slice(&seen[..known]);
        if self.digests.header {
            let digest = header_digest(&header);
            header.extend_from_slice(&digest);
        }
        // All of it was seen, and yet it is not complete: it has additional headers, which none of those expected has.
        let Some(rest) = header.get(seen.len()..).filter(|rest| !rest.is_empty()) else {
            self.lose(sender, &[], session);
            return length;
        };
        let taken = rest
            .len()
            .min(usize::try_from(length).unwrap_or(usize::MAX));
        let (mut input, before) = (&rest[..taken], &rest[..taken]);
        match self.framer.next(&mut input) {
            Ok(Some(Frame::Header { bhs, .. })) => {
                let bhs = *bhs;
                self.begin(&bhs);
                session.handle_header(now, sender, &bhs, true);
            }
            // Its end will be seen.
            Ok(_) => {
                self.partial = seen;
                self.partial.extend_from_slice(before);
                return length - taken as u64;
            }
            Err(_) => {
                self.lose(sender, &[], session);
                return length;
            }
        }
        // Without data it has ended, too.
        if let Ok(Some(Frame::End { data_digest_ok })) = self.framer.next(&mut input) {
            self.end(now, sender, data_digest_ok, session);
        }
        length - taken as u64
    }

    /// Keeps what the framer has of a header that is not complete.
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

    /// Falls out of step; `again` are bytes to look at once more.
    fn lose(&mut self, sender: Sender, again: &[u8], session: &mut Session) {
        self.losses += 1;
        // What was guessed may be why.
        self.data_digest_known &= !session.forget_guess();
        self.fall_out(again);
        session.handle_lost(sender);
    }

    fn fall_out(&mut self, again: &[u8]) {
        self.partial.clear();
        self.in_pdu = false;
        self.framer = Framer::new(DATA_SEGMENT_LENGTH_MAX);
        self.framer
            .set_digests(self.digests.header, self.digests.data);
        self.step = Step::Searching(again.to_vec());
    }

    /// Looks for a header among `window`; from there on it is returned, and the reader is in step. `last`: nothing follows the window's end.
    fn search(
        &mut self,
        sender: Sender,
        mut window: Vec<u8>,
        last: bool,
        session: &mut Session,
    ) -> Option<Vec<u8>> {
        let mut at = 0;
        while let Some(bytes) = window[at..].first_chunk::<BHS_LENGTH>() {
            let bhs = Bhs::new(*bytes);
            if plausible::is_header(&bhs, Some(sender)) {
                match self.judge(sender, &bhs, &window[at..], last, session) {
                    Verdict::Header(digests) => {
                        self.skipped_bytes += at as u64;
                        self.set_digests(digests);
                        self.step = Step::Reading;
                        session.handle_found(sender);
                        window.drain(..at);
                        return Some(window);
                    }
                    Verdict::Wait if window.len() < WINDOW_MAX => break,
                    Verdict::Wait | Verdict::No => {}
                }
            }
            at += 1;
        }
        if last {
            at = window.len();
        }
        self.skipped_bytes += at as u64;
        window.drain(..at);
        self.step = Step::Searching(window);
        None
    }

    /// What to think of a header that may be one: by its digest, by what follows it.
    fn judge(
        &self,
        sender: Sender,
        bhs: &Bhs,
        bytes: &[u8],
        last: bool,
        session: &Session,
    ) -> Verdict {
        let head = BHS_LENGTH + bhs.ahs_length();
        let known = session.digests();
        let digest = bytes.get(head..head + DIGEST_LENGTH);
        let matches = digest.is_some_and(|digest| header_digest(&bytes[..head]) == *digest);
        let header = match known {
            // An all-but-certain proof where it is wanted.
            Some(digests) if digests.header => match (digest, matches) {
                (None, _) if !last => return Verdict::Wait,
                (Some(_), false) => return Verdict::No,
                _ => true,
            },
            Some(_) => false,
            None if digest.is_none() && !last && bhs.data_segment_length() > 0 => {
                return Verdict::Wait;
            }
            None => matches,
        };
        let data = known.map_or(self.digests.data, |digests| digests.data);
        let length = bhs.data_segment_length() as usize;
        let end = head
            + if header { DIGEST_LENGTH } else { 0 }
            + length
            + if length > 0 { padding(length) } else { 0 };
        let next_at = |at: usize| {
            let next = bytes.get(at..).and_then(|rest| rest.first_chunk());
            next.map(|next| plausible::is_header(&Bhs::new(*next), Some(sender)))
        };
        let chained = match (next_at(end), next_at(end + DIGEST_LENGTH)) {
            (Some(true), _) => Some(true),
            (_, Some(true)) if length > 0 => Some(true),
            (Some(false), Some(false)) => Some(false),
            (Some(false), None) if length == 0 => Some(false),
            _ => None,
        };
        match chained {
            Some(false) => Verdict::No,
            _ => Verdict::Header(Digests { header, data }),
        }
    }
}

/// What a header that may be one is.
enum Verdict {
    Header(Digests),
    /// More bytes are wanted to tell.
    Wait,
    No,
}

/// What was seen of a header is that of the one expected: opcode, lengths, tags.
fn agrees(seen: &[u8], expected: &[u8; BHS_LENGTH]) -> bool {
    seen.iter()
        .zip(expected)
        .enumerate()
        .all(|(at, (a, b))| a == b || !matches!(at, 0 | 4..8 | 16..20))
}
