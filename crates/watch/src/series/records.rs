//! The kinds of records, and the header that describes them.
use std::fmt::Write as _;

use super::cell::{ADDRESS, Cell, Column, NAME, Narrow, Small, Text, record};
use super::reading::ReadingRecord;

/// Name of the format in the header.
pub const FORMAT: &str = "hakaru tcp series";
/// Version of the format.
pub const VERSION: u32 = 1;

// A socket. Written before the first record that refers to its number, and again when its
// congestion control changes.
record!(SocketRecord = 1 {
    socket: u32,
    cookie: u64,
    local: Text<ADDRESS>,
    peer: Text<ADDRESS>,
    congestion_control: Text<NAME>,
});

// `tcp:tcp_probe`: a segment was received. The columns are the state of the connection before it.
record!(ProbeRecord = 3 {
    at_ns: u64,
    socket: u32,
    congestion_window_segments: Narrow,
    congestion_window_bytes: Option<u64>,
    current_threshold_segments: Narrow,
    rtt_us: Narrow,
    unacked_bytes: Narrow,
    peer_window_bytes: Narrow,
    receive_window_bytes: Narrow,
    data_bytes: Narrow,
});

// `tcp:tcp_retransmit_skb`: a segment was retransmitted.
record!(RetransmitRecord = 4 {
    at_ns: u64,
    socket: u32,
});

// `tcp:tcp_cong_state_set`: congestion control entered a state.
record!(StateRecord = 5 {
    at_ns: u64,
    socket: u32,
    congestion_state: Small,
});

// Events that the kernel lost because the ring was full. Their sockets are unknown.
record!(LostRecord = 6 {
    at_ns: u64,
    lost_events: Option<u64>,
});

/// Names, numbers and columns of the kinds. The names are those of the header and of the column
/// `source` of the stored series.
pub(super) const KINDS: [(&str, u32, &[Column]); 6] = [
    ("socket", SocketRecord::KIND, SocketRecord::COLUMNS),
    ("sock_diag", ReadingRecord::KIND, ReadingRecord::COLUMNS),
    ("tcp_probe", ProbeRecord::KIND, ProbeRecord::COLUMNS),
    (
        "retransmit",
        RetransmitRecord::KIND,
        RetransmitRecord::COLUMNS,
    ),
    ("state", StateRecord::KIND, StateRecord::COLUMNS),
    ("lost", LostRecord::KIND, LostRecord::COLUMNS),
];

/// Returns the first line of a file, including its line ending.
#[must_use]
pub fn header() -> String {
    let mut text =
        format!(r#"{{"format":"{FORMAT}","version":{VERSION},"byte_order":"little","kinds":{{"#);
    for (i, (name, kind, columns)) in KINDS.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(text, r#"{comma}"{name}":{{"kind":{kind},"columns":["#);
        for (j, (column, column_type)) in columns.iter().enumerate() {
            let comma = if j == 0 { "" } else { "," };
            let _ = write!(text, r#"{comma}["{column}","{column_type}"]"#);
        }
        text.push_str("]}");
    }
    text.push_str("}}\n");
    text
}
