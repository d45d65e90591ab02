//! The instants at which data left and arrived at this machine, by the kernel's clock.
//!
//! The kernel stamps every received packet when its driver passes it on, before TCP handles it and
//! before any process wakes up. [`Socket::receive_stamped`] returns the stamp of the last packet
//! that it read from. On request ([`Socket::send_stamped`]) the kernel also stamps the last packet
//! of a call when it is passed to the driver. [`Socket::take_sent_stamp`] returns that stamp, at
//! once unless the packet had to wait. Stamps are of `CLOCK_REALTIME`; [`StampClock`] converts them.
use std::io::{self, IoSlice};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use hakaru_units::Time;
use libc::{SCM_TIMESTAMPNS, SO_TIMESTAMPNS, SOL_SOCKET, c_int, c_void, socklen_t};

use super::socket::Socket;
use crate::wait::clock;

/// Interval after which the difference of the clocks is read again. Setting the real-time clock
/// falsifies stamps for at most this long.
const REFRESH: Duration = Duration::from_millis(100);
/// Room for one control message with a `timespec`, as `CMSG_SPACE` computes it: header and stamp,
/// 16 bytes each. Words of 8 bytes align it.
const CONTROL_WORDS: usize = 4;

/// A stamp of `CLOCK_REALTIME`, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

