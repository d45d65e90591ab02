//! Programs of commands with several accesses, and operations that continue after their command.
//!
//! A program waits for the initiator's data, for room for the data that it reads
//! (`Stage::Transmit`) and for its range (`Stage::Range`). It then executes its accesses in
//! sequence and ends with a status. The functions here take the connection as an option, because an
//! operation has none.

use hakaru_scsi_device::{
    Answer, Claim, CopyResult, Extent, Io, IoId, IoOp, IoResult, Job, Program, Step, StepContext,
    Verdict, work_bytes,
};
use hakaru_send_queue::Key;
use hakaru_wire::iscsi::Residual;
use hakaru_wire::scsi::{Sense, Status};

use crate::connection::Active;
use crate::shared::Core;
use crate::shared::outbox::Effect;
use crate::task::answer::{DataIn, failure_sense, finish, remove_task, send_response};
use crate::task::{Access, Stage, Task};

/// Begins an operation, which continues when its command is answered, aborted or forgotten.
/// `waiting` is the task that is answered at the end of the operation.
pub(crate) fn start_operation(core: &mut Core, job: Job, waiting: Option<Key>) {
    if let Some(unit) = core.device.units.get_mut(job.lu) {
        unit.begin_operation(waiting);
    }
    run(core, job);
}

/// Begins a job that has no command.
fn run(core: &mut Core, job: Job) {
    let (key, _) = core.tasks.insert_with(|_| Task::operation(job));
    claim(None, core, key);
}

/// Begins a program as soon as its range is free.
pub(crate) fn claim(conn: Option<&mut Active<'_>>, core: &mut Core, key: Key) {
    let Some(task) = core.tasks.get(key) else {
        return;
    };
    let lu = task.lu;
    let Some(extent) = task.job.as_ref().and_then(|job| job.exclusive) else {
        return advance(conn, core, key, Answer::Begin);
    };
    let claim = Claim { lu, extent };
    if may_hold(core, &claim, core.ranges.waiting_now()) {
        hold(conn, core, key, claim);
    } else {
        wait_for_range(core, key, claim);
    }
}

/// Whether a command may hold a range: no other command writes in it, holds it, or is among the
/// first `before` that wait for it.
pub(crate) fn may_hold(core: &Core, claim: &Claim, before: usize) -> bool {
    let overlaps = |task: &Task| task.writing().is_some_and(|other| other.overlaps(claim));
    core.ranges.is_free(claim, before) && !core.tasks.iter().any(|(_, task)| overlaps(task))
}

/// Marks the range of a program as held, and begins the program.
pub(crate) fn hold(conn: Option<&mut Active<'_>>, core: &mut Core, key: Key, claim: Claim) {
    core.ranges.hold(key, claim);
    advance(conn, core, key, Answer::Begin);
}

/// Makes a task wait for a range.
pub(crate) fn wait_for_range(core: &mut Core, key: Key, claim: Claim) {
    if let Some(task) = core.tasks.get_mut(key) {
        task.stage = Stage::Range;
    }
    core.ranges.wait(key, claim);
}

/// Handles the result of an access of a program.
pub(crate) fn handle_step_done(
    conn: Option<&mut Active<'_>>,
    core: &mut Core,
    key: Key,
    result: IoResult,
) {
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    let mut reading_bytes = 0;
    if let Some(job) = task.job.as_mut() {
        (job.writing, job.accessing) = (None, None);
        reading_bytes = core::mem::take(&mut job.reading_bytes);
    }
    let counters = &mut core.counters.lus[usize::from(task.lu)];
    let answer = match result {
        IoResult::ReadData(data) if data.len() == reading_bytes as usize => {
            counters.read(reading_bytes);
            Answer::Read(data)
        }
        IoResult::Written(data) => {
            counters.written(u32::try_from(data.len()).expect("an access is shorter than 4 GiB"));
            Answer::Written(data)
        }
        IoResult::Flushed | IoResult::Done => Answer::Done,
        IoResult::Provisioned(extents) => Answer::Provisioned(extents),
        IoResult::Failed(failure) => {
            let sense = failure_sense(failure);
            let job = core.tasks.get(key).and_then(|task| task.job.as_ref());
            let sense = job.map_or(sense, |job| job.program.failure(sense));
            return end_program(conn, core, key, Verdict::Check(sense));
        }
        // A program never requests data in place or of another length.
        IoResult::ReadInPlace | IoResult::ReadData(_) => {
            let verdict = Verdict::Check(Sense::INTERNAL_TARGET_FAILURE);
            return end_program(conn, core, key, verdict);
        }
    };
    advance(conn, core, key, answer);
}

