//! Facts about an interface of this network namespace.
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Request for facts about a driver (linux/sockios.h).
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// An Ethernet interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number in this network namespace.
    pub(crate) index: libc::c_uint,
    /// MAC address.
    pub mac: [u8; 6],
    /// MTU: longest IP packet, bytes.
    pub mtu_bytes: u32,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether it hands frames to the queue of another interface, as a veth pair or a TAP does.
    pub hands_over: bool,
    /// Number of its receive queues that are in use.
    pub(crate) receive_queues: u32,
}

impl Interface {
    /// Looks up an interface.
    ///
    /// # Errors
    /// There is none with that name (`NotFound`), or its frames have no Ethernet header
    /// (`Unsupported`).
    pub fn find(name: &str) -> io::Result<Interface> {
        let socket = {
            // SAFETY: the call returns a new descriptor, which has no other owner.
            unsafe {
                let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
                if fd < 0 {
                    return Err(io::Error::last_os_error());
                }
                OwnedFd::from_raw_fd(fd)
            }
        };
        let query = |request| ask(&socket, name, request);
        // SAFETY: each request fills the member of the union that is read.
        let (index, flags, mtu, address) = unsafe {
            (
                query(libc::SIOCGIFINDEX)?.ifr_ifru.ifru_ifindex,
                query(libc::SIOCGIFFLAGS)?.ifr_ifru.ifru_flags,
                query(libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu,
                query(libc::SIOCGIFHWADDR)?.ifr_ifru.ifru_hwaddr,
            )
        };
        if !matches!(
            address.sa_family,
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK
        ) {
            let message = "its packets have no Ethernet header";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        Ok(Interface {
            index: index as libc::c_uint,
            mac: std::array::from_fn(|at| address.sa_data[at] as u8),
            mtu_bytes: mtu as u32,
            is_up: i32::from(flags) & libc::IFF_UP != 0,
            hands_over: matches!(driver(&socket, name).as_deref(), Some("veth" | "tun")),
            receive_queues: receive_queues(&socket, name).unwrap_or(1).max(1),
        })
    }
}

/// Returns the name of the driver of an interface. `None` if the driver does not report it.
fn driver(socket: &OwnedFd, name: &str) -> Option<String> {
    /// `struct ethtool_drvinfo` (linux/ethtool.h): the command, the name of the driver, and others.
    const NAME: std::ops::Range<usize> = 4..36;
    const GET_DRIVER: u32 = 3;
    let facts = ask_driver(socket, name, GET_DRIVER)?;
    let bytes: Vec<u8> = facts.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = bytes[NAME].split(|byte| *byte == 0).next()?;
    String::from_utf8(name.to_vec()).ok()
}

/// Returns the number of receive queues of an interface. `None` if the driver does not report it.
fn receive_queues(socket: &OwnedFd, name: &str) -> Option<u32> {
    /// `struct ethtool_channels`: the command, four maxima, and four numbers in use: queues that only
    /// receive, that only send, others, and queues that do both.
    const GET_CHANNELS: u32 = 0x3c;
    let facts = ask_driver(socket, name, GET_CHANNELS)?;
    Some(facts[5] + facts[8])
}

/// Asks the driver of an interface for facts (linux/ethtool.h).
fn ask_driver(socket: &OwnedFd, name: &str, command: u32) -> Option<[u32; 64]> {
    // Longer than the structures, at most 196 bytes, and aligned like them.
    let mut facts = [0_u32; 64];
    facts[0] = command;
    let mut query = query_for(name)?;
    query.ifr_ifru.ifru_data = facts.as_mut_ptr().cast();
    // SAFETY: the request reads one `ifreq`, and writes the structure of the command to `facts`,
    // which is longer.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut query) };
    (result == 0).then_some(facts)
}

/// Returns a query about an interface. `None` if no interface can have the name.
fn query_for(name: &str) -> Option<libc::ifreq> {
    // SAFETY: zero is a valid `ifreq`.
    let mut query: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte ends the name.
    if name.is_empty() || name.len() >= size_of_val(&query.ifr_name) || name.contains('\0') {
        return None;
    }
    for (to, byte) in query.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    Some(query)
}

/// Asks the kernel for a property of an interface (netdevice(7)).
fn ask(socket: &OwnedFd, name: &str, request: libc::Ioctl) -> io::Result<libc::ifreq> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "there is no such interface");
    let mut query = query_for(name).ok_or_else(none)?;
    // SAFETY: these requests read and write one `ifreq`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut query) };
    if result == 0 {
        return Ok(query);
    }
    Err(match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENODEV) => none(),
        error => error,
    })
}

const _: () = assert!(size_of::<libc::ifreq>() >= 32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_missing_interfaces_are_named_as_such() {
        let loopback = Interface::find("lo").unwrap();
        assert_eq!((loopback.mac, loopback.index), ([0; 6], 1));
        assert!(loopback.mtu_bytes >= 1500 && !loopback.hands_over);
        for name in [
            "",
            "no-such-thing0",
            "a-name-that-is-longer-than-any",
            "l\0",
        ] {
            let error = Interface::find(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}: {error}");
        }
    }
}
