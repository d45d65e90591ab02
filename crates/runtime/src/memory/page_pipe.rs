//! Zero-copy sends: `vmsplice` puts references to pages into a pipe, and `splice` moves them into a
//! socket.
//!
//! No other zero-copy send of Linux also works over loopback, where `MSG_ZEROCOPY` copies. A call
//! costs more than a copy of some 16 KiB, so only large pieces are sent this way.
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use crate::net::Socket;

/// Requested capacity of a pipe, bytes. The pipes of an unprivileged user may hold 64 MiB in total
/// (`fs.pipe-user-pages-soft`).
const CAPACITY_BYTES: usize = 256 << 10;

/// A pipe of pages that no other process sees.
#[derive(Debug)]
pub struct PagePipe {
    read: OwnedFd,
    write: OwnedFd,
    pending_bytes: usize,
}

impl PagePipe {
    /// Creates an empty pipe of 256 KiB, or of the smaller size that the system grants.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> io::Result<PagePipe> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // The kernel refuses this if the user is near the limit of pipe memory. A smaller pipe only
        // takes more calls.
        let _ = fcntl_setpipe_size(&write, CAPACITY_BYTES);
        Ok(PagePipe {
            read,
            write,
            pending_bytes: 0,
        })
    }

    /// Returns whether the pipe is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending_bytes == 0
    }

    /// Puts references to the pages of `bytes` into the pipe until it is full. Returns the number
    /// of bytes.
    ///
    /// # Errors
    /// `WouldBlock` if the pipe is full, or the error of vmsplice(2), which a system-call filter
    /// may forbid.
    ///
    /// # Safety
    /// The bytes must not be changed in place while a socket, or over loopback its peer, may still
    /// read them.
    pub(crate) unsafe fn give(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: `piece` describes memory that is borrowed for the call. The kernel takes
        // references to its pages and only reads them.
        let result = unsafe {
            libc::vmsplice(
                self.write.as_raw_fd(),
                &raw const piece,
                1,
                libc::SPLICE_F_NONBLOCK,
            )
        };
        let bytes = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
        self.pending_bytes += bytes;
        Ok(bytes)
    }

    /// Moves the pending bytes into the socket until the pipe is empty or the socket is full.
    /// Returns the number of bytes. `more` announces further bytes, for which a partial last
    /// segment waits.
    ///
    /// # Errors
    /// `WouldBlock` if the socket has no room; the reactor reports when it has. Otherwise the error
    /// that ended the connection.
    pub fn send(&mut self, socket: &Socket, more: bool) -> io::Result<usize> {
        let mut flags = SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, more);
        let mut sent = 0;
        while self.pending_bytes > 0 {
            // A closed connection raises SIGPIPE here, which Rust's runtime ignores in every
            // program.
            match splice(
                &self.read,
                None,
                socket.as_fd(),
                None,
                self.pending_bytes,
                flags,
            ) {
                Ok(0) => break,
                Ok(n) => {
                    sent += n;
                    self.pending_bytes -= n;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if sent > 0 => break,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(sent)
    }
}
