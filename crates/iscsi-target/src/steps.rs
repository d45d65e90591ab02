//! Commands of more than one access: their programs, and operations that go on without a command.
//!
//! A program goes: the initiator's data → room for what it reads (`Stage::Transmit`) → its range (`Stage::Range`) → access by access → status.

use hakaru_scsi_device::{
    Answer, Claim, CopyResult, Extent, Io, IoId, IoOp, IoResult, Job, OtherLength, Program, Step,
    Verdict, WRONG_DIRECTION, Workplace, work_bytes,
};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::{Itt, Lun, Residual, ScsiCommand};
use hakaru_wire::scsi::{Sense, Status};

use crate::answer::{DataIn, failure_sense, send_good};
use crate::command::new_task;
use crate::connection::Connection;
use crate::id::ConnectionId;

use crate::session::Payload;

use crate::target::Target;
use crate::task::{Access, Inbound, Stage, Task};

/// Whose tasks operations are: no connection has this id.
const NOBODY: ConnectionId = ConnectionId(Key {
    index: u32::MAX,
    generation: u32::MAX,
});

impl Target {
    /// Begins a program.
    pub(crate) fn start_program(
        &mut self,
        now: Time,
        connection: ConnectionId,
        command: &ScsiCommand,
        job: Job,
        payload: &mut Payload,
    ) {
        let data_out_bytes = job.data_out_bytes;
        let access = Access::Program { data_out_bytes };
        let mut task = new_task(now, connection, command, job.lu, access);
        task.job = Some(Box::new(job));
        self.collect(now, command, task, data_out_bytes, payload);
    }

    /// Takes `wanted_bytes` from the initiator, then goes on.
    fn collect(
        &mut self,
        now: Time,
        command: &ScsiCommand,
        mut task: Task,
        wanted_bytes: u32,
        payload: &mut Payload,
    ) {
        task.inbound = Inbound {
            wanted_bytes: wanted_bytes.min(task.expected_bytes),
            next_offset: command.data_segment_length,
            unsolicited_open: !command.is_final,
            ..Inbound::default()
        };
        task.take_payload(payload);
        task.stage = Stage::DataOut;
        let key = self.insert_task(task.connection, command, || task);
        self.go_on_writing(now, key);
    }

    /// A command whose parameter list is there begins what goes on without it.
    pub(crate) fn take_up_operation(&mut self, now: Time, key: Key, job: Job, immediate: bool) {
        if immediate {
            self.finish(key, Verdict::Status(Status::GOOD));
            return self.start_operation(now, job, None);
        }
        if let Some(task) = self.tasks.get_mut(key) {
            task.stage = Stage::Operation;
        }
        self.start_operation(now, job, Some(key));
    }

    /// A command whose parameter list is there has turned out to be a program.
    pub(crate) fn take_up(&mut self, now: Time, key: Key, job: Job) {
        if let Some(task) = self.tasks.get_mut(key) {
            task.job = Some(Box::new(job));
            self.begin_program(now, key);
        }
    }

