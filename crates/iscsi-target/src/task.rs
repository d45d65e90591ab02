//! A task: one SCSI command that is not answered yet, from its command PDU to its status.

use hakaru_scsi_device::{Buffers, Claim, Extent, Job, Verdict};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::{Itt, Lun, Ttt};

use crate::id::ConnectionId;

use crate::session::Payload;

/// What a task is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Data of the initiator.
    DataOut,
    /// Room in the budget for write data; then R2Ts go out.
    Budget,
    /// Earlier answers of the connection to be sent.
    Transmit,
    /// Another command to let go of the blocks that it is about to write.
    Range,
    /// An operation that goes on without it (SANITIZE), to end.
    Operation,
    /// The storage.
    Io,
    /// The storage; the task was aborted and no status goes out.
    Aborted,
    /// The end of tasks that it has aborted.
    Barrier,
}

/// What a task does to its LU.
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
    /// Empties the cache.
    Flush,
    /// Takes a parameter list, which says what else is to be done.
    Parameters { length_bytes: u32 },
    /// Keeps the LU's reservations; the parameter list had so many bytes.
    Keep { length_bytes: u32 },
    /// Several accesses, after so much data of the initiator; [`Task::job`] says which.
    Program { data_out_bytes: u32 },
    /// A program that no command waits for and none ends: it belongs to the LU.
    Operation,
    /// Nothing: it is refused, and only lets the data that the initiator is sending anyway go by.
    Nothing,
}

/// Data-Out of a write: first what comes unsolicited, then one burst per R2T, in order (DataPDUInOrder and DataSequenceInOrder are Yes).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inbound {
    /// Bytes the command can use; what comes beyond is let go by.
    pub(crate) wanted_bytes: u32,
    /// Place in the initiator's buffer up to which data came.
    pub(crate) next_offset: u32,
    /// Unsolicited Data-Out PDUs are still to come.
    pub(crate) unsolicited_open: bool,
    /// Next DataSN of the sequence under way.
    pub(crate) data_sn: u32,
    /// Where the first burst that is asked for begins.
    pub(crate) solicited_from: u32,
    /// R2Ts sent; the R2TSN of the next one.
    pub(crate) r2ts: u32,
    /// R2Ts whose data came.
    pub(crate) bursts_done: u32,
}

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) connection: ConnectionId,
    pub(crate) itt: Itt,
    /// As the initiator wrote it; R2Ts and Data-Ins repeat it.
    pub(crate) lun: Lun,
    /// The same as a number.
    pub(crate) lu: u8,
    pub(crate) immediate: bool,
    /// Expected Data Transfer Length of the direction that the command uses.
    pub(crate) expected_bytes: u32,
    pub(crate) cdb: [u8; 16],
    pub(crate) access: Access,
    pub(crate) stage: Stage,
    /// When it began, or its initiator last sent data for it.
    pub(crate) active: Time,
    pub(crate) inbound: Inbound,
    /// Write data that came so far.
    pub(crate) data: Vec<u8>,
    /// Of the budget for write data.
    pub(crate) reserved_bytes: u32,
    /// Bytes asked of the storage that it will hand over in a buffer.
    pub(crate) copying_bytes: u32,
    /// How the task will end once the initiator's data went by, if that is settled already.
    pub(crate) verdict: Option<Verdict>,
    /// The accesses of [`Access::Program`] and [`Access::Operation`].
    pub(crate) job: Option<Box<Job>>,
}

/// What the answer to a task says: all that is left of one that has been removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) connection: ConnectionId,
    pub(crate) itt: Itt,
    pub(crate) lun: Lun,
    pub(crate) lu: u8,
    pub(crate) expected_bytes: u32,
    pub(crate) access: Access,
    /// R2Ts sent.
    pub(crate) r2ts: u32,
}

impl Access {
    /// Bytes it would move, whatever the initiator expects.
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
    pub(crate) fn ended(&self) -> Ended {
        Ended {
            connection: self.connection,
            itt: self.itt,
            lun: self.lun,
            lu: self.lu,
            expected_bytes: self.expected_bytes,
            access: self.access,
            r2ts: self.inbound.r2ts,
        }
    }

    /// Gives back what it holds of the target's buffers and budget.
    #[inline]
    pub(crate) fn release(&mut self, buffers: &mut Buffers) {
        buffers.release(self.reserved_bytes.into());
        buffers.give(core::mem::take(&mut self.data));
    }

    /// The blocks that its access under way writes.
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

    /// Takes its immediate data, as far as it is wanted, and the budget that was reserved with it.
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

    /// Data of the initiator is still on its way.
    pub(crate) fn awaits_data(&self) -> bool {
        self.inbound.unsolicited_open || self.inbound.bursts_done < self.inbound.r2ts
    }
}

impl Inbound {
    /// The range of the initiator's buffer that R2T number `r2t` asks for.
    pub(crate) fn burst(&self, r2t: u32, max_burst_bytes: u32) -> (u32, u32) {
        let start = self
            .solicited_from
            .saturating_add(r2t.saturating_mul(max_burst_bytes))
            .min(self.wanted_bytes);
        (
            start,
            start.saturating_add(max_burst_bytes).min(self.wanted_bytes),
        )
    }
}

/// The Target Transfer Tag of a task's R2T: task and low byte of the R2TSN, so that data for an earlier one is noticed. Never the reserved tag, since no
/// slab grows to 2^24 - 1 tasks.
pub(crate) fn transfer_tag(task: Key, r2t: u32) -> Ttt {
    Ttt((task.index << 8) | (r2t & 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_tile_what_is_wanted_after_the_unsolicited_data() {
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
