//! The kernel's state of a TCP connection (`TCP_INFO`, tcp(7)). Fields that this kernel does not
//! report are `None`.
use std::io;
use std::os::fd::{AsFd, AsRawFd};

pub use hakaru_watch::tcp_info::{TcpInfo, Unwrapped};

/// Size of the buffer, above that of `struct tcp_info` in any kernel so far (248 bytes in Linux
/// 6.7).
const BYTES: usize = 512;

/// Reads the state of a TCP socket.
///
/// # Errors
/// The socket is not TCP.
pub fn of(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0; BYTES];
    let mut length = BYTES as libc::socklen_t;
    // SAFETY: `bytes` has `length` bytes. The kernel writes no more, and stores the number written
    // in `length`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn field_offsets_match_the_c_library() {
        use std::mem::offset_of;
        type Info = libc::tcp_info;
        let mut bytes = [0; 104];
        let mut put = |at: usize, value: u32| {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        put(offset_of!(Info, tcpi_rto), 1);
        put(offset_of!(Info, tcpi_snd_mss), 2);
        put(offset_of!(Info, tcpi_unacked), 3);
        put(offset_of!(Info, tcpi_sacked), 4);
        put(offset_of!(Info, tcpi_lost), 5);
        put(offset_of!(Info, tcpi_last_data_sent), 6);
        put(offset_of!(Info, tcpi_last_data_recv), 7);
        put(offset_of!(Info, tcpi_last_ack_recv), 8);
        put(offset_of!(Info, tcpi_rtt), 9);
        put(offset_of!(Info, tcpi_rttvar), 10);
        put(offset_of!(Info, tcpi_snd_ssthresh), 11);
        put(offset_of!(Info, tcpi_snd_cwnd), 12);
        put(offset_of!(Info, tcpi_total_retrans), 13);
        let bytes_at = [
            (offset_of!(Info, tcpi_state), 14),
            (offset_of!(Info, tcpi_ca_state), 15),
            (offset_of!(Info, tcpi_retransmits), 16),
            (offset_of!(Info, tcpi_backoff), 17),
        ];
        for (at, value) in bytes_at {
            bytes[at] = value;
        }
        let info = TcpInfo::parse(&bytes);
        let read = [
            info.rto_us,
            info.segment_bytes,
            info.unacked_segments,
            info.sacked_segments,
            info.lost_segments,
            info.data_sent_ago_ms,
            info.data_received_ago_ms,
            info.ack_received_ago_ms,
            info.rtt_us,
            info.rtt_variation_us,
            info.slow_start_threshold_segments,
            info.congestion_window_segments,
            info.retransmits,
            info.state,
            info.congestion_state,
            info.unanswered_timeouts,
            info.backoff,
        ];
        let expected: Vec<Option<u64>> = (1..=17).map(Some).collect();
        assert_eq!(read.as_slice(), expected);
    }

    #[test]
    fn sent_and_acknowledged_bytes_match_the_transfer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 10_000]).unwrap();
        server.read_exact(&mut [0; 10_000]).unwrap();
        // The answer acknowledges all bytes before it.
        server.write_all(&[1]).unwrap();
        client.read_exact(&mut [0]).unwrap();
        let info = of(&client).unwrap();
        assert_eq!(info.state, Some(1));
        assert_eq!(info.retransmits, Some(0));
        assert!(info.rtt_us.is_some_and(|rtt| rtt < 1_000_000));
        assert!(info.rto_us.is_some_and(|rto| rto >= 1000));
        // Linux counts the SYN among the bytes acknowledged.
        assert!(
            info.acked_bytes
                .is_none_or(|bytes| (10_000..=10_001).contains(&bytes))
        );
        assert!(info.sent_bytes.is_none_or(|bytes| bytes == 10_000));
        assert!(info.not_sent_bytes.is_none_or(|bytes| bytes == 0));
        assert!(info.timeouts.is_none_or(|timeouts| timeouts == 0));
    }

    #[test]
    fn a_file_has_no_tcp() {
        assert!(of(std::io::stdin()).is_err());
    }
}
