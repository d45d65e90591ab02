//! Search for the next header while out of step: in a capture that begins within a connection, and
//! after missing bytes.
//!
//! Bytes count as a header if all fields fit and one more property matches: its digest, its
//! sequence numbers, a second header at its end, or its place at the beginning of a packet.
use hakaru_wire::iscsi::digest::{DIGEST_LENGTH, header_digest, padding};
use hakaru_wire::iscsi::{BHS_LENGTH, Bhs};

use crate::Sender;
use crate::plausible;
use crate::session::{Session, is_login};
use crate::window::Window;

/// Maximum length of the window in which a header is searched, bytes.
const WINDOW_MAX: usize = 256 << 10;

/// A header that was recognised.
pub(crate) struct MatchingHeader {
    pub(crate) bhs: Bhs,
    /// Whether the header has a digest.
    pub(crate) header: bool,
    /// Whether `header` is certain.
    pub(crate) proven: bool,
}

/// Verdict on bytes that may be a header.
enum Verdict {
    Header {
        header: bool,
        proven: bool,
    },
    /// More bytes are needed.
    Wait,
    No,
}

/// Returns the number of bytes at the front of the window that are not a header, and the header
/// after them. `last`: the bytes after the window are missing.
pub(crate) fn search(
    window: &Window,
    sender: Sender,
    last: bool,
    session: &Session,
) -> (usize, Option<MatchingHeader>) {
    let bytes = window.bytes();
    let mut at = 0;
    while let Some(first) = bytes[at..].first_chunk::<BHS_LENGTH>() {
        let bhs = Bhs::new(*first);
        if plausible::is_header(&bhs, Some(sender)) {
            match judge(window, at, &bhs, sender, last, session) {
                Verdict::Header { header, proven } => {
                    return (
                        at,
                        Some(MatchingHeader {
                            bhs,
                            header,
                            proven,
                        }),
                    );
                }
                Verdict::Wait if bytes.len() < WINDOW_MAX => return (at, None),
                Verdict::Wait | Verdict::No => {}
            }
        }
        at += 1;
    }
    (if last { bytes.len() } else { at }, None)
}

fn judge(
    window: &Window,
    at: usize,
    bhs: &Bhs,
    sender: Sender,
    last: bool,
    session: &Session,
) -> Verdict {
    let numbers = session.numbers_fit(bhs, sender);
    let is_allowed_now = session.is_allowed_now(bhs) || session.is_in_login();
    if !is_allowed_now || numbers == Some(false) {
        return Verdict::No;
    }
    let bytes = &window.bytes()[at..];
    let head = BHS_LENGTH + bhs.ahs_length();
    let digest = bytes.get(head..head + DIGEST_LENGTH);
    let matches = digest.is_some_and(|digest| header_digest(&bytes[..head]) == *digest);
    let known = if is_login(bhs) {
        Some(false)
    } else {
        session.digests.header()
    };
    let begins_packet = window.is_begin_of_packet(at);
    let (header, proven) = match (known, digest) {
        (Some(false), _) => (false, true),
        (_, Some(_)) if matches => {
            return Verdict::Header {
                header: true,
                proven: true,
            };
        }
        (Some(true), Some(_)) => return Verdict::No,
        (Some(true), None) => return if last { Verdict::No } else { Verdict::Wait },
        (None, Some(_)) => (false, true),
        // The packet consists of this header only, so there is no room for a digest.
        (None, None) if begins_packet && bytes.len() == head => (false, false),
        (None, None) => return if last { Verdict::No } else { Verdict::Wait },
    };
    let chained = next_header(bytes, bhs, head, sender);
    match chained {
        Some(false) => Verdict::No,
        Some(true) => Verdict::Header { header, proven },
        None if numbers == Some(true) || begins_packet => Verdict::Header { header, proven },
        None if last => Verdict::No,
        None => Verdict::Wait,
    }
}

/// Returns whether a header follows the end of this PDU without a header digest, with or without a
/// data digest; `None` if the bytes were not captured.
fn next_header(bytes: &[u8], bhs: &Bhs, head: usize, sender: Sender) -> Option<bool> {
    let length = bhs.data_segment_length() as usize;
    let end = head + length + if length > 0 { padding(length) } else { 0 };
    let next_at = |at: usize| {
        let next = bytes.get(at..).and_then(|rest| rest.first_chunk());
        next.map(|next| plausible::is_header(&Bhs::new(*next), Some(sender)))
    };
    match (next_at(end), next_at(end + DIGEST_LENGTH)) {
        (Some(true), _) => Some(true),
        (_, Some(true)) if length > 0 => Some(true),
        (Some(false), Some(false)) => Some(false),
        (Some(false), None) if length == 0 => Some(false),
        _ => None,
    }
}
