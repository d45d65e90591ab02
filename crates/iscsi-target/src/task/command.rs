//! SCSI Command PDUs: admission, execution by the device server, and the first step of the outcome.

use hakaru_scsi_device::{
    Directions, Io, IoId, IoOp, Job, LengthMismatch, Outcome, Verdict, WRONG_DIRECTION,
};
use hakaru_units::Time;
use hakaru_wire::iscsi::{Itt, RejectReason, Residual, ScsiCommand, ahs};
use hakaru_wire::scsi::{Sense, Status};

use crate::connection::Active;
use crate::connection::pdu::{Payload, Pdu};
use crate::shared::Core;
use crate::shared::outbox::Effect;
use crate::task::answer::{DataIn, send_good, send_response};
use crate::task::program::start_operation;
use crate::task::read::start_read;
use crate::task::write::advance_write;
use crate::task::{Access, Inbound, Stage, Task};

/// Serves a SCSI command. The payload of the PDU is its immediate data.
pub(crate) fn scsi_command(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    pdu: &mut Pdu<'_>,
) -> Result<(), RejectReason> {
    let Ok(command) = ScsiCommand::parse(pdu.bhs) else {
        return Err(RejectReason::InvalidPduField);
    };
    admit(conn, core, &command, pdu.ahs)?;
    if core.tasks.len() >= core.config.limits.tasks_max as usize {
        let full = Verdict::Status(Status::TASK_SET_FULL);
        end_early(conn, core, now, &command, full);
        return Ok(());
    }
    // Before the command is executed, because it may change the LU's state.
    if let Some(verdict) = check_unsolicited(conn, &command, &pdu.payload) {
        end_early(conn, core, now, &command, verdict);
        return Ok(());
    }
    let directions = Directions {
        read: command.read,
        write: command.write,
    };
    let nexus = &mut conn.session.device;
    let outcome = core
        .device
        .execute(nexus, command.lun, &command.cdb, directions);
    if !core.device.notices.is_empty() {
        core.outbox.effects.push_back(Effect::Notify {
            connection: conn.link.id,
            resume: None,
        });
    }
    apply_outcome(conn, core, now, &command, outcome, &mut pdu.payload);
    Ok(())
}

/// Begins the work that the outcome of a command requires.
fn apply_outcome(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    command: &ScsiCommand,
    outcome: Outcome,
    payload: &mut Payload,
) {
    let connection = conn.link.id;
    let new_task = |lu, access| Task::new(now, connection, command, lu, access);
    match outcome {
        Outcome::Read {
            lu,
            offset_bytes,
            length_bytes,
        } if !command.write => {
            if read_bytes_max(command).min(length_bytes) == 0 {
                return finish_without_io(conn, command, read_bytes_max(command), length_bytes);
            }
            start_read(conn, core, now, command, lu, (offset_bytes, length_bytes));
        }
        Outcome::Flush { lu } if command.is_final => {
            start_flush(conn, core, command, new_task(lu, Access::Flush));
        }
        Outcome::Write {
            lu,
            offset_bytes,
            length_bytes,
            fua,
        } => {
            let access = Access::Write {
                offset_bytes,
                length_bytes,
                fua,
            };
            start_write(conn, core, now, command, new_task(lu, access), payload);
        }
        Outcome::Parameters { lu, length_bytes } => {
            let access = Access::Parameters { length_bytes };
            start_write(conn, core, now, command, new_task(lu, access), payload);
        }
        Outcome::Program(job) => match check_length(command, &job) {
            Ok(()) => {
                let data_out_bytes = job.data_out_bytes;
                let mut task = new_task(job.lu, Access::Program { data_out_bytes });
                task.job = Some(job);
                collect(conn, core, now, command, (task, data_out_bytes), payload);
            }
            Err(sense) => end_early(conn, core, now, command, Verdict::Check(sense)),
        },
        Outcome::Operation { job, immediate } if command.is_final => {
            let task = (!immediate).then(|| new_task(job.lu, Access::Nothing));
            start_operation_of(conn, core, command, *job, task);
        }
        Outcome::Data if !command.write => send_parameter_data(conn, core, command),
        Outcome::End(verdict) => end_early(conn, core, now, command, verdict),
        // The initiator has prepared for a write and has no buffer for data, so no data moves.
        Outcome::Read { .. } | Outcome::Data => {
            let verdict = Verdict::Status(Status::GOOD);
            end_early(conn, core, now, command, verdict);
        }
        // The initiator announces data for a command that takes none.
        _ => end_early(conn, core, now, command, Verdict::Check(WRONG_DIRECTION)),
    }
}

/// Checks whether the command may become a task.
fn admit(
    conn: &Active<'_>,
    core: &Core,
    command: &ScsiCommand,
    ahs: &[u8],
) -> Result<(), RejectReason> {
    let session = &conn.session;
    if session.name.discovery {
        return Err(RejectReason::ProtocolError);
    }
    let ahs_fails = !ahs.is_empty() && ahs::parse_all(ahs).any(|segment| segment.is_err());
    if command.itt == Itt::RESERVED || ahs_fails {
        return Err(RejectReason::InvalidPduField);
    }
    if session.tasks.contains(command.itt) {
        return Err(RejectReason::TaskInProgress);
    }
    let immediate_max = core.config.limits.immediate_commands_max;
    if command.immediate && session.immediate_in_flight >= immediate_max {
        return Err(RejectReason::ImmediateCommandReject);
    }
    Ok(())
}

