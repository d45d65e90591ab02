//! A VM's load as tasks of its sessions: what is due is admitted, with the bytes of a write; a task
//! comes out for a session that has room; its end ends the command, and with the last one the
//! request.
use std::sync::Arc;

use hakaru_iscsi_session::{Done, Task, TaskData, TaskError};
use hakaru_stats::Latencies;
use hakaru_units::Time;
use hakaru_wire::iscsi::Lun;
use hakaru_wire::scsi::{Cdb, Transfer};

use crate::commands::{Command, Commands};
use crate::load::{Load, Request};
use crate::pattern::{Access, Op};
use crate::payload::Payload;
use crate::verify::Corruption;

/// See the module.
#[derive(Debug)]
pub(crate) struct Work {
    pub load: Load,
    commands: Commands,
    lun: u8,
    /// An LU's block has this power of two bytes ([`hakaru_iscsi_session::Survey`] takes no other).
    block_shift: u32,
    payload: Payload,
    /// Writes that were given their bytes.
    writes: u64,
}

/// Result of a task.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// It brought data that cannot be.
    pub corruption: Option<Corruption>,
    /// It was the last of its request, and this is how that failed.
    pub failure: Option<(Op, TaskError)>,
}

impl Work {
    /// On LU `lun` of blocks of `block_bytes`; commands of at most `longest` bytes, if that is
    /// given.
    pub(crate) fn new(
        load: Load,
        longest: Option<u32>,
        lun: u8,
        block_bytes: u32,
        payload: Payload,
    ) -> Work {
        Work {
            load,
            commands: Commands::new(longest),
            lun,
            block_shift: block_bytes.trailing_zeros(),
            payload,
            writes: 0,
        }
    }

    /// Takes every request that is due.
    pub(crate) fn admit_due(&mut self, now: Time) {
        while let Some(request) = self.load.poll_request(now) {
            let data = self.data_of(&request);
            self.commands.admit(&request, data);
        }
    }

    /// The next task.
    #[inline]
    pub(crate) fn poll_task(&mut self) -> Option<Task> {
        let command = self.commands.poll_command()?;
        let keep = self.load.verifies();
        Some(new_task(command, self.lun, self.block_shift, keep))
    }

    /// A task has ended; its buffer may be used again.
    #[inline]
    pub(crate) fn handle_done(
        &mut self,
        now: Time,
        done: &Done,
        latencies: &mut Latencies,
    ) -> Outcome {
        let access = self.commands.access(done.tag);
        self.load.count_command(access.op, &done.phases);
        let mut outcome = Outcome::default();
        let result = result_of(done, &access);
        if result.is_ok()
            && access.op == Op::Read
            && let Err(corruption) = self.load.check(&access, &done.data)
        {
            outcome.corruption = Some(corruption);
        }
        let ended = self.commands.handle_done(done.tag, result);
        if let Some(result) = ended.result {
            self.load
                .handle_done(now, ended.request, result.is_ok(), latencies);
            if let Err(error) = result {
                outcome.failure = Some((access.op, error));
            }
        }
        outcome
    }

    /// The bytes of a write, stamped where that is wanted: a buffer, and where in it they begin.
    fn data_of(&mut self, request: &Request) -> Option<(Arc<Vec<u8>>, usize)> {
        let access = request.access;
        if access.op == Op::Read {
            return None;
        }
        let number = self.writes;
        self.writes += 1;
        if self.load.verifies() {
            let mut stamped = Vec::with_capacity(access.length_bytes as usize);
            self.load.stamp(&access, &mut stamped);
            return Some((Arc::new(stamped), 0));
        }
        let begin = self.payload.begin_of(number, access.length_bytes);
        Some((Arc::clone(self.payload.bytes()), begin))
    }
}

/// How the task ended: less than was asked for is a failure.
#[inline]
fn result_of(done: &Done, access: &Access) -> Result<(), TaskError> {
    let expected = access.length_bytes;
    match done.result {
        Ok(moved) if moved != expected => Err(TaskError::Short { moved, expected }),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

#[inline]
fn new_task(command: Command, lun: u8, block_shift: u32, keep: bool) -> Task {
    let access = command.access;
    let transfer = Transfer {
        lba: access.offset_bytes >> block_shift,
        blocks: access.length_bytes >> block_shift,
        ..Transfer::default()
    };
    let length = access.length_bytes;
    let (cdb, data) = match command.data {
        None => (Cdb::Read(transfer), TaskData::In { length, keep }),
        Some((buffer, begin)) => (
            Cdb::Write(transfer),
            TaskData::Out {
                buffer,
                begin,
                length,
            },
        ),
    };
    Task {
        tag: command.tag,
        lun: Lun::new(lun.into()),
        cdb: cdb.emit(),
        data,
    }
}
