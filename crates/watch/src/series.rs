//! The series of a TCP watch as bytes. It is written while the load runs, so writing is cheap; the
//! control plane converts it to Parquet.
//!
//! A file is one line of JSON, then blocks. The line names the format and each kind of record with
//! its columns (name, type, in byte order, without gaps). A block is kind and number of records
//! (`u32` each), then the records. Everything is little-endian. A number with all bits set is
//! missing. `sN` is text of N bytes, padded with zeros. A file may end in the middle of a block if
//! its writer was killed; the blocks before it are whole.
use std::fmt::Write as _;

use crate::sock_diag::Socket;
use crate::tcp_info::TcpInfo;
use crate::trace::Probe;

/// First words of the header, and the version of the format.
pub const FORMAT: &str = "hakaru tcp series";
/// Version of the format.
pub const VERSION: u32 = 1;

/// Longest text of an address: `[` IPv6 `]:65535`.
const ADDRESS: usize = 48;
/// `TCP_CA_NAME_MAX` of the kernel.
const NAME: usize = 16;

/// A column's value as bytes.
trait Cell {
    const TYPE: &'static str;
    fn emit(&self, out: &mut Vec<u8>);
}

impl Cell for u64 {
    const TYPE: &'static str = "u64";
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

impl Cell for u32 {
    const TYPE: &'static str = "u32";
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

impl Cell for Option<u64> {
    const TYPE: &'static str = "u64";
    fn emit(&self, out: &mut Vec<u8>) {
        self.unwrap_or(u64::MAX).emit(out);
    }
}

/// A number that the kernel keeps in 32 bits or less.
struct Narrow(Option<u64>);

impl Cell for Narrow {
    const TYPE: &'static str = "u32";
    fn emit(&self, out: &mut Vec<u8>) {
        let narrow = self.0.and_then(|wide| u32::try_from(wide).ok());
        narrow.unwrap_or(u32::MAX).emit(out);
    }
}

/// A number below 255.
struct Small(Option<u64>);

impl Cell for Small {
    const TYPE: &'static str = "u8";
    fn emit(&self, out: &mut Vec<u8>) {
        let small = self.0.and_then(|wide| u8::try_from(wide).ok());
        out.push(small.unwrap_or(u8::MAX));
    }
}

struct Text<const N: usize>(String);

impl<const N: usize> Cell for Text<N> {
    const TYPE: &'static str = match N {
        ADDRESS => "s48",
        NAME => "s16",
        _ => panic!("a text of a length that has no type"),
    };
    fn emit(&self, out: &mut Vec<u8>) {
        let text = &self.0.as_bytes()[..self.0.len().min(N)];
        out.extend_from_slice(text);
        out.resize(out.len() + N - text.len(), 0);
    }
}

/// Defines a kind of record: its number, and its columns in order.
macro_rules! record {
    ($name:ident = $kind:literal { $($column:ident: $type:ty,)* }) => {
        struct $name { $($column: $type,)* }
        impl $name {
            const KIND: u32 = $kind;
            const COLUMNS: &'static [Column] =
                &[$((stringify!($column), <$type as Cell>::TYPE),)*];
            fn emit(&self, out: &mut Vec<u8>) {
                $(self.$column.emit(out);)*
            }
        }
    };
}

// A socket. Written before the first record that refers to its number, and again when its
// congestion control changes.
record!(SocketRecord = 1 {
    socket: u32,
    cookie: u64,
    local: Text<ADDRESS>,
    peer: Text<ADDRESS>,
    congestion_control: Text<NAME>,
});

// A reading of a socket by sock_diag; the kernel took it between `at_ns` and `within_ns` later.
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

// `tcp:tcp_probe`: a segment was received; state of the connection before it.
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

// `tcp:tcp_retransmit_skb`: a segment was sent again.
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

/// Name and type of a column.
type Column = (&'static str, &'static str);

/// Kinds, as the header names them and as the column `source` of the stored series does.
const KINDS: [(&str, u32, &[Column]); 6] = [
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

/// The line that a file begins with, its end included.
#[must_use]
pub fn header() -> String {
    let mut text =
        format!(r#"{{"format":"{FORMAT}","version":{VERSION},"byte_order":"little","kinds":{{"#);
    for (i, (name, kind, columns)) in KINDS.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(text, r#"{comma}"{name}":{{"kind":{kind},"columns":["#);
        for (j, (column, of)) in columns.iter().enumerate() {
            let comma = if j == 0 { "" } else { "," };
            let _ = write!(text, r#"{comma}["{column}","{of}"]"#);
        }
        text.push_str("]}");
    }
    text.push_str("}}\n");
    text
}

/// Collects records until they are taken as blocks.
pub struct Series {
    /// Of each kind: its records so far and how many.
    blocks: [(Vec<u8>, u32); KINDS.len()],
}

impl Default for Series {
    fn default() -> Series {
        Series {
            blocks: std::array::from_fn(|_| (Vec::new(), 0)),
        }
    }
}

impl Series {
    /// Records the socket under `number`.
    pub fn add_socket(&mut self, number: u32, socket: &Socket) {
        let name = socket.congestion_control.clone().unwrap_or_default();
        let record = SocketRecord {
            socket: number,
            cookie: socket.id.cookie(),
            local: Text(socket.id.local().to_string()),
            peer: Text(socket.id.peer().to_string()),
            congestion_control: Text(name),
        };
        self.add(SocketRecord::KIND, |out| record.emit(out));
    }

    /// Adds a reading that the kernel took between `at_ns` and `within_ns` later. `info`: the
    /// socket's, with unwrapped counters.
    pub fn add_reading(
        &mut self,
        (at_ns, within_ns): (u64, u32),
        number: u32,
        socket: &Socket,
        info: &TcpInfo,
    ) {
        let record = reading((at_ns, within_ns), number, socket, info);
        self.add(ReadingRecord::KIND, |out| record.emit(out));
    }

    /// An event of `tcp:tcp_probe`. `segment_bytes`: the socket's, where it is known.
    pub fn add_probe(
        &mut self,
        at_ns: u64,
        number: u32,
        probe: &Probe,
        segment_bytes: Option<u64>,
    ) {
        let window = probe.congestion_window_segments;
        let record = ProbeRecord {
            at_ns,
            socket: number,
            congestion_window_segments: Narrow(window),
            congestion_window_bytes: product(window, segment_bytes),
            current_threshold_segments: Narrow(probe.current_threshold_segments),
            rtt_us: Narrow(probe.rtt_us),
            unacked_bytes: Narrow(probe.unacked_bytes),
            peer_window_bytes: Narrow(probe.peer_window_bytes),
            receive_window_bytes: Narrow(probe.receive_window_bytes),
            data_bytes: Narrow(probe.data_bytes),
        };
        self.add(ProbeRecord::KIND, |out| record.emit(out));
    }

    /// A segment was sent again.
    pub fn add_retransmit(&mut self, at_ns: u64, number: u32) {
        let record = RetransmitRecord {
            at_ns,
            socket: number,
        };
        self.add(RetransmitRecord::KIND, |out| record.emit(out));
    }

    /// Congestion control entered a state.
    pub fn add_state(&mut self, at_ns: u64, number: u32, congestion_state: u8) {
        let record = StateRecord {
            at_ns,
            socket: number,
            congestion_state: Small(Some(congestion_state.into())),
        };
        self.add(StateRecord::KIND, |out| record.emit(out));
    }

    /// Events were lost.
    pub fn add_lost(&mut self, at_ns: u64, events: u64) {
        let record = LostRecord {
            at_ns,
            lost_events: Some(events),
        };
        self.add(LostRecord::KIND, |out| record.emit(out));
    }

    fn add(&mut self, kind: u32, emit: impl FnOnce(&mut Vec<u8>)) {
        let (bytes, count) = &mut self.blocks[kind as usize - 1];
        emit(bytes);
        *count += 1;
    }

    /// Returns the bytes that [`Series::take`] would append.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_blocks = self.blocks.iter().filter(|(_, count)| *count > 0);
        of_blocks.map(|(bytes, _)| 8 + bytes.len()).sum()
    }

    /// Appends the records so far to `out` as blocks, sockets first. Returns the number of records
    /// without sockets.
    pub fn take(&mut self, out: &mut Vec<u8>) -> u64 {
        let mut records = 0;
        for (i, (bytes, count)) in self.blocks.iter_mut().enumerate() {
            if *count == 0 {
                continue;
            }
            let kind = i as u32 + 1;
            out.extend_from_slice(&kind.to_le_bytes());
            out.extend_from_slice(&count.to_le_bytes());
            out.extend_from_slice(bytes);
            if kind != SocketRecord::KIND {
                records += u64::from(*count);
            }
            bytes.clear();
            *count = 0;
        }
        records
    }
}

fn reading(
    (at_ns, within_ns): (u64, u32),
    number: u32,
    socket: &Socket,
    info: &TcpInfo,
) -> ReadingRecord {
    let memory = |field: fn(&crate::sock_diag::Memory) -> u32| {
        Narrow(socket.memory.as_ref().map(|memory| field(memory).into()))
    };
    let send_queue = u64::from(socket.send_queue_bytes);
    // Bytes written and not acknowledged, without those not sent yet.
    let unacked_bytes = info
        .not_sent_bytes
        .and_then(|waiting| send_queue.checked_sub(waiting));
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

fn product(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a?.checked_mul(b?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sock_diag::SocketId;

    fn width(of: &str) -> usize {
        match of {
            "u8" => 1,
            "u32" => 4,
            "u64" => 8,
            text => text.strip_prefix('s').unwrap().parse().unwrap(),
        }
    }

    fn socket() -> Socket {
        let local = "[fd00:1111:2222:3333:4444:5555:6666:7777]:32600"
            .parse()
            .unwrap();
        Socket {
            id: SocketId::new(local, "[::1]:40000".parse().unwrap(), 0, 9),
            receive_queue_bytes: 0,
            send_queue_bytes: 5000,
            info: TcpInfo {
                not_sent_bytes: Some(2000),
                ..TcpInfo::default()
            },
            memory: None,
            congestion_control: Some("cubic".to_owned()),
        }
    }

    #[test]
    fn records_are_as_long_as_their_columns_say() {
        let mut series = Series::default();
        let socket = socket();
        series.add_socket(7, &socket);
        series.add_reading((1, 2), 7, &socket, &socket.info);
        series.add_probe(1, 7, &Probe::default(), None);
        series.add_retransmit(1, 7);
        series.add_state(1, 7, 4);
        series.add_lost(1, 3);
        let expected = series.bytes();
        let mut out = Vec::new();
        assert_eq!(series.take(&mut out), 5);
        assert_eq!(out.len(), expected);
        let mut at = 0;
        for (_, kind, columns) in KINDS {
            assert_eq!(out[at..at + 4], kind.to_le_bytes());
            assert_eq!(out[at + 4..at + 8], 1_u32.to_le_bytes());
            at += 8 + columns.iter().map(|(_, of)| width(of)).sum::<usize>();
        }
        assert_eq!(at, out.len());
        assert_eq!(series.bytes(), 0, "taken once");
    }

    #[test]
    fn a_missing_number_has_all_bits_set_and_is_not_zero() {
        let mut series = Series::default();
        let socket = socket();
        series.add_reading((1, 2), 7, &socket, &socket.info);
        let mut out = Vec::new();
        series.take(&mut out);
        let column = |name: &str| {
            let mut at = 8;
            for (column, of) in ReadingRecord::COLUMNS {
                if *column == name {
                    return out[at..at + width(of)].to_vec();
                }
                at += width(of);
            }
            panic!("{name}");
        };
        assert_eq!(column("timeouts"), [0xff; 8]);
        assert_eq!(column("drops"), [0xff; 4]);
        assert_eq!(column("state"), [0xff]);
        assert_eq!(column("unacked_bytes"), 3000_u32.to_le_bytes());
    }

    #[test]
    fn address_of_any_length_fits() {
        let longest = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
        assert!(longest.len() <= ADDRESS);
    }

    #[test]
    fn header_is_one_line() {
        let header = header();
        assert_eq!(header.matches('\n').count(), 1);
        assert!(header.ends_with("}}\n"));
        assert!(
            header.contains(
                r#""retransmit":{"kind":4,"columns":[["at_ns","u64"],["socket","u32"]]}"#
            )
        );
    }
}
