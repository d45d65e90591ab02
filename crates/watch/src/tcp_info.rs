//! `struct tcp_info`: the state of a connection in the kernel's TCP, as `getsockopt(TCP_INFO)` and
//! `sock_diag` return it.
//!
//! Kernel versions have only ever appended to the structure, and the kernel returns its length.
//! Fields are therefore read by offset (include/uapi/linux/tcp.h), and fields beyond the end are
//! `None`, never 0.

/// Value of an unset slow-start threshold (`TCP_INFINITE_SSTHRESH`).
const NO_THRESHOLD: u64 = 0x7fff_ffff;

/// State and counters of one connection. Counters are cumulative from its start; fields that are
/// states are marked "now".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// State of the connection now, as [`crate::tcp_state::TcpState`] numbers it.
    pub state: Option<u64>,
    /// State of congestion control now, as [`crate::tcp_state::CongestionState`] numbers it.
    pub congestion_state: Option<u64>,
    /// Firings of the retransmission timer since the last acknowledgement, now.
    pub unanswered_timeouts: Option<u64>,
    /// Doublings of the retransmission timeout now.
    pub backoff: Option<u64>,
    /// 1 if the last delivery rate was limited by the application's data, not by the path (Linux
    /// 4.9).
    pub app_limited: Option<u64>,
    /// Retransmission timeout now, µs.
    pub rto_us: Option<u64>,
    /// Maximum payload of a sent segment, bytes.
    pub segment_bytes: Option<u64>,
    /// Segments sent and not yet acknowledged now.
    pub unacked_segments: Option<u64>,
    /// Unacknowledged segments that the peer has received out of order (SACK), now.
    pub sacked_segments: Option<u64>,
    /// Unacknowledged segments assumed lost, now.
    pub lost_segments: Option<u64>,
    /// Time from the last data sent until now, ms.
    pub data_sent_ago_ms: Option<u64>,
    /// Time from the last data received until now, ms.
    pub data_received_ago_ms: Option<u64>,
    /// Time from the last acknowledgement received until now, ms.
    pub ack_received_ago_ms: Option<u64>,
    /// Smoothed round-trip time now, µs.
    pub rtt_us: Option<u64>,
    /// Mean deviation of the round-trip time now, µs.
    pub rtt_variation_us: Option<u64>,
    /// Slow-start threshold now, segments. `None` also if it is not set, as before the first
    /// congestion event.
    pub slow_start_threshold_segments: Option<u64>,
    /// Congestion window now, segments.
    pub congestion_window_segments: Option<u64>,
    /// Segments retransmitted.
    pub retransmits: Option<u64>,
    /// Pacing rate now, bytes/s (Linux 3.15). `None` also if the rate is not limited.
    pub pacing_bytes_per_s: Option<u64>,
    /// Bytes acknowledged by the peer (Linux 4.1).
    pub acked_bytes: Option<u64>,
    /// Bytes received in order (Linux 4.1).
    pub received_bytes: Option<u64>,
    /// Segments sent, including those without data (Linux 4.2).
    pub segments_out: Option<u64>,
    /// Segments received (Linux 4.2).
    pub segments_in: Option<u64>,
    /// Bytes in the send buffer that were never sent, now (Linux 4.6).
    pub not_sent_bytes: Option<u64>,
    /// Recent minimum of the round-trip time (Linux 4.6), µs.
    pub rtt_us_min: Option<u64>,
    /// Latest measured delivery rate, bytes/s (Linux 4.9).
    pub delivery_bytes_per_s: Option<u64>,
    /// Time with data to send (Linux 4.10), µs. Includes the times of the two fields below.
    pub busy_us: Option<u64>,
    /// Time stalled by the peer's receive window, µs.
    pub receive_window_limited_us: Option<u64>,
    /// Time stalled by the local send buffer, µs.
    pub send_buffer_limited_us: Option<u64>,
    /// Delivered segments that were acknowledged with an ECN echo (Linux 4.18).
    pub delivered_ce: Option<u64>,
    /// Bytes of payload sent, including retransmissions (Linux 4.19).
    pub sent_bytes: Option<u64>,
    /// Bytes retransmitted (Linux 4.19).
    pub retransmitted_bytes: Option<u64>,
    /// Segments received out of order (Linux 5.4).
    pub out_of_order_segments: Option<u64>,
    /// Window that the peer advertises now, bytes (Linux 5.4).
    pub peer_window_bytes: Option<u64>,
    /// Window advertised to the peer now, bytes (Linux 6.2).
    pub receive_window_bytes: Option<u64>,
    /// Firings of the retransmission timer (Linux 6.7). The kernel counts in 16 bits; see
    /// [`Unwrapped`].
    pub timeouts: Option<u64>,
    /// Recoveries started by the retransmission timer (Linux 6.7), each of one or more firings. 16
    /// bits.
    pub timeout_recoveries: Option<u64>,
    /// Time from the first firing of each recovery to its end (Linux 6.7), ms. The silence before
    /// that firing is not included.
    pub timeout_recovery_ms: Option<u64>,
}

