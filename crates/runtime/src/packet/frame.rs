//! Packets as the socket delivers and accepts them.
use hakaru_units::Time;

/// The longest super-frame: Linux makes none above 64 KiB unless BIG TCP is switched on.
pub const PACKET_BYTES_MAX: usize = (64 << 10) + 64;

/// Work left to the sender: a checksum, segmentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// First byte that the missing checksum covers, and the offset of the checksum from it.
    pub checksum: Option<(u16, u16)>,
    /// Segmentation of a super-frame; none for a single frame.
    pub segmentation: Option<Cut>,
}

/// Segmentation of a super-frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Whether the super-frame consists of UDP datagrams instead of a TCP segment.
    pub udp: bool,
    /// Headers that every frame repeats, bytes. Unreliable for a received packet: the kernel
    /// reports how much lies in one piece.
    pub header_bytes: u16,
    /// Payload of each frame but the last, bytes.
    pub payload_bytes: u16,
}

/// A received packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes from the Ethernet header on, without FCS.
    pub bytes: Vec<u8>,
    /// Work left to do.
    pub offload: Offload,
    /// Instant at which the interface received the packet.
    pub at: Time,
}

/// A packet to send: `head`, then `body`.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Bytes written anew: headers, or nothing.
    pub head: &'a [u8],
    /// Bytes sent in place.
    pub body: &'a [u8],
    /// Work left to do.
    pub offload: Offload,
}
