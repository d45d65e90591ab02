//! Whole Ethernet frames of an interface, super-frames included: an `AF_PACKET` socket with virtio-net headers.
//!
//! Needs CAP_NET_RAW in the user namespace of the network namespace, which whoever made the namespace has: no root.
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Room for what comes while the shell does something else, bytes. A packet that finds none is lost and counted ([`PacketSocket::take_lost`]).
const RECEIVE_BUFFER_BYTES: libc::c_int = 256 << 20;
const SEND_BUFFER_BYTES: libc::c_int = 32 << 20;

/// The longest super-frame: Linux makes none above 64 KiB unless BIG TCP is switched on.
pub const PACKET_BYTES_MAX: usize = (64 << 10) + 64;

const HEADER_BYTES: usize = size_of::<VirtioHeader>();

/// `virtio_net_hdr`: what the kernel tells of a packet besides its bytes (virtio 1.2, section 5.1.6).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct VirtioHeader {
    flags: u8,
    gso_type: u8,
    header_bytes: u16,
    gso_bytes: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_ECN: u8 = 0x80;

/// What goes with a packet's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Where the checksum that is to be filled in begins to count, and how far from there it is stored.
    pub checksum: Option<(u16, u16)>,
    /// It is a TCP super-frame: length of its headers and payload of each frame, bytes.
    pub segmentation: Option<(u16, u16)>,
}

/// An interface of this network namespace.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

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
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: makes a descriptor, which nobody else owns. Protocol 0: nothing is received before it is bound.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, kind, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            PacketSocket(OwnedFd::from_raw_fd(fd))
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        // Straight to the device: a queue in between would be one more that the model does not know of.
        socket.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        // Beyond what is allowed to everyone where this user may; else what is.
        for (forced, plain, bytes) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER_BYTES),
        ] {
            if socket.set(libc::SOL_SOCKET, forced, &bytes).is_err() {
                socket.set(libc::SOL_SOCKET, plain, &bytes)?;
            }
        }
        let promiscuous = libc::packet_mreq {
            mr_ifindex: index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
        socket.bind(index)?;
        Ok(socket)
    }

    /// The next packet: its bytes come into `buffer` (at least [`PACKET_BYTES_MAX`]), their number and what goes with them are returned.
    ///
    /// # Errors
    /// `WouldBlock` if none waits; `InvalidData` for a packet that does not fit or is cut in a way unknown here, which is taken and gone.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Offload)> {
        let mut header = [0_u8; HEADER_BYTES];
        let mut slices = [IoSliceMut::new(&mut header), IoSliceMut::new(buffer)];
        // SAFETY: zero is a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = slices.as_mut_ptr().cast();
        message.msg_iovlen = slices.len();
        // SAFETY: `message` names `slices`, which are valid memory of the lengths they say (IoSliceMut is an iovec).
        let got = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        let length = got
            .checked_sub(HEADER_BYTES)
            .ok_or(io::ErrorKind::InvalidData)?;
        if length > buffer.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let offload = VirtioHeader::parse(&header)
            .offload()
            .ok_or(io::ErrorKind::InvalidData)?;
        Ok((length, offload))
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// `WouldBlock` if the interface takes no more now; the interface is down or gone; the packet is longer than its MTU.
    pub fn send(&self, bytes: &[u8], offload: &Offload) -> io::Result<()> {
        let header = VirtioHeader::of(bytes, offload).emit();
        let slices = [IoSlice::new(&header), IoSlice::new(bytes)];
        rustix::io::writev(&self.0, &slices)?;
        Ok(())
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
                self.0.as_raw_fd(),
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

    fn bind(&self, index: libc::c_uint) -> io::Result<()> {
        // SAFETY: zero is a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as libc::c_int;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `address` is a `sockaddr_ll` of that length.
        let result = unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: `value` is plain memory of the size given.
        let result = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
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
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl VirtioHeader {
    fn parse(bytes: &[u8; HEADER_BYTES]) -> VirtioHeader {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        VirtioHeader {
            flags: bytes[0],
            gso_type: bytes[1],
            header_bytes: word(2),
            gso_bytes: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    fn emit(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [
            self.header_bytes,
            self.gso_bytes,
            self.checksum_start,
            self.checksum_offset,
        ];
        for (to, word) in bytes[2..].as_chunks_mut::<2>().0.iter_mut().zip(words) {
            *to = word.to_ne_bytes();
        }
        bytes
    }

    /// `None` for a super-frame of something other than TCP.
    fn offload(self) -> Option<Offload> {
        let segmentation = match self.gso_type & !GSO_ECN {
            0 => None,
            // Where the headers end is not told reliably: the kernel says how much of the packet lies in one piece.
            GSO_TCP4 | GSO_TCP6 => Some((self.header_bytes, self.gso_bytes)),
            _ => return None,
        };
        let checksum = (self.flags & NEEDS_CHECKSUM != 0)
            .then_some((self.checksum_start, self.checksum_offset));
        Some(Offload {
            checksum,
            segmentation,
        })
    }

    fn of(bytes: &[u8], offload: &Offload) -> VirtioHeader {
        let mut header = VirtioHeader::default();
        if let Some((start, offset)) = offload.checksum {
            header.flags = NEEDS_CHECKSUM;
            (header.checksum_start, header.checksum_offset) = (start, offset);
        }
        if let Some((headers, each)) = offload.segmentation {
            // IPv6 by its ethertype, which stands before the tag's end where there is one.
            let kind = if bytes.get(12..14) == Some(&[0x81, 0]) {
                bytes.get(16..18)
            } else {
                bytes.get(12..14)
            };
            header.gso_type = if kind == Some(&[0x86, 0xdd]) {
                GSO_TCP6
            } else {
                GSO_TCP4
            };
            (header.header_bytes, header.gso_bytes) = (headers, each);
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were_sent() {
        let offload = Offload {
            checksum: Some((34, 16)),
            segmentation: Some((66, 1448)),
        };
        let mut bytes = [0; 100];
        bytes[12] = 8;
        let header = VirtioHeader::of(&bytes, &offload);
        assert_eq!((header.flags, header.gso_type), (NEEDS_CHECKSUM, GSO_TCP4));
        assert_eq!(VirtioHeader::parse(&header.emit()), header);
        assert_eq!(header.offload(), Some(offload));
        bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(VirtioHeader::of(&bytes, &offload).gso_type, GSO_TCP6);
        assert_eq!(
            VirtioHeader {
                gso_type: 5,
                ..header
            }
            .offload(),
            None,
            "UDP is not cut here"
        );
        assert_eq!(VirtioHeader::default().offload(), Some(Offload::default()));
    }

    #[test]
    fn an_interface_that_is_not_there_is_refused() {
        assert!(PacketSocket::open("no-such-thing0").is_err());
    }
}
