//! Non-blocking TCP for the shells: every socket has `TCP_NODELAY` unless configured otherwise,
//! every send gathers.
pub mod sock_diag;
pub mod socket_options;
pub mod tcp_info;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketFlags,
    SocketType, sockopt,
};

use hakaru_contract::SocketOptions;

/// Backlog of connections to accept. A storm of logins of 10 000 sessions overruns it only if the
/// shell sleeps; the kernel limits it to `net.core.somaxconn` (4096 by default since Linux 5.4).
const BACKLOG: i32 = 4096;

/// Maximum number of slices per [`Socket::send_vectored`] (`IOV_MAX` of Linux).
pub const SLICES_MAX: usize = 1024;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    options: SocketOptions,
}

impl Listener {
    /// Listens on `address` with `SO_REUSEADDR`; port 0 lets the system choose.
    ///
    /// # Errors
    /// The address is in use or does not belong to this host (or namespace), or its port requires
    /// privileges.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        Listener::bind_with(address, &SocketOptions::default())
    }

    /// As [`Listener::bind`], with options for the listener and all connections that it accepts.
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
    /// None that occur on an open TCP socket.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        to_socket_address(net::getsockname(&self.fd)?)
    }

    /// Accepts the next connection. Returns it with its peer's address, or `None` if none waits. A
    /// connection that its peer has aborted meanwhile is skipped.
    ///
    /// # Errors
    /// [`AcceptError`]: either one connection failed, or none can be accepted for now.
    pub fn accept(&self) -> Result<Option<(Socket, SocketAddr)>, AcceptError> {
        use rustix::io::Errno;
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match net::acceptfrom_with(&self.fd, flags) {
                // Linux copies the listener's other options (`sk_clone_lock`,
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
    /// One connection failed and was closed; others can be accepted.
    #[error("one connection failed: {0}")]
    Connection(#[source] io::Error),
    /// No descriptors or memory: try again later.
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

/// Linux passes network errors of the new connection on as errors of accept(2); a firewall's
/// refusal is one too.
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

/// A connected, or connecting, non-blocking stream socket.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// Starts to connect to `address`. The reactor reports `writable` when the attempt has ended;
    /// [`Socket::take_error`] then returns the result.
    ///
    /// # Errors
    /// Immediate failures: no route, no descriptors.
    pub fn connect(address: SocketAddr) -> io::Result<Socket> {
        Socket::connect_with(address, &SocketOptions::default())
    }

    /// As [`Socket::connect`], with options.
    ///
    /// # Errors
    /// As [`Socket::connect`], and as [`socket_options::apply`].
    pub fn connect_with(address: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
        let fd = new_socket(address)?;
        socket_options::apply(options, &fd)?;
        match net::connect(&fd, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {
                socket_options::apply_congestion_control(options, &fd)?;
                Ok(Socket(fd))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Takes the socket's pending error, for example after a failed connection attempt.
    ///
    /// # Errors
    /// That error.
    pub fn take_error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.0)??)
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// The socket is not connected.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        to_socket_address(net::getsockname(&self.0)?)
    }

    /// Receives available data, up to `buffer.len()` bytes. 0 is the end of the stream. **Fewer
    /// bytes than the buffer mean that the socket is drained**: the reactor will report more data,
    /// so a second call can be saved.
    ///
    /// # Errors
    /// `WouldBlock` if no data is available; the error that ended the connection.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_flagged(buffer, RecvFlags::empty())
    }

    fn receive_flagged(&self, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        loop {
            match net::recv(&self.0, &mut *buffer, flags) {
                Err(rustix::io::Errno::INTR) => {}
                Ok((n, _)) => return Ok(n),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Discards available data without copying it, at most `buffer.len()` bytes. The content of
    /// `buffer` is undefined afterwards.
    ///
    /// # Errors
    /// As [`Socket::receive`].
    pub fn discard(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_flagged(buffer, RecvFlags::TRUNC)
    }

    /// Sends the slices (at most [`SLICES_MAX`]) in one call. Returns the number of bytes sent.
    /// **Fewer bytes than given mean that the send buffer is full**: the reactor will report when
    /// there is room.
    ///
    /// # Errors
    /// `WouldBlock` if nothing was sent; the error that ended the connection.
    pub fn send_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send_flagged(slices, SendFlags::NOSIGNAL)
    }

    /// As [`Socket::send_vectored`], if more data follows at once: a partial last segment waits for
    /// it.
    ///
    /// # Errors
    /// As [`Socket::send_vectored`].
    pub fn send_vectored_more(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send_flagged(slices, SendFlags::NOSIGNAL | SendFlags::MORE)
    }

    fn send_flagged(&self, slices: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
        debug_assert!(slices.len() <= SLICES_MAX);
        loop {
            let sent = match slices {
                // A single slice is sent without the kernel's handling of a list.
                [slice] => net::send(&self.0, slice, flags),
                // `sendmsg` rather than `writev`: the same gathering, but no SIGPIPE.
                _ => net::sendmsg(&self.0, slices, &mut SendAncillaryBuffer::default(), flags),
            };
            match sent {
                Err(rustix::io::Errno::INTR) => {}
                Ok(n) => return Ok(n),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Closes at once: unsent data is discarded, and the peer's next read fails.
    pub fn abort(self) {
        let _ = sockopt::set_socket_linger(&self.0, Some(std::time::Duration::ZERO));
    }

    /// Returns the shape of a full segment that this side sends.
    ///
    /// # Errors
    /// The socket is not connected.
    pub fn segment(&self) -> io::Result<Segment> {
        let ip_header_bytes = if self.local_address()?.is_ipv4() {
            20
        } else {
            40
        };
        // SAFETY: `tcp_info` is plain integers, for which zero is valid; `length` is its size, and
        // an older kernel fills less.
        let info = unsafe {
            let mut info: libc::tcp_info = std::mem::zeroed();
            let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
            let result = libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            );
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
            info
        };
        let timestamps = info.tcpi_options & TCPI_OPT_TIMESTAMPS != 0;
        let tcp_header_bytes = if timestamps { 32 } else { 20 };
        Ok(Segment {
            payload_bytes: info.tcpi_snd_mss,
            header_bytes: tcp_header_bytes + ip_header_bytes,
        })
    }

    /// Shuts the sending side down: the peer reads the end of the stream after the data sent
    /// before.
    pub fn finish_sending(&self) {
        let _ = net::shutdown(&self.0, net::Shutdown::Write);
    }
}

/// `TCPI_OPT_TIMESTAMPS` of linux/tcp.h: both sides send time stamps.
const TCPI_OPT_TIMESTAMPS: u8 = 1;

/// Ethernet header, frame check sequence, preamble and gap between frames.
const ETHERNET_BYTES: u32 = 14 + 4 + 8 + 12;

/// A full TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Payload.
    pub payload_bytes: u32,
    /// TCP and IP headers.
    pub header_bytes: u32,
}

impl Segment {
    /// Bytes on an Ethernet wire.
    #[must_use]
    pub fn wire_bytes(&self) -> u32 {
        self.payload_bytes + self.header_bytes + ETHERNET_BYTES
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn new_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socket_with(family, SocketType::STREAM, flags, None)?)
}

fn to_socket_address(address: SocketAddrAny) -> io::Result<SocketAddr> {
    SocketAddr::try_from(address).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Token;
    use crate::wait::{Events, Interest, Reactor};

    fn pair() -> (Socket, Socket) {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = Socket::connect(listener.local_address().unwrap()).unwrap();
        let reactor = Reactor::new().unwrap();
        reactor
            .register(&listener, Token(0), Interest::Level)
            .unwrap();
        let mut events = Events::with_capacity(1);
        reactor.wait(&mut events, None).unwrap();
        let (server, peer) = listener.accept().unwrap().unwrap();
        assert_eq!(peer, client.local_address().unwrap());
        (client, server)
    }

    #[test]
    fn slices_arrive_in_order_and_the_end_of_the_stream_reads_as_zero() {
        let (client, server) = pair();
        client
            .send_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cd")])
            .unwrap();
        client.finish_sending();
        let reactor = Reactor::new().unwrap();
        reactor.register(&server, Token(7), Interest::Edge).unwrap();
        let mut events = Events::with_capacity(8);
        let (mut got, mut buffer) = (Vec::new(), [0; 64]);
        loop {
            match server.receive(&mut buffer) {
                Ok(0) => break,
                Ok(n) => got.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    reactor.wait(&mut events, None).unwrap();
                }
                Err(e) => panic!("{e}"),
            }
        }
        assert_eq!(got, b"abcd");
    }

    #[test]
    fn what_is_discarded_is_taken_off_the_stream_and_not_copied() {
        let (a, b) = pair();
        a.send_vectored(&[IoSlice::new(&[1; 1000]), IoSlice::new(&[2; 50])])
            .unwrap();
        let mut buffer = [9; 700];
        let mut left = 1000;
        while left > 0 {
            let most = buffer.len().min(left);
            match b.discard(&mut buffer[..most]) {
                Ok(n) => left -= n,
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(buffer, [9; 700]);
        assert_eq!(b.receive(&mut buffer).unwrap(), 50);
        assert_eq!(buffer[..51], [[2; 50].as_slice(), &[9]].concat());
    }

    #[test]
    fn a_refused_connection_is_an_error_of_the_socket() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_address().unwrap();
        drop(listener);
        let socket = match Socket::connect(address) {
            Ok(socket) => socket,
            Err(e) => return assert_eq!(e.kind(), io::ErrorKind::ConnectionRefused),
        };
        let reactor = Reactor::new().unwrap();
        reactor.register(&socket, Token(1), Interest::Edge).unwrap();
        let mut events = Events::with_capacity(8);
        reactor.wait(&mut events, None).unwrap();
        assert!(events.iter().any(|e| e.writable));
        assert_eq!(
            socket.take_error().unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
    }
}
