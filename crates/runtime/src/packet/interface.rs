//! Facts about an interface of this network namespace.
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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
        })
    }
}

/// Asks the kernel for a property of an interface (netdevice(7)).
fn ask(socket: &OwnedFd, name: &str, request: libc::Ioctl) -> io::Result<libc::ifreq> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "there is no such interface");
    // SAFETY: zero is a valid `ifreq`.
    let mut query: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte ends the name.
    if name.is_empty() || name.len() >= size_of_val(&query.ifr_name) || name.contains('\0') {
        return Err(none());
    }
    for (to, byte) in query.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
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
        assert!(loopback.mtu_bytes >= 1500);
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