    /// A program's data is there: makes room for what it will read.
    pub(crate) fn begin_program(&mut self, now: Time, key: Key) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let connection = task.connection;
        if task.job.as_ref().is_some_and(|job| job.reads_bytes == 0) {
            return self.claim(now, key);
        }
        task.stage = Stage::Transmit;
        let session = self
            .connections
            .get_mut(connection.0)
            .and_then(Connection::session_mut);
        match session {
            Some(session) => session.waiting.push_back(key),
            // An operation.
            None => return self.claim(now, key),
        }
        self.start_waiting(now, connection);
    }

    /// There is room for what a program reads.
    pub(crate) fn admit_program(&mut self, now: Time, key: Key) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let reads_bytes = task.job.as_ref().map_or(0, |job| job.reads_bytes);
        task.copying_bytes = reads_bytes;
        let session = self
            .connections
            .get_mut(task.connection.0)
            .and_then(Connection::session_mut);
        if let Some(session) = session {
            session.copying_bytes += u64::from(reads_bytes);
        }
        self.claim(now, key);
    }

    /// A program begins once its range is its own.
    fn claim(&mut self, now: Time, key: Key) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let lu = task.lu;
        let Some(extent) = task.job.as_ref().and_then(|job| job.exclusive) else {
            return self.advance(now, key, Answer::Begin);
        };
        let claim = Claim { lu, extent };
        if self.may_hold(&claim, self.ranges.waiting_now()) {
            self.ranges.hold(key, claim);
            self.advance(now, key, Answer::Begin);
        } else {
            self.wait_for_range(key, claim);
        }
    }

    /// Nobody writes there, is to write there, or holds it.
    fn may_hold(&self, claim: &Claim, before: usize) -> bool {
        self.ranges.is_free(claim, before)
            && !self
                .tasks
                .iter()
                .any(|(_, task)| task.writing().is_some_and(|other| other.overlaps(claim)))
    }

    pub(crate) fn wait_for_range(&mut self, key: Key, claim: Claim) {
        if let Some(task) = self.tasks.get_mut(key) {
            task.stage = Stage::Range;
        }
        self.ranges.wait(key, claim);
    }

    /// Lets commands that wait for a range go on, in turn.
    #[cold]
    pub(crate) fn start_ranged(&mut self, now: Time) {
        let mut place = 0;
        while let Some((key, claim)) = self.ranges.waiting_at(place) {
            let Some(task) = self
                .tasks
                .get_mut(key)
                .filter(|task| task.stage == Stage::Range)
            else {
                self.ranges.leave(place);
                continue;
            };
            let connection = task.connection;
            let pending = task.job.as_mut().and_then(|job| job.pending.take());
            let writes = matches!(task.access, Access::Write { .. }) || pending.is_some();
            if writes && self.ranges.is_free(&claim, place) {
                self.ranges.leave(place);
                match pending {
                    Some((lu, op)) => self.ask(now, key, lu, op),
                    None => self.ask_write(now, key),
                }
            } else if !writes && self.may_hold(&claim, place) {
                self.ranges.leave(place);
                self.ranges.hold(key, claim);
                self.advance(now, key, Answer::Begin);
                self.announce(connection);
            } else {
                if let Some(job) = self.tasks.get_mut(key).and_then(|task| task.job.as_mut()) {
                    job.pending = pending;
                }
                place += 1;
            }
        }
    }

    /// An access of a program ended.
    pub(crate) fn handle_step_done(&mut self, now: Time, key: Key, result: IoResult) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let mut reading_bytes = 0;
        if let Some(job) = task.job.as_mut() {
            (job.writing, job.accessing) = (None, None);
            reading_bytes = core::mem::take(&mut job.reading_bytes);
        }
        let lu = usize::from(task.lu);
        let answer = match result {
            IoResult::ReadData(data) if data.len() == reading_bytes as usize => {
                self.counters.lus[lu].read(data.len() as u32);
                Answer::Read(data)
            }
            IoResult::Written(data) => {
                self.counters.lus[lu].written(data.len() as u32);
                Answer::Written(data)
            }
            IoResult::Flushed | IoResult::Done => Answer::Done,
            IoResult::Provisioned(extents) => Answer::Provisioned(extents),
            IoResult::Failed(failure) => {
                return self.end_program(now, key, Verdict::Check(failure_sense(failure)));
            }
            // Neither is what a program asks for.
            IoResult::ReadInPlace | IoResult::ReadData(_) => {
                let verdict = Verdict::Check(Sense::INTERNAL_TARGET_FAILURE);
                return self.end_program(now, key, verdict);
            }
        };
        self.advance(now, key, answer);
    }

    /// Takes a program one access on.
    fn advance(&mut self, now: Time, key: Key, answer: Answer) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let mut data = core::mem::take(&mut task.data);
        let lu = task.lu;
        let operation = task.access == Access::Operation;
        let Some(job) = task.job.as_mut() else {
            return;
        };
        let mut workplace = Workplace {
            lu,
            data: &mut data,
            buffers: &mut self.buffers,
        };
        // What was asked for before is done.
        let (progress, exclusive) = (job.program.progress(), job.exclusive.is_some());
        let step = job.program.step(&mut workplace, answer);
        task.data = data;
        if operation && let Some(unit) = self.lus.get_mut(lu) {
            unit.set_progress(progress);
        }
        match step {
            Step::Ask(lu, op) => match written_by(&op) {
                Some(extent) => {
                    let claim = Claim { lu, extent };
                    // What is its own is free for it.
                    if exclusive || self.ranges.is_free(&claim, self.ranges.waiting_now()) {
                        return self.ask(now, key, lu, op);
                    }
                    if let Some(job) = self.tasks.get_mut(key).and_then(|task| task.job.as_mut()) {
                        job.pending = Some((lu, op));
                    }
                    self.wait_for_range(key, claim);
                }
                None => self.ask(now, key, lu, op),
            },
            Step::End(verdict) => self.end_program(now, key, verdict),
            Step::Data(data) => self.send_step_data(key, data),
        }
    }

    /// Hands an access to the storage, unless its LU has gone or shrunk since the program began.
    fn ask(&mut self, now: Time, key: Key, lu: u8, op: IoOp) {
        if let Err(sense) = self.check_range(lu, &op) {
            return self.end_program(now, key, Verdict::Check(sense));
        }
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        task.stage = Stage::Io;
        if let Some(job) = task.job.as_mut() {
            job.accessing = Some(lu);
            job.writing = written_by(&op).map(|extent| (lu, extent));
            job.reading_bytes = match &op {
                IoOp::Read { length_bytes, .. } => *length_bytes,
                _ => 0,
            };
        }
        let io = Io {
            id: IoId(key),
            lun: lu,
            op,
        };
        match task.job.as_mut() {
            Some(job) if job.long => {
                job.background_bytes = work_bytes(&io.op);
                self.background.push(io);
            }
            _ => self.ios.push_back(io),
        }
    }

    fn check_range(&self, lu: u8, op: &IoOp) -> Result<(), Sense> {
        let unit = self.lus.get(lu).ok_or(Sense::LOGICAL_UNIT_NOT_SUPPORTED)?;
        let read = match op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => offset_bytes + u64::from(*length_bytes),
            IoOp::Status { range, .. } => range.offset_bytes + range.length_bytes,
            _ => 0,
        };
        let written = written_by(op).map_or(0, |extent| extent.offset_bytes + extent.length_bytes);
        if read.max(written) <= unit.blocks * u64::from(unit.block_bytes) {
            Ok(())
        } else {
            Err(Sense::LBA_OUT_OF_RANGE.with_information(unit.blocks))
        }
    }

    fn end_program(&mut self, now: Time, key: Key, verdict: Verdict) {
        self.release_copying(key);
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        let (connection, lu) = (task.connection, task.lu);
        let operation = task.access == Access::Operation;
        let copied = match task.job.as_ref().map(|job| &job.program) {
            Some(Program::Copy(copy)) => copy.list.map(|list| CopyResult {
                list,
                good: verdict == Verdict::Status(Status::GOOD),
                segments: copy.done().0,
                bytes: copy.done().1,
            }),
            _ => None,
        };
        if operation {
            self.remove_task(key);
            return self.end_operation(now, lu, verdict);
        }
        let session = self
            .connections
            .get_mut(connection.0)
            .and_then(Connection::session_mut);
        if let (Some(session), Some(copied)) = (session, copied) {
            session.device.copies.keep(lu, copied);
        }
        self.finish(key, verdict);
    }

    /// Answers with parameter data that had to be asked of the storage.
    fn send_step_data(&mut self, key: Key, mut data: Vec<u8>) {
        let Some(task) = self.remove_task(key) else {
            return;
        };
        let Some(conn) = self.connections.get_mut(task.connection.0) else {
            return;
        };
        let available = data.len();
        data.truncate(task.expected_bytes as usize);
        let residual = Residual::between(task.expected_bytes, available as u64);
        if data.is_empty() {
            return send_good(conn, task.itt, residual, 0);
        }
        DataIn {
            itt: task.itt,
            length_bytes: data.len() as u32,
            residual,
        }
        .send_copy(conn, &data);
    }

    /// Begins what goes on when its command is answered, aborted or forgotten. `waiting`: the task that is answered at its end.
    pub(crate) fn start_operation(&mut self, now: Time, job: Job, waiting: Option<Key>) {
        let lu = job.lu;
        if let Some(unit) = self.lus.get_mut(lu) {
            unit.begin_operation(waiting);
        }
        let (key, _) = self.tasks.insert_with(|_| Task {
            connection: NOBODY,
            itt: Itt::RESERVED,
            lun: Lun::new(lu.into()),
            lu,
            immediate: true,
            expected_bytes: 0,
            access: Access::Operation,
            stage: Stage::Transmit,
            active: now,
            inbound: Inbound::default(),
            data: Vec::new(),
            reserved_bytes: 0,
            copying_bytes: 0,
            verdict: None,
            job: Some(Box::new(job)),
            cdb: [0; 16],
        });
        self.begin_program(now, key);
    }

    fn end_operation(&mut self, now: Time, lu: u8, verdict: Verdict) {
        let good = verdict == Verdict::Status(Status::GOOD);
        let waiting = self
            .lus
            .get_mut(lu)
            .and_then(|unit| unit.end_operation(good));
        if let Some(task) = waiting.and_then(|key| self.tasks.get(key)) {
            let connection = task.connection;
            if let Some(key) = waiting {
                self.finish(key, verdict);
            }
            self.announce(connection);
        }
        self.start_ranged(now);
    }

    /// Begins an operation that takes no parameter list.
    pub(crate) fn start_operation_of(
        &mut self,
        now: Time,
        connection: ConnectionId,
        command: &ScsiCommand,
        job: Job,
        immediate: bool,
    ) {
        let residual = Residual::between(command.expected_data_transfer_length, 0);
        let waiting = if immediate {
            if let Some(conn) = self.connections.get_mut(connection.0) {
                send_good(conn, command.itt, residual, 0);
            }
            None
        } else {
            let mut task = new_task(now, connection, command, job.lu, Access::Nothing);
            task.stage = Stage::Operation;
            Some(self.insert_task(connection, command, || task))
        };
        self.start_operation(now, job, waiting);
    }
}

