//! Zero-copy send of reads: pages of the LU are lent to the kernel, piece by piece.
//!
//! Copying is half of the array's work at 1 MiB per read. Below [`PIECE_MIN_BYTES`] the two extra
//! system calls of each piece cost more than the copy, so smaller pieces are gathered with their
//! headers into one `sendmsg`.
use std::io;

use hakaru_iscsi_target::{ConnectionId, Segment, Target};
use hakaru_runtime::memory::page_pipe::PagePipe;
use hakaru_runtime::net::Socket;

use super::storage::Storage;

/// The smallest piece that is lent.
pub const PIECE_MIN_BYTES: u32 = 128 << 10;

/// Most pipes of all connections. A connection has one while its socket is full; a connection that
/// gets none copies.
pub const PIPES_MAX: u32 = 64;

/// The pipes that no connection uses.
pub struct Lending {
    spare: Vec<PagePipe>,
    /// Pipes that exist, in use or not.
    made: u32,
    pipes_max: u32,
    /// The system permits zero-copy sends.
    possible: bool,
}

/// Result of an attempt to lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Pages are in the pipe.
    Lent,
    /// Copy this piece.
    Copy,
}

impl Lending {
    /// Starts without pipes and creates at most `pipes_max`.
    pub fn new(pipes_max: u32) -> Lending {
        Lending {
            spare: Vec::new(),
            made: 0,
            pipes_max,
            possible: true,
        }
    }

    /// Whether lending this segment pays off and is allowed.
    pub fn should_lend(&self, target: &Target, id: ConnectionId, segment: &Segment<'_>) -> bool {
        match segment {
            Segment::Lu {
                lun, length_bytes, ..
            } => {
                self.possible
                    && *length_bytes >= PIECE_MIN_BYTES
                    && (self.made < self.pipes_max || !self.spare.is_empty())
                    && target.may_lend(id, *lun)
            }
            Segment::Bytes(_) => false,
        }
    }

    /// Lends as much of the first segment as fits the pipe in `slot`, or a spare one.
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
            Ok(taken) => {
                target.handle_lent(id, taken, &mut |lun, offset, out| {
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

    /// The number of pipes that exist.
    pub fn made(&self) -> u32 {
        self.made
    }

    fn take(&mut self) -> Option<PagePipe> {
        self.spare.pop().or_else(|| {
            let pipe = PagePipe::new().ok()?;
            self.made += 1;
            Some(pipe)
        })
    }

    /// Sends lent pages; returns an emptied pipe to the spare ones.
    ///
    /// # Errors
    /// As [`PagePipe::send`].
    pub fn send(
        &mut self,
        pipe: &mut Option<PagePipe>,
        socket: &Socket,
        more: bool,
    ) -> io::Result<usize> {
        let Some(lane) = pipe else {
            return Ok(0);
        };
        let sent = lane.send(socket, more)?;
        if lane.is_empty() {
            self.spare.extend(pipe.take());
        }
        Ok(sent)
    }

    /// Closes the pipe of a connection that has ended, because it may still hold pages.
    pub fn discard(&mut self, pipe: Option<PagePipe>) {
        self.made -= u32::from(pipe.is_some());
    }
}

/// Whether lending will fail every time: a filter of system calls forbids it, the system lacks it,
/// or its pages have another size. Any other error, such as a lack of memory, concerns one segment.
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
    fn only_an_error_that_comes_every_time_ends_lending() {
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