impl TcpInfo {
    /// Parses the structure. `bytes` is the part that the kernel filled; older kernels fill less.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> TcpInfo {
        let u8_at = |at| number(bytes, at, 1);
        let u16_at = |at| number(bytes, at, 2);
        let u32_at = |at| number(bytes, at, 4);
        let u64_at = |at| number(bytes, at, 8);
        TcpInfo {
            state: u8_at(0),
            congestion_state: u8_at(1),
            unanswered_timeouts: u8_at(2),
            backoff: u8_at(4),
            app_limited: u8_at(7).map(|flags| u64::from(app_limited(flags))),
            rto_us: u32_at(8),
            segment_bytes: u32_at(16),
            unacked_segments: u32_at(24),
            sacked_segments: u32_at(28),
            lost_segments: u32_at(32),
            data_sent_ago_ms: u32_at(44),
            data_received_ago_ms: u32_at(52),
            ack_received_ago_ms: u32_at(56),
            rtt_us: u32_at(68),
            rtt_variation_us: u32_at(72),
            slow_start_threshold_segments: u32_at(76).filter(|t| *t < NO_THRESHOLD),
            congestion_window_segments: u32_at(80),
            retransmits: u32_at(100),
            pacing_bytes_per_s: u64_at(104).filter(|rate| *rate != u64::MAX),
            acked_bytes: u64_at(120),
            received_bytes: u64_at(128),
            segments_out: u32_at(136),
            segments_in: u32_at(140),
            not_sent_bytes: u32_at(144),
            rtt_us_min: u32_at(148).filter(|rtt| *rtt != u64::from(u32::MAX)),
            delivery_bytes_per_s: u64_at(160),
            busy_us: u64_at(168),
            receive_window_limited_us: u64_at(176),
            send_buffer_limited_us: u64_at(184),
            delivered_ce: u32_at(196),
            sent_bytes: u64_at(200),
            retransmitted_bytes: u64_at(208),
            out_of_order_segments: u32_at(224),
            peer_window_bytes: u32_at(228),
            receive_window_bytes: u32_at(232),
            timeouts: u16_at(240),
            timeout_recoveries: u16_at(242),
            timeout_recovery_ms: u32_at(244),
        }
    }

    /// Converts a number of segments to bytes, if both numbers are known.
    #[must_use]
    pub fn in_bytes(&self, segments: Option<u64>) -> Option<u64> {
        Some(segments?.saturating_mul(self.segment_bytes?))
    }
}

/// Reads the first of the bit fields that share a byte; its bit depends on the machine's byte
/// order.
fn app_limited(flags: u64) -> bool {
    let bit = if cfg!(target_endian = "little") { 0 } else { 7 };
    flags >> bit & 1 == 1
}

/// Returns `length` bytes from `at` in the machine's order, if all of them exist.
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

/// Unwraps the counters that the kernel keeps in 16 bits. They restart at 0 after 65 535; the
/// unwrapped values do not.
///
/// Correct as long as fewer than 65 536 events happen between two readings; the retransmission
/// timer fires at most once a millisecond. If another connection replaces the first (its bytes sent
/// are fewer), counting restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwrapped {
    sent_bytes: u64,
    timeouts: UnwrappedCounter,
    recoveries: UnwrappedCounter,
}

