//! Options of a capture.

/// Size of the ring, selection of packets, and snap length.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Size of the ring, bytes, rounded up to a multiple of 512 KiB, at least 1 MiB.
    pub ring_bytes: usize,
    /// Number of bytes kept of each packet, from the Ethernet header on.
    pub snap_bytes: u32,
    /// TCP ports, at most [`RingOptions::PORTS_MAX`]. Only segments from or to one of them are
    /// kept. If empty, every packet is kept.
    pub ports: Vec<u16>,
}

impl RingOptions {
    /// Maximum number of ports, which the range of jumps in the kernel's filters limits.
    pub const PORTS_MAX: usize = 32;
}
