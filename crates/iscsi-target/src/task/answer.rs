//! The end of a SCSI command: the storage's result becomes data, status and a response.

use hakaru_scsi_device::{IoFailure, IoResult, SenseFormat, Verdict};
use hakaru_send_queue::Key;
use hakaru_wire::iscsi::{
    self, DataInStatus, Itt, Lun, Residual, ScsiResponse, TargetNumbers, Ttt,
};
use hakaru_wire::scsi::{Sense, Status};

use crate::connection::Active;
use crate::connection::link::Link;
use crate::shared::Core;
use crate::task::{Access, Ended};

/// Removes a task and frees everything it holds. `conn` is its connection, if that still has a
/// session.
pub(crate) fn remove_task(
    conn: Option<&mut Active<'_>>,
    core: &mut Core,
    key: Key,
) -> Option<Ended> {
    let buffers = &mut core.buffers;
    let ended = core.tasks.discard(key, |task| {
        task.release(buffers);
        if let Some(conn) = conn {
            conn.unregister(task);
        }
        task.ended()
    });
    if !core.ranges.is_idle() {
        core.ranges.release(key);
    }
    ended
}

/// Answers a task of one access with the storage's result.
pub(crate) fn answer(conn: &mut Active<'_>, core: &mut Core, key: Key, result: IoResult) {
    let Some(task) = remove_task(Some(conn), core, key) else {
        return;
    };
    let available = task.access.bytes();
    let residual = Residual::between(task.expected_bytes, available.into());
    let moved = task.expected_bytes.min(available);
    let data_in = DataIn {
        itt: task.itt,
        length_bytes: moved,
        residual,
        with_status: true,
    };
    let counters = &mut core.counters.lus[usize::from(task.lu)];
    match (task.access, result) {
        (Access::Read { offset_bytes, .. }, IoResult::ReadInPlace) => {
            let unit = core.device.units.get(task.lu);
            let block_bytes = unit.map_or(512, |unit| unit.block_bytes);
            data_in.send_in_place(conn, task.lu, offset_bytes, block_bytes);
            counters.read(moved);
        }
        (Access::Read { .. }, IoResult::ReadData(data)) if data.len() >= moved as usize => {
            data_in.send_buffer(conn, data);
            counters.read(moved);
        }
        (Access::Write { .. }, IoResult::Written(data)) => {
            counters.written(data.len() as u32);
            core.buffers.give(data);
            send_good(conn.link, task.itt, residual, task.r2ts);
        }
        (Access::Flush | Access::Parameters { .. }, IoResult::Flushed) => {
            send_good(conn.link, task.itt, residual, task.r2ts);
        }
        (_, result) => {
            let sense = match result {
                IoResult::Failed(failure) => failure_sense(failure),
                _ => Sense::INTERNAL_TARGET_FAILURE,
            };
            send_verdict(conn.link, core, &task, Verdict::Check(sense));
            core.buffers.give_back(result);
        }
    }
}

/// Ends a task that the storage does not execute.
pub(crate) fn finish(conn: &mut Active<'_>, core: &mut Core, key: Key, verdict: Verdict) {
    if let Some(task) = remove_task(Some(conn), core, key) {
        send_verdict(conn.link, core, &task, verdict);
    }
}

/// Returns the sense data of a failed access.
pub(crate) fn failure_sense(failure: IoFailure) -> Sense {
    match failure {
        IoFailure::Read => Sense::UNRECOVERED_READ_ERROR,
        IoFailure::Write => Sense::WRITE_ERROR,
        IoFailure::Space => Sense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT,
        IoFailure::Protected => Sense::WRITE_PROTECTED,
        IoFailure::Internal => Sense::INTERNAL_TARGET_FAILURE,
    }
}

/// Queues the SCSI Response of a removed task.
fn send_verdict(link: &mut Link, core: &Core, task: &Ended, verdict: Verdict) {
    let good = verdict == Verdict::Status(Status::GOOD);
    let available = if good { task.access.bytes() } else { 0 };
    let residual = Residual::between(task.expected_bytes, available.into());
    let format = core.device.units.sense_format(task.lun);
    send_response(link, task.itt, verdict, format, residual, task.r2ts);
}

/// Queues a SCSI Response with status GOOD.
pub(crate) fn send_good(link: &mut Link, itt: Itt, residual: Residual, r2ts: u32) {
    let good = Verdict::Status(Status::GOOD);
    send_response(link, itt, good, SenseFormat::Fixed, residual, r2ts);
}

