//! A task: one SCSI command that is not answered yet, from its command PDU to its status.

pub(crate) mod abort;
pub(crate) mod answer;
pub(crate) mod command;
pub(crate) mod data_out;
pub(crate) mod parameters;
pub(crate) mod program;
pub(crate) mod read;
pub(crate) mod tags;
pub(crate) mod write;

use hakaru_scsi_device::{Buffers, Claim, Extent, Job, Verdict};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::{Itt, Lun, ScsiCommand, Ttt};

use crate::connection::pdu::Payload;
use crate::id::ConnectionId;

/// Event that a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Data from the initiator.
    DataOut,
    /// Room in the write budget, before R2Ts are sent.
    Budget,
    /// Room in the send queue of the connection.
    Transmit,
    /// The end of another command that holds the blocks to be written.
    Range,
    /// The end of an operation that the command began (SANITIZE).
    Operation,
    /// The result of the storage.
    Io,
    /// The result of the storage for an aborted task, which gets no status.
    Aborted,
    /// The end of the tasks that this task has aborted.
    Barrier,
}

/// Access of a task to its LU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads these bytes.
    Read {
        offset_bytes: u64,
        length_bytes: u32,
    },
    /// Writes these bytes.
    Write {
        offset_bytes: u64,
        length_bytes: u32,
        fua: bool,
    },
    /// Empties the volatile cache.
    Flush,
    /// Receives a parameter list, which determines the rest.
    Parameters { length_bytes: u32 },
    /// Stores the LU's reservations; the parameter list had this many bytes.
    Keep { length_bytes: u32 },
    /// Executes several accesses ([`Task::job`]) after receiving this many bytes from the
    /// initiator.
    Program { data_out_bytes: u32 },
    /// Executes a program of the LU, not of a command. No initiator waits for it or can abort it.
    Operation,
    /// No access. The command is refused and only discards the data that is still in flight.
    Nothing,
}

/// Data-Out of a write: first the unsolicited data, then one burst per R2T, in order
/// (DataPDUInOrder and DataSequenceInOrder are Yes).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inbound {
    /// Bytes the command can use; further bytes are discarded.
    pub(crate) wanted_bytes: u32,
    /// Offset in the initiator's buffer up to which data was received.
    pub(crate) next_offset: u32,
    /// Further unsolicited Data-Out PDUs are expected.
    pub(crate) unsolicited_open: bool,
    /// Next DataSN of the current sequence.
    pub(crate) data_sn: u32,
    /// Offset of the first burst that is requested by an R2T.
    pub(crate) solicited_from: u32,
    /// R2Ts sent; the R2TSN of the next one.
    pub(crate) r2ts: u32,
    /// R2Ts whose data was received.
    pub(crate) bursts_done: u32,
}

impl Inbound {
    /// Creates the state of the Data-Out of a command that uses `wanted_bytes` of its data.
    pub(crate) fn of(command: &ScsiCommand, wanted_bytes: u32) -> Self {
        Self {
            wanted_bytes,
            next_offset: command.data_segment_length,
            unsolicited_open: !command.is_final,
            ..Self::default()
        }
    }

    /// Returns the range of the initiator's buffer that R2T number `r2t` requests.
    pub(crate) fn burst(&self, r2t: u32, max_burst_bytes: u32) -> (u32, u32) {
        let start = self
            .solicited_from
            .saturating_add(r2t.saturating_mul(max_burst_bytes))
            .min(self.wanted_bytes);
        let end = start.saturating_add(max_burst_bytes).min(self.wanted_bytes);
        (start, end)
    }
}

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    /// The connection that the command came from; `None` for [`Access::Operation`].
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) itt: Itt,
    /// LUN as encoded by the initiator; R2Ts repeat it.
    pub(crate) lun: Lun,
    /// LUN as a number.
    pub(crate) lu: u8,
    pub(crate) immediate: bool,
    /// Expected Data Transfer Length of the direction that the command uses.
    pub(crate) expected_bytes: u32,
    /// Whether the initiator may have a buffer for data. It has none if it announced data of its own
    /// instead.
    pub(crate) has_buffer: bool,
    pub(crate) cdb: [u8; 16],
    pub(crate) access: Access,
    pub(crate) stage: Stage,
    /// Time at which the task began, last sent an R2T, or last received data.
    pub(crate) active: Time,
    pub(crate) inbound: Inbound,
    /// Data received so far.
    pub(crate) data: Vec<u8>,
    /// Share of the write budget.
    pub(crate) reserved_bytes: u32,
    /// Bytes requested from the storage that it returns in a buffer.
    pub(crate) copying_bytes: u32,
    /// Status of the task, if it is known before all data was received.
    pub(crate) verdict: Option<Verdict>,
    /// The accesses of [`Access::Program`] and [`Access::Operation`].
    pub(crate) job: Option<Box<Job>>,
}

