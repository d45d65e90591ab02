//! A netlink socket to the kernel's `sock_diag` (sock_diag(7)). `hakaru_watch::sock_diag` emits the
//! requests and parses the answers.
//!
//! The kernel answers a request for one socket, and the first part of a dump, before `send`
//! returns. Therefore no call blocks.
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// Buffer size, bytes, above the kernel's largest datagram (32 KiB).
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// A `sock_diag` socket of the opening thread's network namespace. It needs no privileges.
pub struct SockDiag {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens a socket.
    ///
    /// # Errors
    /// The kernel lacks `inet_diag` (module `tcp_diag`), or no descriptors are left.
    pub fn open() -> io::Result<SockDiag> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        Ok(SockDiag {
            socket,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        })
    }

    /// Sends one or several requests.
    ///
    /// # Errors
    /// No memory is left.
    pub fn send(&self, requests: &[u8]) -> io::Result<()> {
        rustix::net::send(&self.socket, requests, SendFlags::empty())?;
        Ok(())
    }

    /// Returns the next datagram of answers, or `None` if none is pending.
    ///
    /// # Errors
    /// `ENOBUFS` if the answers exceeded the socket's buffer and some are missing.
    pub fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        match rustix::net::recv(&self.socket, &mut self.buffer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => Ok(Some(&self.buffer[..length])),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}