/// Advances a program to its next access or to its end.
fn advance(conn: Option<&mut Active<'_>>, core: &mut Core, key: Key, answer: Answer) {
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    let lu = task.lu;
    let Some(job) = task.job.as_mut() else {
        return;
    };
    let mut context = StepContext {
        lu,
        data: &mut task.data,
        buffers: &mut core.buffers,
    };
    // Progress of the accesses that have ended.
    let (progress, exclusive) = (job.program.progress(), job.exclusive.is_some());
    let step = job.program.step(&mut context, answer);
    if task.access == Access::Operation
        && let Some(unit) = core.device.units.get_mut(lu)
    {
        unit.set_progress(progress);
    }
    match step {
        Step::Access(lu, op) => {
            if let Some(extent) = written_by(&op) {
                let claim = Claim { lu, extent };
                // A program that holds its range may write there.
                if !exclusive && !core.ranges.is_free(&claim, core.ranges.waiting_now()) {
                    job.pending = Some((lu, op));
                    return wait_for_range(core, key, claim);
                }
            }
            request_access(conn, core, key, lu, op);
        }
        Step::End(verdict) => end_program(conn, core, key, verdict),
        Step::Continue(verdict, job) => {
            end_program(conn, core, key, verdict);
            run(core, *job);
        }
        Step::Data(data) => send_step_data(conn, core, key, data, None),
        Step::DataAndCheck(data, sense) => send_step_data(conn, core, key, data, Some(sense)),
    }
}

/// Passes an access to the storage. The program ends if its LU was removed or shrunk after the
/// program began.
pub(crate) fn request_access(
    conn: Option<&mut Active<'_>>,
    core: &mut Core,
    key: Key,
    lu: u8,
    op: IoOp,
) {
    if let Err(sense) = check_range(core, lu, &op) {
        return end_program(conn, core, key, Verdict::Check(sense));
    }
    let Some(task) = core.tasks.get_mut(key) else {
        return;
    };
    task.stage = Stage::Io;
    let mut received_bytes = None;
    if let Some(job) = task.job.as_mut() {
        received_bytes = job.take_received_bytes();
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
        received_bytes,
    };
    match task.job.as_mut() {
        Some(job) if job.long => {
            job.background_bytes = work_bytes(&io.op);
            core.accesses.background.push(io);
        }
        _ => core.accesses.ready.push_back(io),
    }
}

fn check_range(core: &Core, lu: u8, op: &IoOp) -> Result<(), Sense> {
    let unit = core.device.units.get(lu);
    let unit = unit.ok_or(Sense::LOGICAL_UNIT_NOT_SUPPORTED)?;
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

fn end_program(conn: Option<&mut Active<'_>>, core: &mut Core, key: Key, verdict: Verdict) {
    let Some(task) = core.tasks.get(key) else {
        return;
    };
    let lu = task.lu;
    let copied = match task.job.as_ref().map(|job| &job.program) {
        Some(Program::Copy(copy)) => copy.list.map(|list| CopyResult {
            list,
            good: verdict == Verdict::Status(Status::GOOD),
            segments: copy.done().0,
            bytes: copy.done().1,
        }),
        _ => None,
    };
    if task.access == Access::Operation {
        remove_task(None, core, key);
        return end_operation(core, lu, verdict);
    }
    let Some(conn) = conn else { return };
    if let Some(copied) = copied {
        conn.session.device.copies.keep(lu, copied);
    }
    finish(conn, core, key, verdict);
}

/// Ends an operation and the command that waits for it.
fn end_operation(core: &mut Core, lu: u8, verdict: Verdict) {
    let good = verdict == Verdict::Status(Status::GOOD);
    let unit = core.device.units.get_mut(lu);
    let waiting = unit.and_then(|unit| unit.end_operation(good));
    if let Some(task) = waiting {
        core.outbox
            .effects
            .push_back(Effect::FinishTask { task, verdict });
    }
    core.outbox.freed = true;
}

/// Answers with data that was requested from the storage, and ends the command with GOOD or with
/// CHECK CONDITION.
fn send_step_data(
    conn: Option<&mut Active<'_>>,
    core: &mut Core,
    key: Key,
    mut data: Vec<u8>,
    sense: Option<Sense>,
) {
    let Some(conn) = conn else { return };
    let Some(task) = remove_task(Some(conn), core, key) else {
        return;
    };
    if !task.has_buffer {
        data.clear();
    }
    let available = data.len();
    data.truncate(task.expected_bytes as usize);
    let residual = Residual::between(task.expected_bytes, available as u64);
    let format = core.device.units.sense_format(task.lun);
    let verdict = match sense {
        Some(sense) => Verdict::Check(sense),
        None => Verdict::Status(Status::GOOD),
    };
    if data.is_empty() {
        return send_response(conn.link, task.itt, verdict, format, residual, 0);
    }
    let data_in = DataIn {
        itt: task.itt,
        length_bytes: data.len() as u32,
        residual,
        with_status: sense.is_none(),
    };
    let pdus = data_in.send_buffer(conn, data);
    if sense.is_some() {
        send_response(conn.link, task.itt, verdict, format, residual, pdus);
    }
}

/// Returns the range that an access changes.
fn written_by(op: &IoOp) -> Option<Extent> {
    match op {
        IoOp::Write {
            offset_bytes, data, ..
        } => Some(Extent {
            offset_bytes: *offset_bytes,
            length_bytes: data.len() as u64,
        }),
        IoOp::WriteSame { range, .. } => Some(*range),
        // The extent spans the first to the last range, including the blocks between. A command may
        // therefore wait unnecessarily, but it never fails to wait.
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
