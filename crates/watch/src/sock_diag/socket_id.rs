//! Identity of a socket: addresses and cookie.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::netlink::native_u32;

pub(super) const AF_INET: u8 = 2;
pub(super) const AF_INET6: u8 = 10;

/// Identity of a socket: its addresses as the kernel returned them, and its cookie, which is unique
/// until the next boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId {
    pub(super) family: u8,
    /// Contents of a `struct inet_diag_sockid`.
    pub(super) id: [u8; 48],
}

impl SocketId {
    /// Creates an identity from two addresses of one family and a cookie. `interface`: index of the
    /// interface that the socket is bound to, 0 for none.
    #[must_use]
    pub fn new(local: SocketAddr, peer: SocketAddr, interface: u32, cookie: u64) -> SocketId {
        let mut id = [0; 48];
        let (family, source) = octets(local.ip());
        let (_, destination) = octets(peer.ip());
        id[..2].copy_from_slice(&local.port().to_be_bytes());
        id[2..4].copy_from_slice(&peer.port().to_be_bytes());
        id[4..20].copy_from_slice(&source);
        id[20..36].copy_from_slice(&destination);
        id[36..40].copy_from_slice(&interface.to_ne_bytes());
        id[40..44].copy_from_slice(&(cookie as u32).to_ne_bytes());
        id[44..48].copy_from_slice(&((cookie >> 32) as u32).to_ne_bytes());
        SocketId { family, id }
    }

    /// Returns the local address.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.address(0, 4)
    }

    /// Returns the peer's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.address(2, 20)
    }

    /// Returns the cookie: unique among all sockets of the machine until it reboots, in all
    /// namespaces.
    #[must_use]
    pub fn cookie(&self) -> u64 {
        let half = |at: usize| u64::from(native_u32(&self.id, at).expect("within 48 bytes"));
        half(40) | half(44) << 32
    }

    fn address(&self, port: usize, at: usize) -> SocketAddr {
        let port = u16::from_be_bytes([self.id[port], self.id[port + 1]]);
        let octets: [u8; 16] = self.id[at..at + 16].try_into().expect("16 bytes");
        let ip = if self.family == AF_INET {
            IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]))
        } else {
            // A mapped address is reported as IPv4.
            Ipv6Addr::from(octets).to_canonical()
        };
        SocketAddr::new(ip, port)
    }
}

fn octets(ip: IpAddr) -> (u8, [u8; 16]) {
    match ip {
        IpAddr::V4(v4) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&v4.octets());
            (AF_INET, octets)
        }
        IpAddr::V6(v6) => (AF_INET6, v6.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_are_reported_as_ipv4() {
        let id = SocketId::new(
            "[::ffff:10.0.0.1]:3260".parse().unwrap(),
            "[::ffff:10.0.0.2]:1".parse().unwrap(),
            0,
            1,
        );
        assert_eq!(id.local(), "10.0.0.1:3260".parse().unwrap());
    }
}
