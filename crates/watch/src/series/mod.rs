//! The series of a TCP watch as bytes. It is written while the load runs, so writing is cheap; the
//! control plane converts it to Parquet.
//!
//! A file is one line of JSON, then blocks. The line names the format and each kind of record with
//! its columns (name, type, in byte order, without gaps). A block is the kind and the number of its
//! records (`u32` each), then the records. Everything is little-endian. A number with all bits set
//! stands for a missing value. `sN` is text of N bytes, padded with zeros. A file may end in the
//! middle of a block if its writer was killed; the blocks before it are complete.
mod cell;
mod reading;
mod records;

use cell::{Narrow, Small, Text};
use reading::{ReadingRecord, product};
pub use records::{FORMAT, VERSION, header};
use records::{KINDS, LostRecord, ProbeRecord, RetransmitRecord, SocketRecord, StateRecord};

use crate::sock_diag::Socket;
use crate::tcp_info::TcpInfo;
use crate::trace::Probe;

/// Collects records until they are taken as blocks.
pub struct Series {
    /// Encoded records and their number, by kind.
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

    /// Adds a reading that the kernel took at most `within_ns` after `at_ns`. `info`: the socket's
    /// TCP state, with unwrapped counters.
    pub fn add_reading(
        &mut self,
        (at_ns, within_ns): (u64, u32),
        number: u32,
        socket: &Socket,
        info: &TcpInfo,
    ) {
        let record = ReadingRecord::new((at_ns, within_ns), number, socket, info);
        self.add(ReadingRecord::KIND, |out| record.emit(out));
    }

    /// Adds an event of `tcp:tcp_probe`. `segment_bytes`: maximum segment payload of the socket, if
    /// known.
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

    /// Adds a retransmission of a segment.
    pub fn add_retransmit(&mut self, at_ns: u64, number: u32) {
        let record = RetransmitRecord {
            at_ns,
            socket: number,
        };
        self.add(RetransmitRecord::KIND, |out| record.emit(out));
    }

    /// Adds a transition of congestion control to a state.
    pub fn add_state(&mut self, at_ns: u64, number: u32, congestion_state: u8) {
        let record = StateRecord {
            at_ns,
            socket: number,
            congestion_state: Small(Some(congestion_state.into())),
        };
        self.add(StateRecord::KIND, |out| record.emit(out));
    }

    /// Adds a number of events that the kernel lost.
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

    /// Returns the number of bytes that [`Series::take`] would append.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let blocks = self.blocks.iter().filter(|(_, count)| *count > 0);
        blocks.map(|(bytes, _)| 8 + bytes.len()).sum()
    }

    /// Appends the records so far to `out` as blocks, sockets first. Returns the number of records,
    /// not counting sockets.
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

#[cfg(test)]
mod tests {
    use super::cell::ADDRESS;
    use super::*;
    use crate::sock_diag::SocketId;

    fn width(column_type: &str) -> usize {
        match column_type {
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
            at += 8 + columns
                .iter()
                .map(|(_, column_type)| width(column_type))
                .sum::<usize>();
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
            for (column, column_type) in ReadingRecord::COLUMNS {
                if *column == name {
                    return out[at..at + width(column_type)].to_vec();
                }
                at += width(column_type);
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