impl Socket {
    /// Has the kernel stamp received packets, for [`Socket::receive_stamped`].
    ///
    /// # Errors
    /// None on an open TCP socket.
    pub fn enable_stamps(&self) -> io::Result<()> {
        let on: c_int = 1;
        // SAFETY: the kernel reads `size_of::<c_int>()` bytes of `on`.
        let result = unsafe {
            libc::setsockopt(
                self.as_fd().as_raw_fd(),
                SOL_SOCKET,
                SO_TIMESTAMPNS,
                (&raw const on).cast(),
                size_of::<c_int>() as socklen_t,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Receives as [`Socket::receive`] does, or as [`Socket::discard`] if `discard` is set. Also
    /// returns the stamp of the last packet from which data was read. It is `None` if that packet
    /// was on its way when stamps were enabled.
    ///
    /// # Errors
    /// As [`Socket::receive`].
    pub fn receive_stamped(
        &self,
        buffer: &mut [u8],
        discard: bool,
    ) -> io::Result<(usize, Option<Stamp>)> {
        self.receive_message(buffer, if discard { libc::MSG_TRUNC } else { 0 })
    }

    /// Returns the stamp of the next packet of which data is available, and leaves the data.
    ///
    /// # Errors
    /// As [`Socket::receive`].
    pub fn peek_stamp(&self) -> io::Result<Option<Stamp>> {
        // With MSG_TRUNC the kernel copies nothing.
        let (_, stamp) = self.receive_message(&mut [0], libc::MSG_PEEK | libc::MSG_TRUNC)?;
        Ok(stamp)
    }

    fn receive_message(
        &self,
        buffer: &mut [u8],
        flags: c_int,
    ) -> io::Result<(usize, Option<Stamp>)> {
        let mut slice = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast::<c_void>(),
            iov_len: buffer.len(),
        };
        let mut control = [0_u64; CONTROL_WORDS];
        // SAFETY: zero is valid for every field: no address, no slices, no flags.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut slice;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        loop {
            message.msg_controllen = size_of_val(&control);
            // SAFETY: `message` refers to `slice` and `control`, which outlive the call. The kernel
            // writes at most `iov_len` bytes to the buffer and `msg_controllen` to `control`.
            let n = unsafe { libc::recvmsg(self.as_fd().as_raw_fd(), &raw mut message, flags) };
            if n >= 0 {
                return Ok((n as usize, stamp_in(&control, message.msg_controllen)));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

/// A stamp of sent data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentStamp {
    /// Position of the last byte of the call that sent it, modulo 2^32, from 0.
    pub position: u32,
    /// Instant at which the packet with that byte left.
    pub left: Stamp,
}

impl Socket {
    /// Has the kernel stamp sent data on request ([`Socket::send_stamped`]). Requires that nothing
    /// was sent on the connected socket.
    ///
    /// # Errors
    /// The kernel is too old.
    pub fn enable_sent_stamps(&self) -> io::Result<()> {
        // linux/net_tstamp.h: report software stamps, with positions and without the data.
        let reported = (1 << 4) | (1 << 7) | (1 << 11);
        // Not those of received packets (Linux 6.13), which `SO_TIMESTAMPNS` reports.
        let sent_only = reported | 1 << 17;
        self.set_timestamping(sent_only)
            .or_else(|_| self.set_timestamping(reported))
    }

    fn set_timestamping(&self, flags: c_int) -> io::Result<()> {
        // SAFETY: the kernel reads `size_of::<c_int>()` bytes of `flags`.
        let result = unsafe {
            libc::setsockopt(
                self.as_fd().as_raw_fd(),
                SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                (&raw const flags).cast(),
                size_of::<c_int>() as socklen_t,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Sends as [`Socket::send_vectored`] does, and requests a stamp of the last byte.
    ///
    /// # Errors
    /// As [`Socket::send_vectored`].
    pub fn send_stamped(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        const SENT_BY_SOFTWARE: u64 = 1 << 1;
        // A control message as in `stamp_in`, with a word of 4 bytes.
        let kind = SOL_SOCKET as u64 | (libc::SO_TIMESTAMPING as u64) << 32;
        let mut control = [20_u64, kind, SENT_BY_SOFTWARE];
        // SAFETY: zero is valid for every field: no address, no slices, no flags.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // `IoSlice` has the layout of `iovec`; the kernel only reads the slices.
        message.msg_iov = slices.as_ptr().cast_mut().cast();
        message.msg_iovlen = slices.len();
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        loop {
            // SAFETY: `message` refers to `slices` and `control`, which outlive the call.
            let n = unsafe {
                libc::sendmsg(
                    self.as_fd().as_raw_fd(),
                    &raw const message,
                    libc::MSG_NOSIGNAL,
                )
            };
            if n >= 0 {
                return Ok(n as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Returns the next stamp of sent data, if there is one.
    pub fn take_sent_stamp(&self) -> Option<SentStamp> {
        // Room for the stamps of 16 + 48 bytes and an extended error with an address.
        let mut control = [0_u64; 24];
        // SAFETY: zero is valid for every field: no address, no slices, no flags.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: `message` refers to `control`, which outlives the call.
        let n = unsafe {
            libc::recvmsg(
                self.as_fd().as_raw_fd(),
                &raw mut message,
                libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
            )
        };
        if n < 0 {
            return None;
        }
        let (mut at, mut left, mut position) = (0, None, None);
        let used = message.msg_controllen / 8;
        while at + 2 <= used.min(control.len()) && control[at] >= 16 {
            let words = (control[at] as usize).div_ceil(8);
            let (level, kind) = (
                control[at + 1] as u32 as c_int,
                (control[at + 1] >> 32) as c_int,
            );
            let data = &control[at + 2..control.len().min(at + words)];
            match (level, kind, data) {
                (SOL_SOCKET, libc::SO_TIMESTAMPING, [seconds, nanoseconds, ..]) => {
                    left = Some(Stamp(seconds * 1_000_000_000 + nanoseconds));
                }
                (libc::SOL_IP, libc::IP_RECVERR, [_, second, ..])
                | (libc::SOL_IPV6, libc::IPV6_RECVERR, [_, second, ..]) => {
                    // `sock_extended_err`: the fourth word of 4 bytes is `ee_data`.
                    position = Some((second >> 32) as u32);
                }
                _ => {}
            }
            at += words;
        }
        Some(SentStamp {
            position: position?,
            left: left?,
        })
    }
}

/// Returns the stamp in a control buffer of `length` bytes. Its layout is that of `cmsghdr` on a
/// 64-bit machine: length, level and type, then seconds and nanoseconds.
fn stamp_in(control: &[u64; CONTROL_WORDS], length: usize) -> Option<Stamp> {
    const KIND: u64 = SOL_SOCKET as u64 | (SCM_TIMESTAMPNS as u64) << 32;
    let [_, kind, seconds, nanoseconds] = *control;
    let is_whole = length == size_of_val(control);
    (is_whole && kind == KIND).then(|| Stamp(seconds * 1_000_000_000 + nanoseconds))
}

/// Converts stamps to the clock of all shells.
#[derive(Debug, Default)]
pub struct StampClock {
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, ns, modulo 2^64.
    ahead_ns: u64,
    /// Instant at which the clocks are read again.
    refresh_at: Time,
}

impl StampClock {
    /// Returns the instant of a stamp, no later than `now`.
    pub fn instant_of(&mut self, stamp: Stamp, now: Time) -> Time {
        if now >= self.refresh_at {
            let (monotonic, realtime_ns) = clock::now_and_realtime_ns();
            self.ahead_ns = realtime_ns.wrapping_sub(monotonic.as_ns());
            self.refresh_at = now + REFRESH;
        }
        Time(stamp.0.wrapping_sub(self.ahead_ns)).min(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Listener;
    use crate::wait::{Events, Interest, Reactor, Token};

    #[test]
    fn data_has_stamps_of_its_departure_and_arrival_and_stays_after_a_peek() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = Socket::connect(listener.local_address().unwrap()).unwrap();
        let reactor = Reactor::new().unwrap();
        let mut events = Events::with_capacity(1);
        reactor
            .register(&listener, Token(0), Interest::Level)
            .unwrap();
        reactor.wait(&mut events, None).unwrap();
        let (server, _) = listener.accept().unwrap().unwrap();
        client.take_error().unwrap();
        client.enable_sent_stamps().unwrap();
        server.enable_stamps().unwrap();
        reactor.register(&server, Token(1), Interest::Edge).unwrap();
        let (mut clock, mut buffer) = (StampClock::default(), [0; 64]);
        // The kernel enables the stamps of received packets a little later.
        let mut position = 0;
        loop {
            client.send_vectored(&[IoSlice::new(b"x")]).unwrap();
            position += 1;
            while server.peek_stamp().is_err() {
                reactor.wait(&mut events, None).unwrap();
            }
            if server
                .receive_stamped(&mut buffer, false)
                .unwrap()
                .1
                .is_some()
            {
                break;
            }
        }
        for bytes in [b"first", b"later"] {
            let before = clock::now();
            client.send_stamped(&[IoSlice::new(bytes)]).unwrap();
            let sent = client.take_sent_stamp().expect("loopback sends at once");
            position += 5;
            assert_eq!(sent.position, position - 1);
            while server.peek_stamp().is_err() {
                reactor.wait(&mut events, None).unwrap();
            }
            let first = server.peek_stamp().unwrap().expect("a packet has a stamp");
            let discard = bytes == b"later";
            let (n, last) = server.receive_stamped(&mut buffer, discard).unwrap();
            assert_eq!((n, last), (5, Some(first)));
            assert_eq!(&buffer[..5], b"first", "a discard copies nothing");
            assert!(sent.left <= first, "data arrives after it has left");
            let left = clock.instant_of(sent.left, clock::now());
            // The clocks are read within a microsecond of each other.
            assert!(left.as_ns() + 2000 > before.as_ns());
        }
        assert_eq!(
            server.peek_stamp().unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }
}
