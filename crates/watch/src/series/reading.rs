//! The record of a reading by sock_diag.
use super::cell::{Cell, Column, Narrow, Small, record};
use crate::sock_diag::Socket;
use crate::tcp_info::TcpInfo;

// A reading of a socket by sock_diag, which the kernel took at most `within_ns` after `at_ns`.
record!(ReadingRecord = 2 {
    at_ns: u64,
    within_ns: u32,
    socket: u32,
    state: Small,
    congestion_state: Small,
    unanswered_timeouts: Small,
    backoff: Small,
    app_limited: Small,
    congestion_window_segments: Narrow,
    congestion_window_bytes: Option<u64>,
    slow_start_threshold_segments: Narrow,
    slow_start_threshold_bytes: Option<u64>,
    segment_bytes: Narrow,
    rtt_us: Narrow,
    rtt_variation_us: Narrow,
    rtt_us_min: Narrow,
    rto_us: Narrow,
    unacked_segments: Narrow,
    unacked_bytes: Narrow,
    not_sent_bytes: Narrow,
    sacked_segments: Narrow,
    lost_segments: Narrow,
    retransmits: Narrow,
    timeouts: Option<u64>,
    timeout_recoveries: Option<u64>,
    timeout_wait_ns: Option<u64>,
    sent_bytes: Option<u64>,
    acked_bytes: Option<u64>,
    received_bytes: Option<u64>,
    retransmitted_bytes: Option<u64>,
    segments_out: Narrow,
    segments_in: Narrow,
    out_of_order_segments: Narrow,
    ecn_echoes: Narrow,
    delivery_bytes_per_s: Option<u64>,
    pacing_bytes_per_s: Option<u64>,
    peer_window_bytes: Narrow,
    receive_window_bytes: Narrow,
    send_queue_bytes: Narrow,
    send_memory_bytes: Narrow,
    send_buffer_bytes: Narrow,
    receive_queue_bytes: Narrow,
    receive_memory_bytes: Narrow,
    receive_buffer_bytes: Narrow,
    drops: Narrow,
    busy_ns: Option<u64>,
    receive_window_limited_ns: Option<u64>,
    send_buffer_limited_ns: Option<u64>,
    data_sent_ago_ms: Narrow,
    data_received_ago_ms: Narrow,
    ack_received_ago_ms: Narrow,
});

impl ReadingRecord {
    /// Creates the record of socket `number`. `info`: the socket's TCP state, with unwrapped
    /// counters.
    pub(super) fn new(
        (at_ns, within_ns): (u64, u32),
        number: u32,
        socket: &Socket,
        info: &TcpInfo,
    ) -> ReadingRecord {
        let memory = |field: fn(&crate::sock_diag::Memory) -> u32| {
            Narrow(socket.memory.as_ref().map(|memory| field(memory).into()))
        };
        let send_queue = u64::from(socket.send_queue_bytes);
        // Bytes written by the application and not acknowledged, less those not sent yet.
        let unacked_bytes = info
            .not_sent_bytes
            .and_then(|not_sent| send_queue.checked_sub(not_sent));
        ReadingRecord {
            at_ns,
            within_ns,
            socket: number,
            state: Small(info.state),
            congestion_state: Small(info.congestion_state),
            unanswered_timeouts: Small(info.unanswered_timeouts),
            backoff: Small(info.backoff),
            app_limited: Small(info.app_limited),
            congestion_window_segments: Narrow(info.congestion_window_segments),
            congestion_window_bytes: info.in_bytes(info.congestion_window_segments),
            slow_start_threshold_segments: Narrow(info.slow_start_threshold_segments),
            slow_start_threshold_bytes: info.in_bytes(info.slow_start_threshold_segments),
            segment_bytes: Narrow(info.segment_bytes),
            rtt_us: Narrow(info.rtt_us),
            rtt_variation_us: Narrow(info.rtt_variation_us),
            rtt_us_min: Narrow(info.rtt_us_min),
            rto_us: Narrow(info.rto_us),
            unacked_segments: Narrow(info.unacked_segments),
            unacked_bytes: Narrow(unacked_bytes),
            not_sent_bytes: Narrow(info.not_sent_bytes),
            sacked_segments: Narrow(info.sacked_segments),
            lost_segments: Narrow(info.lost_segments),
            retransmits: Narrow(info.retransmits),
            timeouts: info.timeouts,
            timeout_recoveries: info.timeout_recoveries,
            timeout_wait_ns: product(info.timeout_recovery_ms, Some(1_000_000)),
            sent_bytes: info.sent_bytes,
            acked_bytes: info.acked_bytes,
            received_bytes: info.received_bytes,
            retransmitted_bytes: info.retransmitted_bytes,
            segments_out: Narrow(info.segments_out),
            segments_in: Narrow(info.segments_in),
            out_of_order_segments: Narrow(info.out_of_order_segments),
            ecn_echoes: Narrow(info.delivered_ce),
            delivery_bytes_per_s: info.delivery_bytes_per_s,
            pacing_bytes_per_s: info.pacing_bytes_per_s,
            peer_window_bytes: Narrow(info.peer_window_bytes),
            receive_window_bytes: Narrow(info.receive_window_bytes),
            send_queue_bytes: Narrow(Some(send_queue)),
            send_memory_bytes: memory(|m| m.send_bytes),
            send_buffer_bytes: memory(|m| m.send_limit_bytes),
            receive_queue_bytes: Narrow(Some(socket.receive_queue_bytes.into())),
            receive_memory_bytes: memory(|m| m.receive_bytes),
            receive_buffer_bytes: memory(|m| m.receive_limit_bytes),
            drops: Narrow(socket.memory.and_then(|m| m.drops).map(u64::from)),
            busy_ns: product(info.busy_us, Some(1000)),
            receive_window_limited_ns: product(info.receive_window_limited_us, Some(1000)),
            send_buffer_limited_ns: product(info.send_buffer_limited_us, Some(1000)),
            data_sent_ago_ms: Narrow(info.data_sent_ago_ms),
            data_received_ago_ms: Narrow(info.data_received_ago_ms),
            ack_received_ago_ms: Narrow(info.ack_received_ago_ms),
        }
    }
}

/// Returns the product, if both factors are known and it does not overflow.
pub(super) fn product(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a?.checked_mul(b?)
}
