//! What TCP knows of a connection (`getsockopt(TCP_INFO)`), as far as this kernel tells it.
//!
//! The kernel's structure has grown with its versions and only ever at its end; the kernel fills what it has and says how long that is. So the bytes are
//! read by their place (include/uapi/linux/tcp.h), and what lies beyond their end is `None`, never 0.
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Longer than the structure of any kernel so far (248 bytes in Linux 6.7).
const BYTES: usize = 512;

/// A connection's own story. Cumulative since it was made, but for what is named as a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Retransmission timeout now, µs.
    pub rto_us: Option<u64>,
    /// Smoothed round-trip time now, µs.
    pub rtt_us: Option<u64>,
    /// Congestion window now, segments.
    pub congestion_window_segments: Option<u64>,
    /// Longest segment it sends, bytes of payload.
    pub segment_bytes: Option<u64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Bytes acknowledged by the peer (Linux 4.1).
    pub acked_bytes: Option<u64>,
    /// Time with data to send (Linux 4.10), µs. The two that follow are parts of it.
    pub busy_us: Option<u64>,
    /// Time stalled by the peer's receive window, µs.
    pub receive_window_limited_us: Option<u64>,
    /// Time stalled by the own send buffer, µs.
    pub send_buffer_limited_us: Option<u64>,
    /// Segments delivered whose acknowledgement echoed an ECN mark (Linux 4.18).
    pub delivered_ce: Option<u64>,
    /// Bytes of payload sent, those sent again included (Linux 4.19).
    pub sent_bytes: Option<u64>,
    /// Bytes sent again (Linux 4.19).
    pub retransmitted_bytes: Option<u64>,
    /// Firings of the retransmission timer (Linux 6.7). The kernel counts in 16 bits.
    pub timeouts: Option<u64>,
    /// Recoveries that such a firing began (Linux 6.7), each of one or more. 16 bits.
    pub timeout_recoveries: Option<u64>,
    /// Time from the first firing of each recovery to its end (Linux 6.7), ms. The silence before that firing is not in it.
    pub timeout_recovery_ms: Option<u64>,
}

impl TcpInfo {
    /// Of a TCP socket.
    ///
    /// # Errors
    /// It is no TCP socket.
    pub fn of(socket: impl AsFd) -> io::Result<TcpInfo> {
        let mut bytes = [0; BYTES];
        let mut length = BYTES as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `bytes`, which has that many, and puts into `length` how many it wrote.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(TcpInfo::parse(&bytes[..(length as usize).min(BYTES)]))
    }

    fn parse(bytes: &[u8]) -> TcpInfo {
        let u16_at = |at| number(bytes, at, 2);
        let u32_at = |at| number(bytes, at, 4);
        let u64_at = |at| number(bytes, at, 8);
        TcpInfo {
            rto_us: u32_at(8),
            segment_bytes: u32_at(16),
            rtt_us: u32_at(68),
            congestion_window_segments: u32_at(80),
            retransmits: u32_at(100),
            acked_bytes: u64_at(120),
            busy_us: u64_at(168),
            receive_window_limited_us: u64_at(176),
            send_buffer_limited_us: u64_at(184),
            delivered_ce: u32_at(196),
            sent_bytes: u64_at(200),
            retransmitted_bytes: u64_at(208),
            timeouts: u16_at(240),
            timeout_recoveries: u16_at(242),
            timeout_recovery_ms: u32_at(244),
        }
    }
}

/// `length` bytes from `at` on in the machine's order, if all of them are there.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let field = bytes.get(at..at + length)?;
    let mut wide = [0; 8];
    if cfg!(target_endian = "little") {
        wide[..length].copy_from_slice(field);
    } else {
        wide[8 - length..].copy_from_slice(field);
    }
    Some(u64::from_ne_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn places_of_the_fields_are_those_of_the_c_library_where_it_knows_them() {
        use std::mem::offset_of;
        type Info = libc::tcp_info;
        let places = [
            (offset_of!(Info, tcpi_rto), 8),
            (offset_of!(Info, tcpi_snd_mss), 16),
            (offset_of!(Info, tcpi_rtt), 68),
            (offset_of!(Info, tcpi_snd_cwnd), 80),
            (offset_of!(Info, tcpi_total_retrans), 100),
        ];
        for (theirs, ours) in places {
            assert_eq!(theirs, ours);
        }
    }

    #[test]
    fn what_an_older_kernel_does_not_tell_is_not_there() {
        // Linux 4.18 knew 200 bytes; a field that is cut off is not there either.
        let bytes: Vec<u8> = (0..200).map(|i| u8::from(i == 196) * 7).collect();
        let info = TcpInfo::parse(&bytes);
        assert_eq!(info.delivered_ce, Some(7));
        assert_eq!(info.sent_bytes, None);
        assert_eq!(TcpInfo::parse(&bytes[..199]).delivered_ce, None);
        assert_eq!(TcpInfo::parse(&[]), TcpInfo::default());
    }

    #[test]
    fn bytes_sent_and_acknowledged_are_those_that_were_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 10_000]).unwrap();
        server.read_exact(&mut [0; 10_000]).unwrap();
        // An answer carries the acknowledgement of everything before it.
        server.write_all(&[1]).unwrap();
        client.read_exact(&mut [0]).unwrap();
        let info = TcpInfo::of(&client).unwrap();
        assert_eq!(info.retransmits, Some(0));
        assert!(info.rtt_us.is_some_and(|rtt| rtt < 1_000_000));
        assert!(info.rto_us.is_some_and(|rto| rto >= 1000));
        // Linux counts the SYN among the bytes acknowledged.
        assert!(
            info.acked_bytes
                .is_none_or(|bytes| (10_000..=10_001).contains(&bytes))
        );
        assert!(info.sent_bytes.is_none_or(|bytes| bytes == 10_000));
        assert!(info.timeouts.is_none_or(|timeouts| timeouts == 0));
    }

    #[test]
    fn a_file_has_no_tcp() {
        assert!(TcpInfo::of(std::io::stdin()).is_err());
    }
}
