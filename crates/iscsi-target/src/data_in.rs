//! Reads: what the storage is asked, and Data-In, which cuts a command's data into PDUs. Its status, always GOOD, travels with the last of them (RFC 7143 section 11.4).

use hakaru_scsi_device::{Io, IoId, IoOp, Key, LogicalUnit};
use hakaru_wire::iscsi::{self, DataInStatus, Itt, Lun, Residual, TargetNumbers, Ttt};
use hakaru_wire::scsi::Status;

use crate::connection::Connection;

use crate::task::{Stage, Task};

/// What is said of the data of one command.
pub(crate) struct DataIn {
    pub(crate) itt: Itt,
    /// Bytes to send, at least 1.
    pub(crate) length_bytes: u32,
    pub(crate) residual: Residual,
}

impl DataIn {
    /// Sends a range of an LU in place. PDUs end on block boundaries, so that no PDU header stands inside a block.
    pub(crate) fn send_in_place(
        &self,
        on: &mut Connection,
        lu: u8,
        offset_bytes: u64,
        block_bytes: u32,
    ) {
        self.cut(on, block_bytes, |on, start, length, _| {
            on.send_lu_part(lu, offset_bytes + u64::from(start), length)
        });
    }

    /// Sends a buffer without copying it.
    pub(crate) fn send_buffer(&self, on: &mut Connection, buffer: Vec<u8>) {
        on.transmit.adopt_buffer(buffer);
        self.cut(on, 4, Connection::send_buffer_part);
    }

    /// Sends a copy.
    pub(crate) fn send_copy(&self, on: &mut Connection, data: &[u8]) {
        self.cut(on, 4, |on, start, length, _| {
            on.send_data(&data[start as usize..][..length as usize])
        });
    }

    /// Queues the headers, and has `send` queue each data segment: `(start, length, last)`. Segments are multiples of `unit` bytes, except
    /// the last.
    fn cut(
        &self,
        on: &mut Connection,
        unit: u32,
        mut send: impl FnMut(&mut Connection, u32, u32, bool),
    ) {
        let Some(session) = on.session() else { return };
        let parameters = session.parameters;
        let whole_max = parameters
            .max_burst_length
            .min(parameters.peer_max_recv_data_segment_length);
        let (burst_max, segment_max) = if self.length_bytes <= whole_max {
            // One PDU, as for most reads: nothing is to be cut.
            (whole_max, whole_max)
        } else {
            let burst_max = (parameters.max_burst_length / unit * unit).max(unit);
            let segment_max = parameters.peer_max_recv_data_segment_length / unit * unit;
            (burst_max, segment_max.clamp(unit, burst_max))
        };
        let (mut start, mut burst_left, mut data_sn) = (0, burst_max, 0);
        loop {
            let length = (self.length_bytes - start).min(segment_max).min(burst_left);
            let last = start + length == self.length_bytes;
            burst_left -= length;
            let pdu = self.pdu(on, start, length, data_sn, last, burst_left == 0);
            let mut header = [0; 48];
            pdu.emit(&mut header);
            on.send_header(&header);
            send(on, start, length, last);
            if last {
                return;
            }
            start += length;
            data_sn += 1;
            if burst_left == 0 {
                burst_left = burst_max;
            }
        }
    }

    #[inline]
    fn pdu(
        &self,
        on: &mut Connection,
        start: u32,
        length: u32,
        data_sn: u32,
        last: bool,
        burst_ends: bool,
    ) -> iscsi::DataIn {
        iscsi::DataIn {
            is_final: last || burst_ends,
            acknowledge: false,
            status: last.then_some(DataInStatus {
                status: Status::GOOD.0,
                residual: self.residual,
            }),
            lun: Lun::default(),
            itt: self.itt,
            ttt: Ttt::RESERVED,
            // StatSN is reserved where there is no status.
            numbers: if last {
                on.status_numbers()
            } else {
                TargetNumbers {
                    stat_sn: iscsi::StatSn(0),
                    ..on.numbers()
                }
            },
            data_sn,
            buffer_offset: start,
            data_segment_length: length,
        }
    }
}

/// What the storage is asked for a task that reads.
#[inline]
pub(crate) fn ask_read(
    on: &mut Connection,
    unit: &LogicalUnit,
    key: Key,
    task: &mut Task,
    (offset_bytes, length_bytes): (u64, u32),
) -> Io {
    task.stage = Stage::Io;
    // Only as much as will be sent, in whole blocks.
    let length_bytes = if task.expected_bytes < length_bytes {
        task.expected_bytes.next_multiple_of(unit.block_bytes)
    } else {
        length_bytes
    };
    let in_place = unit.in_place && on.sends_in_place(unit.block_bytes);
    if !in_place && let Some(session) = on.session_mut() {
        session.copying_bytes += u64::from(length_bytes);
        task.copying_bytes = length_bytes;
    }
    Io {
        id: IoId(key),
        lun: task.lu,
        op: IoOp::Read {
            offset_bytes,
            length_bytes,
            in_place,
        },
    }
}
