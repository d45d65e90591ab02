//! Converts a VM's load into tasks of its sessions. Due requests are admitted, with the data of
//! writes, and split into commands. A task executes one command on a session. The last command of a
//! request completes the request.
use std::sync::Arc;

use hakaru_iscsi_session::{Done, Task, TaskData, TaskError};
use hakaru_stats::Latencies;
use hakaru_units::Time;
use hakaru_wire::iscsi::Lun;
use hakaru_wire::scsi::{Cdb, Transfer};

use crate::commands::{Command, Commands};
use crate::corruption::Corruption;
use crate::counters::Counters;
use crate::load::{Load, Request};
use crate::occupancy::Occupancy;
use crate::pattern::{Access, Op};
use crate::payload::Payload;
use crate::ring::Ring;

/// The load of a VM and its commands. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Work {
    pub load: Load,
    commands: Commands,
    lun: u8,
    /// Log2 of the LU's block size in bytes ([`hakaru_iscsi_session::Survey`] accepts only powers
    /// of two).
    block_shift: u32,
    payload: Payload,
    /// Number of writes admitted.
    writes: u64,
    /// Commands of the VM that wait in the host, and the integral of their number.
    host_waiting: usize,
    host_occupancy: Occupancy,
}

/// Result of a task.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Corruption in the data that the task returned.
    pub corruption: Option<Corruption>,
    /// Operation and error of the request, if this was its last task and the request failed.
    pub failure: Option<(Op, TaskError)>,
}

impl Work {
    /// Creates the work on LU `lun`, whose blocks have `block_bytes`. Commands have at most
    /// `longest` bytes. They pass the `ring` of the guest's disk; `None` is no limit.
    pub(crate) fn new(
        load: Load,
        longest: Option<u32>,
        ring: Option<Ring>,
        lun: u8,
        block_bytes: u32,
        payload: Payload,
    ) -> Work {
        Work {
            load,
            commands: Commands::new(longest, ring),
            lun,
            block_shift: block_bytes.trailing_zeros(),
            payload,
            writes: 0,
            host_waiting: 0,
            host_occupancy: Occupancy::default(),
        }
    }

    /// Admits every request that is due.
    pub(crate) fn admit_due(&mut self, now: Time) {
        while let Some(request) = self.load.poll_request(now) {
            let data = self.data_of(&request);
            self.commands.admit(now, &request, data);
        }
    }

    /// Returns the next command that leaves the guest.
    #[inline]
    pub(crate) fn poll_command(&mut self, now: Time) -> Option<Command> {
        self.commands.poll_command(now)
    }

    /// Returns the task that executes a command.
    #[inline]
    pub(crate) fn task_of(&self, command: Command) -> Task {
        let keep = self.load.verifies();
        new_task(command, self.lun, self.block_shift, keep)
    }

    /// Records that a command of the VM begins to wait in the host.
    pub(crate) fn enter_host_queue(&mut self, now: Time) {
        self.host_occupancy.advance(now, self.host_waiting);
        self.host_waiting += 1;
    }

    /// Records that a command of the VM has left the queue of the host.
    pub(crate) fn leave_host_queue(&mut self, now: Time) {
        self.host_occupancy.advance(now, self.host_waiting);
        self.host_waiting -= 1;
    }

    /// Returns the counters, complete until `now`.
    pub(crate) fn counters(&mut self, now: Time) -> Counters {
        let mut counters = self.load.counters(now);
        self.host_occupancy.advance(now, self.host_waiting);
        counters.host_queued_ns = self.host_occupancy.integral_ns();
        let waiting_ns = self.commands.waiting_ns(now);
        if self.commands.has_ring() {
            counters.guest_queued_ns = waiting_ns;
        } else {
            // Without a ring, a request leaves the guest at once and waits for its session.
            counters.host_queued_ns += waiting_ns;
        }
        counters
    }

    /// Ends a task. The caller may then reuse the task's buffer.
    #[inline]
    pub(crate) fn handle_done(&mut self, done: &Done, latencies: &mut Latencies) -> Outcome {
        let access = self.commands.access(done.tag);
        self.load.count_command(access.op, &done.phases);
        self.load.count_busy(done.busies.into());
        let mut outcome = Outcome::default();
        let result = result_of(done, &access);
        if result.is_ok()
            && access.op == Op::Read
            && let Err(corruption) = self.load.check(&access, &done.data)
        {
            outcome.corruption = Some(corruption);
        }
        let completion = self.commands.handle_done(done.tag, result);
        if let Some(result) = completion.result {
            // The time in the call that sent the command is the host's, not the target's. It counts
            // only if the command could not leave at once, or has others of its request before it.
            let leaving_ns = if completion.is_single {
                done.phases.leaving_ns
            } else {
                0
            };
            let ended = Time(done.ended.as_ns().saturating_sub(leaving_ns));
            self.load
                .handle_done(ended, completion.request, result.is_ok(), latencies);
            if let Err(error) = result {
                outcome.failure = Some((access.op, error));
            }
        }
        outcome
    }

    /// Returns the data of a write, stamped if verification is on: a buffer and the offset of the
    /// data in it. `None` for a read.
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

/// Returns the result of a task; a short transfer counts as a failure.
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