impl Unwrapped {
    /// Returns the reading with its 16-bit counters unwrapped. Call it with the readings of one
    /// connection, in order.
    pub fn follow(&mut self, mut info: TcpInfo) -> TcpInfo {
        let sent_bytes = info.sent_bytes.unwrap_or(self.sent_bytes);
        if sent_bytes < self.sent_bytes {
            *self = Unwrapped::default();
        }
        self.sent_bytes = sent_bytes;
        info.timeouts = info.timeouts.map(|n| self.timeouts.follow(n as u16));
        info.timeout_recoveries = info
            .timeout_recoveries
            .map(|n| self.recoveries.follow(n as u16));
        info
    }
}

/// One unwrapped counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnwrappedCounter(u64);

impl UnwrappedCounter {
    fn follow(&mut self, reading: u16) -> u64 {
        self.0 += u64::from(reading.wrapping_sub(self.0 as u16));
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_an_older_kernel_lacks_are_none() {
        // Linux 4.18 returned 200 bytes; a truncated field is missing too.
        let bytes: Vec<u8> = (0..200).map(|i| u8::from(i == 196) * 7).collect();
        let info = TcpInfo::parse(&bytes);
        assert_eq!(info.delivered_ce, Some(7));
        assert_eq!(info.sent_bytes, None);
        assert_eq!(TcpInfo::parse(&bytes[..199]).delivered_ce, None);
        assert_eq!(TcpInfo::parse(&[]), TcpInfo::default());
    }

    #[test]
    fn unlimited_values_are_none() {
        let mut bytes = [0; 248];
        bytes[76..80].copy_from_slice(&0x7fff_ffff_u32.to_ne_bytes());
        bytes[104..112].copy_from_slice(&u64::MAX.to_ne_bytes());
        bytes[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        let info = TcpInfo::parse(&bytes);
        assert_eq!(info.slow_start_threshold_segments, None);
        assert_eq!(info.pacing_bytes_per_s, None);
        assert_eq!(info.rtt_us_min, None);
        bytes[76..80].copy_from_slice(&17_u32.to_ne_bytes());
        let info = TcpInfo::parse(&bytes);
        assert_eq!(info.slow_start_threshold_segments, Some(17));
    }

    #[test]
    fn sixteen_bit_counters_continue_after_they_wrap() {
        let mut unwrapped = Unwrapped::default();
        let mut read = |timeouts: u16, recoveries: u16| {
            let info = unwrapped.follow(TcpInfo {
                timeouts: Some(timeouts.into()),
                timeout_recoveries: Some(recoveries.into()),
                ..TcpInfo::default()
            });
            (info.timeouts, info.timeout_recoveries)
        };
        assert_eq!(read(65_000, 7), (Some(65_000), Some(7)));
        assert_eq!(read(65_535, 7), (Some(65_535), Some(7)));
        assert_eq!(read(3, 8), (Some(65_539), Some(8)));
        assert_eq!(read(3, 8), (Some(65_539), Some(8)));
        assert_eq!(read(2, 8), (Some(2 * 65_536 + 2), Some(8)));
    }

    #[test]
    fn counting_restarts_if_another_connection_replaces_the_first() {
        let mut unwrapped = Unwrapped::default();
        let mut read = |sent_bytes, timeouts| {
            let info = TcpInfo {
                sent_bytes: Some(sent_bytes),
                timeouts: Some(timeouts),
                ..TcpInfo::default()
            };
            unwrapped.follow(info).timeouts
        };
        assert_eq!(read(1000, 5), Some(5));
        assert_eq!(read(10, 0), Some(0));
        assert_eq!(read(20, 1), Some(1));
    }

    #[test]
    fn counters_that_the_kernel_lacks_stay_none() {
        let mut unwrapped = Unwrapped::default();
        assert_eq!(unwrapped.follow(TcpInfo::default()), TcpInfo::default());
    }
}
