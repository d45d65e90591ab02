//! A listening TCP socket.
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hakaru_contract::SocketOptions;
use rustix::net::{self, SocketFlags, sockopt};

use super::socket::{Socket, new_socket, to_socket_address};
use super::socket_options;

/// Maximum number of connections that wait to be accepted. Simultaneous logins of 10 000 sessions
/// overflow it only if the shell does not run meanwhile. The kernel limits it to
/// `net.core.somaxconn`, 4096 by default since Linux 5.4.
const BACKLOG: i32 = 4096;

/// A listening, non-blocking TCP socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    options: SocketOptions,
}

impl Listener {
    /// Listens on `address` with `SO_REUSEADDR`. With port 0 the system selects a port.
    ///
    /// # Errors
    /// The address is in use or does not belong to this network namespace, or its port requires
    /// privileges.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        Listener::bind_with(address, &SocketOptions::default())
    }

    /// Listens as [`Listener::bind`] does. The options apply to the listener and to all connections
    /// that it accepts.
    ///
    /// # Errors
    /// As [`Listener::bind`], and as [`socket_options::apply`].
    pub fn bind_with(address: SocketAddr, options: &SocketOptions) -> io::Result<Listener> {
        let fd = new_socket(address)?;
        socket_options::apply(options, &fd)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        net::bind(&fd, &address)?;
        net::listen(&fd, BACKLOG)?;
        Ok(Listener {
            fd,
            options: options.clone(),
        })
    }

    /// Returns the bound address.
    ///
    /// # Errors
    /// None on an open TCP socket.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        to_socket_address(net::getsockname(&self.fd)?)
    }

    /// Accepts the next connection. Returns it with its peer's address, or `None` if none is
    /// pending. Skips connections that their peers have aborted meanwhile.
    ///
    /// # Errors
    /// [`AcceptError`]: either one connection failed, or none can be accepted for now.
    pub fn accept(&self) -> Result<Option<(Socket, SocketAddr)>, AcceptError> {
        use rustix::io::Errno;
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match net::acceptfrom_with(&self.fd, flags) {
                // A connection inherits all other options from the listener (`sk_clone_lock`,
                // `tcp_create_openreq_child`).
                Ok((fd, Some(peer))) => {
                    socket_options::apply_congestion_control(&self.options, &fd)
                        .map_err(AcceptError::Connection)?;
                    let peer = to_socket_address(peer).map_err(AcceptError::Connection)?;
                    return Ok(Some((Socket(fd), peer)));
                }
                Ok((_, None)) | Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(e) if concerns_one_connection(e) => {
                    return Err(AcceptError::Connection(e.into()));
                }
                Err(e) => return Err(AcceptError::Exhausted(e.into())),
            }
        }
    }
}

/// An error of accept(2).
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// One connection failed and was closed. Others can be accepted.
    #[error("one connection failed: {0}")]
    Connection(#[source] io::Error),
    /// No descriptors or memory are left. Try again later.
    #[error("{0}")]
    Exhausted(#[source] io::Error),
}

impl From<AcceptError> for io::Error {
    fn from(error: AcceptError) -> io::Error {
        match error {
            AcceptError::Connection(error) | AcceptError::Exhausted(error) => error,
        }
    }
}

/// Returns whether an error of accept(2) is a network error of the new connection, which Linux
/// reports there. A firewall's refusal (`EPERM`) is one too.
fn concerns_one_connection(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    [
        Errno::NETDOWN,
        Errno::NOPROTOOPT,
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::HOSTUNREACH,
        Errno::OPNOTSUPP,
        Errno::NETUNREACH,
        Errno::TIMEDOUT,
        Errno::PERM,
    ]
    .contains(&error)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
