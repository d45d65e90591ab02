//! The kernel's TCP counters of an engine's own connections, summed per group of connections.
use std::collections::BTreeMap;

use hakaru_runtime::net::Socket;
use hakaru_runtime::net::tcp_info::{self, TcpInfo, Unwrapped};

/// A counter of the contract: name, field of `TCP_INFO`, and the factor to the contract's unit.
type Field = (&'static str, fn(&TcpInfo) -> Option<u64>, u64);

/// Counters that are summed over the connections.
const SUMS: [Field; 17] = [
    ("retransmits", |i| i.retransmits, 1),
    ("retransmitted_bytes", |i| i.retransmitted_bytes, 1),
    ("timeouts", |i| i.timeouts, 1),
    ("timeout_recoveries", |i| i.timeout_recoveries, 1),
    ("timeout_wait_ns", |i| i.timeout_recovery_ms, 1_000_000),
    ("busy_ns", |i| i.busy_us, 1000),
    (
        "receive_window_limited_ns",
        |i| i.receive_window_limited_us,
        1000,
    ),
    ("send_buffer_limited_ns", |i| i.send_buffer_limited_us, 1000),
    ("sent_bytes", |i| i.sent_bytes, 1),
    ("acked_bytes", |i| i.acked_bytes, 1),
    ("ecn_echoes", |i| i.delivered_ce, 1),
    (
        "congestion_window_bytes_now",
        |i| Some(i.congestion_window_segments? * i.segment_bytes?),
        1,
    ),
    (
        "slow_start_threshold_bytes_now",
        |i| Some(i.slow_start_threshold_segments? * i.segment_bytes?),
        1,
    ),
    (
        "unacked_bytes_now",
        |i| Some(i.unacked_segments? * i.segment_bytes?),
        1,
    ),
    ("not_sent_bytes_now", |i| i.not_sent_bytes, 1),
    ("pacing_bytes_per_s_now", |i| i.pacing_bytes_per_s, 1),
    ("delivery_bytes_per_s_now", |i| i.delivery_bytes_per_s, 1),
];

/// Counters that are reported as the maximum over the connections.
const LARGEST: [Field; 2] = [
    ("rtt_us_now", |i| i.rtt_us, 1),
    ("rto_us_now", |i| i.rto_us, 1),
];

/// Last `TCP_INFO` of each connection of an engine. A closed connection keeps its last values.
#[derive(Debug, Default)]
pub struct TcpLog(Vec<(TcpInfo, Unwrapped)>);

impl TcpLog {
    /// Reads and stores the `TCP_INFO` of connection `index`.
    pub fn read(&mut self, index: usize, socket: &Socket) {
        if self.0.len() <= index {
            self.0.resize_with(index + 1, Default::default);
        }
        let (last, unwrapped) = &mut self.0[index];
        if let Ok(info) = tcp_info::of(socket) {
            *last = unwrapped.follow(info);
        }
    }

    /// Clears the values of a closed connection whose index may be reused.
    pub fn forget(&mut self, index: usize) {
        if let Some(entry) = self.0.get_mut(index) {
            *entry = Default::default();
        }
    }

    /// Returns the last values of the connections in `indices`.
    pub fn of(&self, indices: std::ops::Range<usize>) -> impl Iterator<Item = &TcpInfo> + Clone {
        let known = self.0.len();
        self.0[indices.start.min(known)..indices.end.min(known)]
            .iter()
            .map(|(info, _)| info)
    }
}

/// Returns the counters of a group of connections. Counters that the kernel does not report are
/// omitted.
pub fn counters<'a>(streams: impl Iterator<Item = &'a TcpInfo> + Clone) -> BTreeMap<String, f64> {
    let mut counters = BTreeMap::new();
    for (name, field, factor) in SUMS {
        let values = streams.clone().filter_map(field);
        if let Some(sum) = values.reduce(|a, b| a + b) {
            counters.insert(name.to_owned(), (sum * factor) as f64);
        }
    }
    for (name, field, factor) in LARGEST {
        if let Some(largest) = streams.clone().filter_map(field).max() {
            counters.insert(name.to_owned(), (largest * factor) as f64);
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_summed_and_counters_that_the_kernel_does_not_report_are_omitted() {
        let stream = |rtt_us, acked_bytes| TcpInfo {
            rtt_us: Some(rtt_us),
            acked_bytes: Some(acked_bytes),
            busy_us: Some(7),
            congestion_window_segments: Some(10),
            segment_bytes: Some(1448),
            ..TcpInfo::default()
        };
        let streams = [stream(300, 1000), stream(200, 24)];
        let expected = [
            ("acked_bytes", 1024.0),
            ("busy_ns", 14_000.0),
            ("congestion_window_bytes_now", 28_960.0),
            ("rtt_us_now", 300.0),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(counters(streams.iter()), expected.into());
    }
}