/// Checks unsolicited data against what was negotiated (RFC 7143 sections 11.4.7.2, 13.10, 13.11
/// and 13.14).
fn check_unsolicited(
    conn: &Active<'_>,
    command: &ScsiCommand,
    payload: &Payload,
) -> Option<Verdict> {
    let received = command.data_segment_length;
    if received == 0 && command.is_final {
        return None;
    }
    let agreed = &conn.session.parameters;
    let received_max = agreed
        .first_burst_length
        .min(command.expected_data_transfer_length);
    let unexpected = received > 0 && !agreed.immediate_data
        || !command.is_final && agreed.initial_r2t
        || received > received_max;
    if unexpected {
        return Some(Verdict::Check(Sense::UNEXPECTED_UNSOLICITED_DATA));
    }
    matches!(payload, Payload::Refused).then_some(Verdict::Status(Status::TASK_SET_FULL))
}

/// Ends a command without an access to its LU, after discarding unsolicited data still to come.
fn end_early(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    command: &ScsiCommand,
    verdict: Verdict,
) {
    if command.is_final {
        let residual = Residual::between(command.expected_data_transfer_length, 0);
        let format = core.device.units.sense_format(command.lun);
        return send_response(conn.link, command.itt, verdict, format, residual, 0);
    }
    let mut task = Task::new(now, conn.link.id, command, 0, Access::Nothing);
    task.verdict = Some(verdict);
    task.inbound = Inbound::of(command, 0);
    let (key, _) = core.tasks.insert_with(|_| task);
    conn.register(command, key);
}

/// Answers with the parameter data that the device server has left in `out`.
fn send_parameter_data(conn: &mut Active<'_>, core: &Core, command: &ScsiCommand) {
    let expected = read_bytes_max(command);
    let data = &core.device.out;
    let moved = data.len().min(expected as usize);
    let residual = Residual::between(expected, data.len() as u64);
    if moved == 0 {
        return send_good(conn.link, command.itt, residual, 0);
    }
    DataIn {
        itt: command.itt,
        length_bytes: moved as u32,
        residual,
        with_status: true,
    }
    .send_copy(conn, &data[..moved]);
}

fn start_flush(conn: &mut Active<'_>, core: &mut Core, command: &ScsiCommand, mut task: Task) {
    task.stage = Stage::Io;
    let lun = task.lu;
    let (key, _) = core.tasks.insert_with(|_| task);
    conn.register(command, key);
    core.accesses.ready.push_back(Io {
        id: IoId(key),
        lun,
        op: IoOp::Flush,
        received_bytes: None,
    });
}

/// Begins a command that takes data from the initiator.
fn start_write(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    command: &ScsiCommand,
    mut task: Task,
    payload: &mut Payload,
) {
    if !command.write {
        task.expected_bytes = 0;
    }
    let access_bytes = task.access.bytes();
    // A missing parameter list counts as a parameter list that is too short.
    let takes_list = matches!(task.access, Access::Parameters { .. });
    if task.expected_bytes.min(access_bytes) == 0 && command.is_final && !takes_list {
        return finish_without_io(conn, command, task.expected_bytes, access_bytes);
    }
    collect(conn, core, now, command, (task, access_bytes), payload);
}

/// Receives `wanted_bytes` from the initiator, then continues the command.
fn collect(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    command: &ScsiCommand,
    (mut task, wanted_bytes): (Task, u32),
    payload: &mut Payload,
) {
    task.inbound = Inbound::of(command, wanted_bytes.min(task.expected_bytes));
    task.take_payload(payload);
    let (key, _) = core.tasks.insert_with(|_| task);
    conn.register(command, key);
    advance_write(conn, core, now, key);
}

/// Begins an operation of a command without a parameter list. `waiting` is the task that is
/// answered at the end of the operation; `None` answers the command at once.
fn start_operation_of(
    conn: &mut Active<'_>,
    core: &mut Core,
    command: &ScsiCommand,
    job: Job,
    waiting: Option<Task>,
) {
    let Some(mut task) = waiting else {
        let residual = Residual::between(command.expected_data_transfer_length, 0);
        send_good(conn.link, command.itt, residual, 0);
        return start_operation(core, job, None);
    };
    task.stage = Stage::Operation;
    let (key, _) = core.tasks.insert_with(|_| task);
    conn.register(command, key);
    start_operation(core, job, Some(key));
}

/// Ends a command that moves no data.
fn finish_without_io(
    conn: &mut Active<'_>,
    command: &ScsiCommand,
    expected_bytes: u32,
    access_bytes: u32,
) {
    let residual = Residual::between(expected_bytes, access_bytes.into());
    send_good(conn.link, command.itt, residual, 0);
}

/// Checks that the initiator sends as much data as the program takes.
fn check_length(command: &ScsiCommand, job: &Job) -> Result<(), Sense> {
    let (expected, wanted) = (command.expected_data_transfer_length, job.data_out_bytes);
    if wanted > 0 && (!command.write || command.read) {
        return Err(WRONG_DIRECTION);
    }
    match job.length_mismatch {
        LengthMismatch::Refuse if expected != wanted => Err(Sense::INVALID_FIELD_IN_CDB),
        _ => Ok(()),
    }
}

/// Returns the size of the initiator's buffer for data that is read, bytes.
fn read_bytes_max(command: &ScsiCommand) -> u32 {
    if command.read {
        command.expected_data_transfer_length
    } else {
        0
    }
}
