//! The size of a full TCP segment, from the state of the connection.
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// `TCPI_OPT_TIMESTAMPS` of linux/tcp.h: both sides send timestamps.
const TCPI_OPT_TIMESTAMPS: u8 = 1;

/// Ethernet header, frame check sequence, preamble and gap between frames, bytes.
const ETHERNET_BYTES: u32 = 14 + 4 + 8 + 12;

/// Sizes of a full TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Payload, bytes.
    pub payload_bytes: u32,
    /// TCP and IP headers, bytes.
    pub header_bytes: u32,
}

impl Segment {
    /// Returns the sizes of a full segment that a connected socket sends.
    ///
    /// # Errors
    /// The socket is not TCP.
    pub(super) fn of(socket: &OwnedFd, is_ipv4: bool) -> io::Result<Segment> {
        let ip_header_bytes = if is_ipv4 { 20 } else { 40 };
        // SAFETY: `tcp_info` consists of integers, for which zero is valid. `length` is its size;
        // an older kernel fills less.
        let info = unsafe {
            let mut info: libc::tcp_info = std::mem::zeroed();
            let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
            let result = libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            );
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
            info
        };
        let timestamps = info.tcpi_options & TCPI_OPT_TIMESTAMPS != 0;
        let tcp_header_bytes = if timestamps { 32 } else { 20 };
        Ok(Segment {
            payload_bytes: info.tcpi_snd_mss,
            header_bytes: tcp_header_bytes + ip_header_bytes,
        })
    }

    /// Returns the bytes that the segment occupies on an Ethernet wire.
    #[must_use]
    pub fn wire_bytes(&self) -> u32 {
        self.payload_bytes + self.header_bytes + ETHERNET_BYTES
    }
}
