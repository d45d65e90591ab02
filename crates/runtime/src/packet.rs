//! Whole Ethernet frames of an interface, super-frames included: `AF_PACKET` sockets with virtio-net headers, a ring for what comes, many packets a call for
//! what goes.
//!
//! Needs CAP_NET_RAW in the user namespace of the network namespace, which whoever made the namespace has: no root.
//!
//! What the kernel keeps beside a packet comes with it: the instant at which the interface had it, and the 802.1Q tag that Linux takes
//! out of every frame it receives, which is put back.
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use hakaru_units::Time;

use crate::packet_batch::Outbox;
use crate::packet_inbox::{Gone, Inbox};
use crate::packet_ring::ReceiveRing;

/// Room for long packets that come while the shell does something else, bytes.
const RECEIVE_BUFFER_BYTES: libc::c_int = 256 << 20;
const SEND_BUFFER_BYTES: libc::c_int = 32 << 20;

/// The longest super-frame: Linux makes none above 64 KiB unless BIG TCP is switched on.
pub const PACKET_BYTES_MAX: usize = (64 << 10) + 64;

/// What goes with a packet's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Where the checksum that is to be filled in begins to count, and how far from there it is stored.
    pub checksum: Option<(u16, u16)>,
    /// It is a super-frame.
    pub segmentation: Option<Cut>,
}

/// How a super-frame is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Of UDP datagrams; else it is a TCP segment.
    pub udp: bool,
    /// Headers that every frame repeats, bytes. Of a received packet it is not reliable: the kernel says how much lies in one piece.
    pub header_bytes: u16,
    /// Payload of each frame but the last, bytes.
    pub payload_bytes: u16,
}

/// A packet that came.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// From the Ethernet header on, without FCS.
    pub bytes: Vec<u8>,
    /// What goes with them.
    pub offload: Offload,
    /// When the interface had it.
    pub at: Time,
}

/// A packet to send: `head`, then `body`.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// What was written anew: headers, or nothing.
    pub head: &'a [u8],
    /// What is sent from where it lies.
    pub body: &'a [u8],
    /// What goes with the bytes.
    pub offload: Offload,
}

/// An interface of this network namespace.
#[derive(Debug)]
pub struct PacketSocket {
    // Before the socket: unmapped first.
    ring: ReceiveRing,
    receive: OwnedFd,
    /// Another socket, of no protocol: what is sent there wakes nobody who waits for packets.
    send: Arc<OwnedFd>,
}

impl PacketSocket {
    /// Opens an interface: everything that it receives is read here, whoever it is for, and nothing that it sends.
    ///
    /// # Errors
    /// There is no such interface; CAP_NET_RAW is missing.
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
        // The driver's stamp, not that of the ring, which has a packet later.
        set(&receive, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
        let (forced, plain) = (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF);
        set_size(&receive, forced, plain, RECEIVE_BUFFER_BYTES)?;
        let promiscuous = libc::packet_mreq {
            mr_ifindex: index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(
            &receive,
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            &promiscuous,
        )?;
        bind(&receive, index, libc::ETH_P_ALL as u16)?;

        let send = open_socket()?;
        set(&send, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        // Straight to the device: a queue in between would be one more that the model does not know of.
        set(&send, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        // Stamps are told of those messages that ask for one.
        let told = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        set(&send, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &told)?;
        let (forced, plain) = (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
        set_size(&send, forced, plain, SEND_BUFFER_BYTES)?;
        bind(&send, index, 0)?;
        Ok(PacketSocket {
            ring,
            receive,
            send: Arc::new(send),
        })
    }

    /// The next packet that waits, if there is one. Before the first of many: [`Inbox::look`].
    pub fn receive(&mut self, inbox: &mut Inbox) -> Option<Result<Received, Gone>> {
        inbox.receive(&mut self.ring, self.receive.as_fd())
    }

    /// Sends packets, in order; how many the interface did not take, which are lost.
    pub fn send(&self, packets: &[Outgoing<'_>], outbox: &mut Outbox) -> u64 {
        Self::send_through(&self.send, packets, outbox)
    }

    /// What [`PacketSocket::send_through`] sends by, wherever that is.
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

    /// Sends one packet as [`PacketSocket::send`] does, and asks when the interface had it, if it can tell: `(refused, when)`.
    pub fn send_stamped(&self, packet: &Outgoing<'_>, outbox: &mut Outbox) -> (u64, Option<Time>) {
        outbox.send_stamped_to(self.send.as_fd(), packet)
    }

    /// Packets that were lost since this was asked last, for want of room while the shell did something else.
    ///
    /// # Errors
    /// None that occur on an open packet socket.
    pub fn take_lost(&self) -> io::Result<u64> {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `statistics`.
        let result = unsafe {
            libc::getsockopt(
                self.receive.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(statistics.tp_drops.into())
    }
}

/// A packet socket of no interface yet.
pub(crate) fn open_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: makes a descriptor, which nobody else owns. Protocol 0: nothing is received before it is bound.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, kind, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// `protocol`: what is received; 0: nothing.
pub(crate) fn bind(socket: &OwnedFd, index: libc::c_uint, protocol: u16) -> io::Result<()> {
    // SAFETY: zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as libc::c_int;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a `sockaddr_ll` of that length.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Beyond what is allowed to everyone where this user may; else what is.
fn set_size(
    socket: &OwnedFd,
    forced: libc::c_int,
    plain: libc::c_int,
    bytes: libc::c_int,
) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, forced, &bytes)
        .or_else(|_| set(socket, libc::SOL_SOCKET, plain, &bytes))
}

pub(crate) fn set<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` is plain memory of the size given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
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
    fn an_interface_that_is_not_there_is_refused() {
        assert!(PacketSocket::open("no-such-thing0").is_err());
    }
}
