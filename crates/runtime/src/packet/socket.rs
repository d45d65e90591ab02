//! The packet sockets of one interface: one for reception, one for transmission.
//!
//! A received packet has its timestamp and its 802.1Q tag. Linux removes the tag of every frame
//! that it receives; [`PacketSocket::receive`] inserts it again.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hakaru_units::Time;

use super::frame::{Outgoing, Received};
use super::inbox::{Inbox, LossCause};
use super::options::{accept_all, bind, open_socket, set, set_size, take_statistics};
use super::outbox::Outbox;
use super::ring::ReceiveRing;

/// Room for long packets that arrive while the shell is busy (see [`super::ring`]), bytes.
const RECEIVE_BUFFER_BYTES: libc::c_int = 256 << 20;
const SEND_BUFFER_BYTES: libc::c_int = 32 << 20;

/// An open interface of this network namespace.
#[derive(Debug)]
pub struct PacketSocket {
    // Declared before the socket, so that it is unmapped first.
    ring: ReceiveRing,
    receive: OwnedFd,
    /// A second socket, which receives nothing: sending on it wakes no reader of packets.
    send: Arc<OwnedFd>,
}

impl PacketSocket {
    /// Opens an interface in promiscuous mode. [`PacketSocket::receive`] returns every packet that
    /// the interface receives, and none that it sends.
    ///
    /// # Errors
    /// The interface does not exist, or CAP_NET_RAW is missing.
    pub fn open(interface: &str) -> io::Result<PacketSocket> {
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: `name` is a C string for the length of the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let receive = open_socket()?;
        let ring = ReceiveRing::new(&receive)?;
        set(
            &receive,
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            &1_i32,
        )?;
        // Requests the driver's timestamp, which is earlier than the ring's.
        set(&receive, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
        let (forced, plain) = (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF);
        set_size(&receive, forced, plain, RECEIVE_BUFFER_BYTES)?;
        accept_all(&receive, index)?;
        bind(&receive, index, libc::ETH_P_ALL as u16)?;

        let send = open_socket()?;
        set(&send, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        // Bypasses the queueing discipline, a queue that the model does not include.
        set(&send, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        // The kernel reports timestamps for messages that request one.
        let flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        set(&send, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)?;
        let (forced, plain) = (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
        set_size(&send, forced, plain, SEND_BUFFER_BYTES)?;
        bind(&send, index, 0)?;
        Ok(PacketSocket {
            ring,
            receive,
            send: Arc::new(send),
        })
    }

    /// Returns the next packet, if there is one, or the reason why it was lost. Call
    /// [`Inbox::refresh_clocks`] before reading a batch of packets.
    pub fn receive(&mut self, inbox: &mut Inbox) -> Option<Result<Received, LossCause>> {
        inbox.receive(&mut self.ring, self.receive.as_fd())
    }

    /// Sends packets in order. Returns the number that the interface refused; those are lost.
    pub fn send(&self, packets: &[Outgoing<'_>], outbox: &mut Outbox) -> u64 {
        Self::send_through(&self.send, packets, outbox)
    }

    /// Returns a handle for [`PacketSocket::send_through`], usable from any thread.
    pub(crate) fn sender(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.send)
    }

    pub(crate) fn send_through(
        sender: &OwnedFd,
        packets: &[Outgoing<'_>],
        outbox: &mut Outbox,
    ) -> u64 {
        outbox.send_to(sender.as_fd(), packets)
    }

    /// Sends one packet. Returns the number refused (0 or 1), and the instant at which the
    /// interface accepted the packet if that is known already.
    pub fn send_stamped(&self, packet: &Outgoing<'_>, outbox: &mut Outbox) -> (u64, Option<Time>) {
        outbox.send_stamped_to(self.send.as_fd(), packet)
    }

    /// Returns the number of packets lost for lack of room since the previous call.
    ///
    /// # Errors
    /// None on an open packet socket.
    pub fn take_lost(&self) -> io::Result<u64> {
        Ok(take_statistics(&self.receive)?.dropped)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receive.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interface_is_refused() {
        assert!(PacketSocket::open("no-such-thing0").is_err());
    }
}