/// The part of a removed task that its answer needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) itt: Itt,
    pub(crate) lun: Lun,
    pub(crate) lu: u8,
    pub(crate) expected_bytes: u32,
    pub(crate) has_buffer: bool,
    pub(crate) access: Access,
    /// R2Ts sent.
    pub(crate) r2ts: u32,
}

impl Access {
    /// Returns the number of bytes that the access moves, regardless of the initiator's
    /// expectation.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Access::Read { length_bytes, .. }
            | Access::Write { length_bytes, .. }
            | Access::Parameters { length_bytes }
            | Access::Keep { length_bytes } => length_bytes,
            Access::Program { data_out_bytes } => data_out_bytes,
            Access::Flush | Access::Operation | Access::Nothing => 0,
        }
    }
}

impl Task {
    /// Creates the task of a command that waits for its data.
    pub(crate) fn new(
        now: Time,
        connection: ConnectionId,
        command: &ScsiCommand,
        lu: u8,
        access: Access,
    ) -> Task {
        Task {
            connection: Some(connection),
            itt: command.itt,
            lun: command.lun,
            lu,
            cdb: command.cdb,
            immediate: command.immediate,
            expected_bytes: command.expected_data_transfer_length,
            has_buffer: command.read || !command.write,
            access,
            stage: Stage::DataOut,
            active: now,
            inbound: Inbound::default(),
            data: Vec::new(),
            reserved_bytes: 0,
            copying_bytes: 0,
            verdict: None,
            job: None,
        }
    }

    /// Creates the task of an operation that continues after its command.
    pub(crate) fn operation(job: Job) -> Task {
        Task {
            connection: None,
            itt: Itt::RESERVED,
            lun: Lun::new(job.lu.into()),
            lu: job.lu,
            cdb: [0; 16],
            immediate: true,
            expected_bytes: 0,
            has_buffer: false,
            access: Access::Operation,
            stage: Stage::Transmit,
            active: Time::ZERO,
            inbound: Inbound::default(),
            data: Vec::new(),
            reserved_bytes: 0,
            copying_bytes: 0,
            verdict: None,
            job: Some(Box::new(job)),
        }
    }

    pub(crate) fn ended(&self) -> Ended {
        Ended {
            connection: self.connection,
            itt: self.itt,
            lun: self.lun,
            lu: self.lu,
            expected_bytes: self.expected_bytes,
            has_buffer: self.has_buffer,
            access: self.access,
            r2ts: self.inbound.r2ts,
        }
    }

    /// Whether the command names this LU. A command that was refused before it had an LU counts by
    /// its LUN.
    pub(crate) fn names(&self, lu: u8) -> bool {
        self.lun.number() == Some(lu.into())
    }

    /// Returns the task's buffer to the pool and its reservation to the write budget.
    pub(crate) fn release(&mut self, buffers: &mut Buffers) {
        buffers.release(self.reserved_bytes.into());
        buffers.give(core::mem::take(&mut self.data));
    }

    /// Returns the blocks that the current access of the task writes.
    pub(crate) fn writing(&self) -> Option<Claim> {
        let (lu, extent) = match (self.access, self.job.as_deref()) {
            (
                Access::Write {
                    offset_bytes,
                    length_bytes,
                    ..
                },
                _,
            ) => {
                let length_bytes = length_bytes.into();
                (
                    self.lu,
                    Extent {
                        offset_bytes,
                        length_bytes,
                    },
                )
            }
            (_, Some(job)) => job.writing?,
            _ => return None,
        };
        matches!(self.stage, Stage::Io | Stage::Aborted).then_some(Claim { lu, extent })
    }

    /// Takes the immediate data that the command can use, and its reservation.
    pub(crate) fn take_payload(&mut self, payload: &mut Payload) {
        if let Payload::Kept {
            data,
            reserved_bytes,
        } = core::mem::take(payload)
        {
            self.data = data;
            self.data.truncate(self.inbound.wanted_bytes as usize);
            self.reserved_bytes = reserved_bytes;
        }
    }

    /// Whether further data from the initiator is expected.
    pub(crate) fn awaits_data(&self) -> bool {
        self.inbound.unsolicited_open || self.inbound.bursts_done < self.inbound.r2ts
    }
}

/// Returns the Target Transfer Tag of a task's R2T. It consists of the task's index and the low
/// byte of the R2TSN, so that data for an earlier R2T is recognised. It is never the reserved tag,
/// because no slab grows to 2^24 - 1 tasks.
pub(crate) fn transfer_tag(task: Key, r2t: u32) -> Ttt {
    Ttt((task.index << 8) | (r2t & 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_tile_the_wanted_data_after_the_unsolicited_data() {
        let inbound = Inbound {
            wanted_bytes: 1000,
            solicited_from: 100,
            ..Inbound::default()
        };
        assert_eq!(
            (
                inbound.burst(0, 400),
                inbound.burst(1, 400),
                inbound.burst(2, 400)
            ),
            ((100, 500), (500, 900), (900, 1000))
        );
        assert_eq!(inbound.burst(u32::MAX, u32::MAX), (1000, 1000));
    }
}
