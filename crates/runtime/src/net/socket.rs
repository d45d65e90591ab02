//! A connected TCP socket.
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hakaru_contract::SocketOptions;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketFlags,
    SocketType, sockopt,
};

use super::segment::Segment;
use super::socket_options;

/// Maximum number of slices per [`Socket::send_vectored`] (`UIO_MAXIOV` of Linux).
pub const SLICES_MAX: usize = 1024;

/// A connected or connecting, non-blocking TCP socket.
#[derive(Debug)]
pub struct Socket(pub(super) OwnedFd);

impl Socket {
    /// Starts to connect to `address`. The reactor reports `writable` when the attempt has ended.
    /// [`Socket::take_error`] then returns the result.
    ///
    /// # Errors
    /// The attempt fails at once: no route to the address, or no descriptors left.
    pub fn connect(address: SocketAddr) -> io::Result<Socket> {
        Socket::connect_with(address, &SocketOptions::default())
    }

    /// Starts to connect as [`Socket::connect`] does, with options.
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

    /// Returns and clears the socket's pending error, for example of a failed connection attempt.
    ///
    /// # Errors
    /// The pending error.
    pub fn take_error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.0)??)
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// None on an open TCP socket.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        to_socket_address(net::getsockname(&self.0)?)
    }

    /// Receives available data, up to `buffer.len()` bytes. Returns the number of bytes; 0 is the
    /// end of the stream. **If it is less than `buffer.len()`, the socket is drained**, and the
    /// reactor will report further data. A second call is then unnecessary.
    ///
    /// # Errors
    /// `WouldBlock` if no data is available, or the error that ended the connection.
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

    /// Discards up to `buffer.len()` bytes of available data without copying them. Returns their
    /// number. The content of `buffer` is undefined afterwards.
    ///
    /// # Errors
    /// As [`Socket::receive`].
    pub fn discard(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_flagged(buffer, RecvFlags::TRUNC)
    }

    /// Sends the slices (at most [`SLICES_MAX`]) in one call. Returns the number of bytes sent.
    /// **If not all bytes were sent, the send buffer is full**, and the reactor will report when it
    /// has room.
    ///
    /// # Errors
    /// `WouldBlock` if nothing was sent, or the error that ended the connection.
    pub fn send_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send_flagged(slices, SendFlags::NOSIGNAL)
    }

    /// Sends as [`Socket::send_vectored`] does, if more data follows at once. A partial last
    /// segment waits for it.
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
                // `send` saves the kernel the handling of a list.
                [slice] => net::send(&self.0, slice, flags),
                // `sendmsg` rather than `writev`, which would raise SIGPIPE.
                _ => net::sendmsg(&self.0, slices, &mut SendAncillaryBuffer::default(), flags),
            };
            match sent {
                Err(rustix::io::Errno::INTR) => {}
                Ok(n) => return Ok(n),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Closes the connection with a reset: unsent data is discarded, and the peer's next read
    /// fails.
    pub fn abort(self) {
        let _ = sockopt::set_socket_linger(&self.0, Some(std::time::Duration::ZERO));
    }

    /// Returns the sizes of a full segment that this side sends.
    ///
    /// # Errors
    /// None on an open TCP socket.
    pub fn segment(&self) -> io::Result<Segment> {
        Segment::of(&self.0, self.local_address()?.is_ipv4())
    }

    /// Shuts down the sending side. The peer reads the end of the stream after all data sent
    /// before.
    pub fn finish_sending(&self) {
        let _ = net::shutdown(&self.0, net::Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Creates a non-blocking TCP socket of the address's family.
pub(super) fn new_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socket_with(family, SocketType::STREAM, flags, None)?)
}

pub(super) fn to_socket_address(address: SocketAddrAny) -> io::Result<SocketAddr> {
    SocketAddr::try_from(address).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Listener;
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
    fn discarded_data_leaves_the_stream_without_a_copy() {
        let (a, b) = pair();
        a.send_vectored(&[IoSlice::new(&[1; 1000]), IoSlice::new(&[2; 50])])
            .unwrap();
        let mut buffer = [9; 700];
        let mut left = 1000;
        while left > 0 {
            let length = buffer.len().min(left);
            match b.discard(&mut buffer[..length]) {
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
