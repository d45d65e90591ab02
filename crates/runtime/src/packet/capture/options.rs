//! Options of a capture.

/// Selection of packets, and snap length.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Size of the ring, bytes; rounded up to whole blocks of 512 KiB, at least two.
    pub ring_bytes: usize,
    /// Bytes kept of each packet, from the Ethernet header on.
    pub snap_bytes: u32,
    /// Ports: only TCP with one of them at either end is kept; at most [`RingOptions::PORTS_MAX`].
    /// Empty: everything.
    pub ports: Vec<u16>,
}

impl RingOptions {
    /// Limited by the range of jumps in the kernel's filters.
    pub const PORTS_MAX: usize = 32;
}
