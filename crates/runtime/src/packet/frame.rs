//! Packets as a packet socket delivers and accepts them.
use hakaru_units::Time;

/// Longest super-frame, bytes. Linux creates longer ones only with BIG TCP.
pub const PACKET_BYTES_MAX: usize = (64 << 10) + 64;

/// Work that the previous stage left to the next one: a checksum, segmentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// First byte that the missing checksum covers, and the offset of the checksum from that byte.
    /// `None` if the checksum is filled in.
    pub checksum: Option<(u16, u16)>,
    /// Segmentation of a super-frame. `None` for a single frame.
    pub segmentation: Option<Cut>,
}

/// Segmentation of a super-frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Whether the super-frame consists of UDP datagrams instead of a TCP segment.
    pub udp: bool,
    /// Headers that every frame repeats, bytes. Unreliable for a received packet, because the
    /// kernel reports the length of the packet's first piece of memory.
    pub header_bytes: u16,
    /// Payload of each frame except the last, bytes.
    pub payload_bytes: u16,
}

/// A received packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes from the Ethernet header on, without FCS.
    pub bytes: Vec<u8>,
    /// Work left to the receiver.
    pub offload: Offload,
    /// Instant at which the interface received the packet.
    pub at: Time,
}

/// A packet to send: `head`, then `body`.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Headers written for this packet, or nothing.
    pub head: &'a [u8],
    /// Bytes sent from where they are, without a copy by the caller.
    pub body: &'a [u8],
    /// Work left to the interface.
    pub offload: Offload,
}