/// Whether the initiator sends what the program takes.
pub(crate) fn check_length(command: &ScsiCommand, job: &Job) -> Result<(), Sense> {
    let (expected, wanted) = (command.expected_data_transfer_length, job.data_out_bytes);
    if wanted > 0 && (!command.write || command.read) {
        return Err(WRONG_DIRECTION);
    }
    match job.other_length {
        OtherLength::Refuse if expected != wanted => Err(Sense::INVALID_FIELD_IN_CDB),
        _ => Ok(()),
    }
}

/// The range that an access changes.
fn written_by(op: &IoOp) -> Option<Extent> {
    match op {
        IoOp::Write {
            offset_bytes, data, ..
        } => Some(Extent {
            offset_bytes: *offset_bytes,
            length_bytes: data.len() as u64,
        }),
        IoOp::WriteSame { range, .. } => Some(*range),
        // From the first to the last, and what lies between: few wait without need, and none too little.
        IoOp::Unmap { ranges } => {
            let begin = ranges.iter().map(|range| range.offset_bytes).min()?;
            let end = ranges
                .iter()
                .map(|range| range.offset_bytes + range.length_bytes);
            Some(Extent {
                offset_bytes: begin,
                length_bytes: end.max()? - begin,
            })
        }
        _ => None,
    }
}
