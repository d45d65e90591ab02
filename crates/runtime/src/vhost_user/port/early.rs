//! The request to enable a ring, which QEMU sends for a NIC before it acknowledges the features.
//! The library refuses it then, and does not answer it. QEMU 7.2 expects no answer, 10.0 waits for
//! one.
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;

use rustix::net::{RecvFlags, recv};

// vhost-user protocol: `VHOST_USER_SET_VRING_ENABLE`, and the bits of a header's flags.
const SET_VRING_ENABLE: u32 = 18;
const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;
/// Request, flags, size of the rest; the rest: ring, and 1 or 0. Each has 4 bytes.
const WORDS: usize = 5;

/// A request to enable or disable a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EnableRing {
    pub(super) index: u32,
    /// `None`: neither 0 nor 1.
    pub(super) enable: Option<bool>,
    needs_reply: bool,
}

impl EnableRing {
    /// Waits for a request and reads it without taking it. Returns `None` for another request, and
    /// for one that has not arrived in full. The library reads the same bytes next, and reports errors.
    pub(super) fn peek(connection: &UnixStream) -> Option<EnableRing> {
        let mut bytes = [0; 4 * WORDS];
        let (length, _) = recv(connection, &mut bytes[..], RecvFlags::PEEK).ok()?;
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| u32::from_ne_bytes(words[at]);
        (length == bytes.len() && word(0) == SET_VRING_ENABLE).then(|| EnableRing {
            index: word(3),
            enable: [false, true].get(word(4) as usize).copied(),
            needs_reply: word(1) & NEED_REPLY != 0,
        })
    }

    /// Answers that the request was carried out, if the peer waits for that. It asks only if both
    /// sides have agreed on answers.
    pub(super) fn answer(self, mut connection: &UnixStream) -> io::Result<()> {
        if !self.needs_reply {
            return Ok(());
        }
        // Code 0: success.
        let words = [SET_VRING_ENABLE, VERSION | REPLY, 8, 0, 0];
        connection.write_all(words.map(u32::to_ne_bytes).as_flattened())
    }
}