/// Queues a SCSI Response. `r2ts` is the number of R2Ts and Data-In PDUs sent for the task.
pub(crate) fn send_response(
    link: &mut Link,
    itt: Itt,
    verdict: Verdict,
    format: SenseFormat,
    residual: Residual,
    r2ts: u32,
) {
    let (fixed, descriptor);
    let (status, data) = match (verdict, format) {
        (Verdict::Status(status), _) => (status, &[][..]),
        (Verdict::Check(sense), SenseFormat::Fixed) => {
            fixed = sense.emit_response_data();
            (Status::CHECK_CONDITION, &fixed[..])
        }
        (Verdict::Check(sense), SenseFormat::Descriptor) => {
            descriptor = sense.emit_descriptor_response_data();
            (Status::CHECK_CONDITION, &descriptor[..])
        }
    };
    let response = ScsiResponse {
        residual,
        status: status.0,
        itt,
        numbers: link.status_numbers(),
        exp_data_sn: r2ts,
        data_segment_length: data.len() as u32,
        ..ScsiResponse::default()
    };
    let mut header = [0; 48];
    response.emit(&mut header);
    link.send(&header, data);
}

/// Data of one command for the initiator.
pub(crate) struct DataIn {
    pub(crate) itt: Itt,
    /// Bytes to send, at least 1.
    pub(crate) length_bytes: u32,
    pub(crate) residual: Residual,
    /// Whether the last PDU carries status GOOD, so that no SCSI Response follows.
    pub(crate) with_status: bool,
}

impl DataIn {
    /// Sends a range of an LU in place. PDUs end on block boundaries, so that no PDU header divides
    /// a block.
    fn send_in_place(&self, conn: &mut Active<'_>, lu: u8, offset_bytes: u64, block_bytes: u32) {
        self.cut(conn, block_bytes, |link, start, length, _| {
            link.send_lu_part(lu, offset_bytes + u64::from(start), length)
        });
    }

    /// Sends a buffer without copying it. Returns the number of PDUs.
    pub(crate) fn send_buffer(&self, conn: &mut Active<'_>, buffer: Vec<u8>) -> u32 {
        conn.link.transmit.adopt_buffer(buffer);
        self.cut(conn, 4, Link::send_buffer_part)
    }

    /// Sends a copy of `data`.
    pub(crate) fn send_copy(&self, conn: &mut Active<'_>, data: &[u8]) {
        self.cut(conn, 4, |link, start, length, _| {
            link.send_data(&data[start as usize..][..length as usize])
        });
    }

    /// Queues the headers and calls `send(link, start, length, last)` to queue each data segment.
    /// Segments except the last are multiples of `unit` bytes. Returns the number of PDUs.
    fn cut(
        &self,
        conn: &mut Active<'_>,
        unit: u32,
        mut send: impl FnMut(&mut Link, u32, u32, bool),
    ) -> u32 {
        let link = &mut *conn.link;
        let parameters = &conn.session.parameters;
        let (max_burst, peer_max) = (
            parameters.max_burst_length,
            parameters.peer_max_recv_data_segment_length,
        );
        let single_max = max_burst.min(peer_max);
        let (burst_max, segment_max) = if self.length_bytes <= single_max {
            // One PDU, as for most reads.
            (single_max, single_max)
        } else {
            let burst_max = (max_burst / unit * unit).max(unit);
            (burst_max, (peer_max / unit * unit).clamp(unit, burst_max))
        };
        let (mut start, mut burst_left, mut data_sn) = (0, burst_max, 0);
        loop {
            let length = (self.length_bytes - start).min(segment_max).min(burst_left);
            let last = start + length == self.length_bytes;
            burst_left -= length;
            let is_final = last || burst_left == 0;
            let mut header = [0; 48];
            self.pdu(link, start, length, data_sn, last, is_final)
                .emit(&mut header);
            link.send_header(&header);
            send(link, start, length, last);
            if last {
                return data_sn + 1;
            }
            start += length;
            data_sn += 1;
            if burst_left == 0 {
                burst_left = burst_max;
            }
        }
    }

    /// Returns one PDU; the last one carries the status.
    // The hint is kept for `make bench` array_4k_depth32_iops.
    #[inline]
    fn pdu(
        &self,
        link: &mut Link,
        start: u32,
        length: u32,
        data_sn: u32,
        last: bool,
        is_final: bool,
    ) -> iscsi::DataIn {
        let with_status = last && self.with_status;
        iscsi::DataIn {
            is_final,
            acknowledge: false,
            status: with_status.then_some(DataInStatus {
                status: Status::GOOD.0,
                residual: self.residual,
            }),
            lun: Lun::default(),
            itt: self.itt,
            ttt: Ttt::RESERVED,
            // StatSN is reserved in a PDU without status.
            numbers: if with_status {
                link.status_numbers()
            } else {
                TargetNumbers {
                    stat_sn: iscsi::StatSn(0),
                    ..link.numbers()
                }
            },
            data_sn,
            buffer_offset: start,
            data_segment_length: length,
        }
    }
}
