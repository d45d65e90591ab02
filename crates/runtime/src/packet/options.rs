//! Opening, binding and setting up `AF_PACKET` sockets.
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Opens a packet socket that is not bound to an interface.
pub(crate) fn open_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // Protocol 0 receives nothing before the socket is bound.
    // SAFETY: the call returns a new descriptor, which has no other owner.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, kind, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Binds a socket to an interface. It then receives packets of `protocol`, or none if that is 0.
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

/// Makes an interface accept frames to any MAC address while the socket is open (promiscuous mode).
pub(crate) fn accept_all(socket: &OwnedFd, index: libc::c_uint) -> io::Result<()> {
    let promiscuous = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &promiscuous,
    )
}

/// Sets the size of a socket buffer, above the system's limit if this process is privileged.
pub(super) fn set_size(
    socket: &OwnedFd,
    forced: libc::c_int,
    plain: libc::c_int,
    bytes: libc::c_int,
) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, forced, &bytes)
        .or_else(|_| set(socket, libc::SOL_SOCKET, plain, &bytes))
}

/// Sets a socket option.
pub(crate) fn set<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes, the size of `value`.
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

/// Counters of a packet socket.
pub(crate) struct Statistics {
    /// Packets that passed the filter, including those in `dropped`.
    pub packets: u64,
    /// Packets lost for lack of room.
    pub dropped: u64,
}

/// Returns the counters of a packet socket since the previous call. The kernel resets them.
pub(crate) fn take_statistics(socket: &OwnedFd) -> io::Result<Statistics> {
    // The structure for TPACKET_V3 begins with that of the other versions.
    // SAFETY: the structure consists of integers, for which zero is valid.
    let mut statistics: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `statistics`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Statistics {
        packets: statistics.tp_packets.into(),
        dropped: statistics.tp_drops.into(),
    })
}
