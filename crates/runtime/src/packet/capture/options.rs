//! Options of a capture.

/// Size of the ring, selection of packets, and snap length.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Size of the ring, bytes, rounded up to a multiple of 512 KiB, at least 1 MiB.
    pub ring_bytes: usize,
    /// Number of bytes kept of each packet, from the Ethernet header on.
    pub snap_bytes: u32,
    /// Packets that are kept.
    pub selection: Selection,
    /// Whether the interface accepts frames to any MAC address, and the ring ignores what this
    /// machine sends.
    pub receives_all: bool,
}

/// Selection of packets.
#[derive(Clone, Debug)]
pub enum Selection {
    /// TCP segments from or to one of these ports, at most [`RingOptions::PORTS_MAX`]. If there are
    /// none, every packet.
    TcpPorts(Vec<u16>),
    /// Packets that have this big-endian word at this offset from the Ethernet header.
    Word {
        /// Offset, bytes.
        at: u32,
        /// The word.
        value: u32,
    },
}

impl RingOptions {
    /// Maximum number of ports, which the range of jumps in the kernel's filters limits.
    pub const PORTS_MAX: usize = 32;
}
