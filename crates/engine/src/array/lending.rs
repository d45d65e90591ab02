//! Zero-copy send of data read from an LU: its pages are lent to the kernel, piece by piece.
//!
//! Copying is half of the array's work at 1 MiB per read. Below [`PIECE_MIN_BYTES`] the two extra
//! system calls of each piece cost more than the copy, so smaller pieces are gathered with their
//! headers into one `sendmsg`.
use std::io;

use hakaru_iscsi_target::{ConnectionId, Segment, Target};
use hakaru_runtime::memory::page_pipe::PagePipe;
use hakaru_runtime::net::Socket;

use super::storage::Storage;

/// Length of the smallest piece that is lent, bytes.
pub const PIECE_MIN_BYTES: u32 = 128 << 10;

/// Maximum number of pipes of all connections. A connection uses a pipe while its socket is full. A
/// connection without a pipe copies.
pub const PIPES_MAX: u32 = 64;

/// The pipes that no connection uses.
pub struct Lending {
    spare: Vec<PagePipe>,
    /// Number of pipes that exist, in use or not.
    created: u32,
    pipes_max: u32,
    /// Whether the system permits zero-copy sends.
    possible: bool,
}

/// Result of an attempt to lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The pipe holds lent pages.
    Lent,
    /// The piece must be copied.
    Copy,
}

impl Lending {
    /// Starts without pipes and creates at most `pipes_max`.
    pub fn new(pipes_max: u32) -> Lending {
        Lending {
            spare: Vec::new(),
            created: 0,
            pipes_max,
            possible: true,
        }
    }

    /// Returns whether lending this segment pays off and is allowed.
    pub fn should_lend(&self, target: &Target, id: ConnectionId, segment: &Segment<'_>) -> bool {
        match segment {
            Segment::Lu {
                lun, length_bytes, ..
            } => {
                self.possible
                    && *length_bytes >= PIECE_MIN_BYTES
                    && (self.created < self.pipes_max || !self.spare.is_empty())
                    && target.may_lend(id, *lun)
            }
            Segment::Bytes(_) => false,
        }
    }

    /// Lends as much of the first segment as fits in the pipe in `slot`. If the slot is empty, puts
    /// a spare or new pipe into it.
    pub fn lend(
        &mut self,
        id: ConnectionId,
        slot: &mut Option<PagePipe>,
        target: &mut Target,
        storage: &mut Storage,
    ) -> Attempt {
        let Some(Segment::Lu {
            lun,
            offset_bytes,
            length_bytes,
        }) = target.transmit(id).segments().next()
        else {
            return Attempt::Copy;
        };
        if slot.is_none() {
            *slot = self.take();
        }
        let Some(pipe) = slot else {
            return Attempt::Copy;
        };
        match storage.lend(lun, offset_bytes, length_bytes, pipe) {
            Ok(lent_bytes) => {
                target.handle_lent(id, lent_bytes, &mut |lun, offset, out| {
                    out.copy_from_slice(storage.in_place(lun, offset, out.len() as u32));
                });
                Attempt::Lent
            }
            Err(error) => {
                self.possible = !is_permanent(&error);
                self.spare.extend(slot.take());
                Attempt::Copy
            }
        }
    }

    /// Returns the number of pipes that exist.
    pub fn created(&self) -> u32 {
        self.created
    }

    fn take(&mut self) -> Option<PagePipe> {
        self.spare.pop().or_else(|| {
            let pipe = PagePipe::new().ok()?;
            self.created += 1;
            Some(pipe)
        })
    }

    /// Sends the lent pages in `slot`, and moves an emptied pipe to the spare pipes. Returns the
    /// number of bytes sent.
    ///
    /// # Errors
    /// As [`PagePipe::send`].
    pub fn send(
        &mut self,
        slot: &mut Option<PagePipe>,
        socket: &Socket,
        more: bool,
    ) -> io::Result<usize> {
        let Some(pipe) = slot else {
            return Ok(0);
        };
        let sent = pipe.send(socket, more)?;
        if pipe.is_empty() {
            self.spare.extend(slot.take());
        }
        Ok(sent)
    }

    /// Closes the pipe of a connection that has ended, because it may still hold pages.
    pub fn discard(&mut self, pipe: Option<PagePipe>) {
        self.created -= u32::from(pipe.is_some());
    }
}

/// Returns whether lending will fail every time: a filter of system calls forbids it, the system
/// lacks it, or its pages have another size. Any other error, such as a lack of memory, concerns
/// one segment.
fn is_permanent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_permanent_error_ends_lending() {
        use io::ErrorKind as Kind;
        for (kind, permanent) in [
            (Kind::OutOfMemory, false),
            (Kind::Interrupted, false),
            (Kind::WouldBlock, false),
            (Kind::PermissionDenied, true),
            (Kind::Unsupported, true),
        ] {
            assert_eq!(is_permanent(&kind.into()), permanent, "{kind}");
        }
    }
}
