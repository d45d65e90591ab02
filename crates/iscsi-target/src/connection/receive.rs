//! From bytes to PDUs, and from PDUs to the functions that serve them, in the order of their CmdSN.

use hakaru_units::Time;
use hakaru_wire::iscsi::frame::{Frame, Framer};
use hakaru_wire::iscsi::{Bhs, CmdSn, Opcode, RejectReason, ScsiCommand, StatSn};

use crate::connection::control::{self, reject};
use crate::connection::end::end;
use crate::connection::pdu::{EarlyPdu, Held, Payload, Pdu, Sink};
use crate::connection::{Active, Connection, Phase, text};
use crate::login;
use crate::shared::Core;
use crate::task::command::scsi_command;
use crate::task::data_out::{begin_data_out, end_data_out};

/// Whether a connection continues after a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Continue,
    End,
}

/// Receives PDUs until `bytes` is empty. Returns true early when a PDU has effects on other
/// connections: call it again when the effects are settled.
pub(crate) fn receive(
    framer: &mut Framer,
    conn: &mut Connection,
    core: &mut Core,
    now: Time,
    bytes: &mut &[u8],
) -> bool {
    loop {
        if core.outbox.is_unsettled() {
            return true;
        }
        if conn.is_ending() {
            return false;
        }
        if deliver_held(conn, core, now) {
            continue;
        }
        match framer.next(bytes) {
            Ok(Some(Frame::Header { bhs, .. })) => begin_pdu(conn, core, now, bhs),
            Ok(Some(Frame::Data { offset, bytes })) => take_data(conn, core, offset, bytes),
            Ok(Some(Frame::End { data_digest_ok })) => {
                if end_pdu(conn, core, now, framer, data_digest_ok) == After::End {
                    end(conn, core, now);
                }
            }
            Ok(None) => return false,
            Err(_) => {
                // The rest of the stream cannot be read. At error recovery level 0 a header digest
                // error ends the session (RFC 7143 section 7.7), and so does a data segment longer
                // than declared.
                core.counters.sessions.protocol_errors += 1;
                end(conn, core, now);
            }
        }
    }
}

/// Delivers the held PDU that is next in order. Returns false if the next PDU is not held.
pub(crate) fn deliver_held(conn: &mut Connection, core: &mut Core, now: Time) -> bool {
    let Some(mut active) = conn.active() else {
        return false;
    };
    if active.session.held.is_empty() {
        return false;
    }
    let expected = active.link.window.expected;
    let Some(held) = active.session.take_held(expected) else {
        return false;
    };
    let after = match held {
        Held::Aborted => {
            active.link.window.expected = expected.plus(1);
            After::Continue
        }
        Held::Pdu(EarlyPdu { bhs, ahs, payload }) => {
            let (bhs, ahs) = (&bhs, &*ahs);
            let mut pdu = Pdu { bhs, ahs, payload };
            deliver(&mut active, core, now, &mut pdu)
        }
    };
    if after == After::End {
        end(conn, core, now);
    }
    true
}

/// Chooses the destination of the data segment of a PDU that begins.
fn begin_pdu(conn: &mut Connection, core: &mut Core, now: Time, bhs: &Bhs) {
    conn.link.pdus_in += 1;
    let has_data = bhs.data_segment_length() > 0;
    match &mut conn.phase {
        Phase::Login(login) => {
            if bhs.opcode() != Some(Opcode::LoginRequest) {
                login::refuse_other_pdu(&mut conn.link, login.as_deref(), core);
                end(conn, core, now);
            } else if has_data {
                conn.link.sink = Sink::Payload(Payload::Kept {
                    data: Vec::new(),
                    reserved_bytes: 0,
                });
            }
        }
        Phase::FullFeature(session) => {
            let link = &mut conn.link;
            let mut active = Active { link, session };
            match bhs.opcode() {
                Some(Opcode::DataOut) => begin_data_out(&mut active, core, bhs),
                Some(Opcode::ScsiCommand) if has_data => {
                    begin_immediate_data(&mut active, core, bhs);
                }
                Some(Opcode::TextRequest | Opcode::NopOut) if has_data => {
                    begin_payload(&mut active, core, bhs.data_segment_length());
                }
                _ => {}
            }
        }
        Phase::Ending => {}
    }
}

/// Reserves write budget for all data of a command whose immediate data begins, and takes a buffer
/// for it.
fn begin_immediate_data(conn: &mut Active<'_>, core: &mut Core, bhs: &Bhs) {
    let Ok(command) = ScsiCommand::parse(bhs) else {
        return;
    };
    if core.budget_queue.is_short {
        // A larger write waits for the budget of the target, and would wait for ever if smaller
        // ones took every part that is freed. Its own data cannot wait, so this write is refused.
        conn.link.sink = Sink::Payload(Payload::Refused);
        return;
    }
    let immediate_bytes = command.data_segment_length;
    let transfer_bytes = command.expected_data_transfer_length;
    let wanted_bytes = if transfer_bytes <= core.config.limits.transfer_bytes_max {
        transfer_bytes.max(immediate_bytes)
    } else {
        immediate_bytes
    };
    begin_payload(conn, core, wanted_bytes);
}

/// Takes a buffer for a data segment that is kept, if the write budget has room.
fn begin_payload(conn: &mut Active<'_>, core: &mut Core, bytes: u32) {
    let limit = core.config.limits.session_write_buffer_bytes_max;
    let reserved = conn.session.reserve(&mut core.buffers, limit, bytes);
    conn.link.sink = Sink::Payload(if reserved {
        Payload::Kept {
            data: core.buffers.take(bytes as usize),
            reserved_bytes: bytes,
        }
    } else {
        Payload::Refused
    });
}

/// Stores a piece of a data segment.
fn take_data(conn: &mut Connection, core: &mut Core, offset: u32, bytes: &[u8]) {
    match &mut conn.link.sink {
        Sink::Payload(Payload::Nothing | Payload::Refused) => {}
        Sink::Payload(Payload::Kept { data, .. }) => data.extend_from_slice(bytes),
        Sink::Task { task, keep } => {
            // The task may have been aborted while the PDU was being received.
            if let Some(task) = core.tasks.get_mut(*task) {
                let kept = bytes.len().min(keep.saturating_sub(offset) as usize);
                task.data.extend_from_slice(&bytes[..kept]);
            }
        }
    }
}

/// Serves a complete PDU.
fn end_pdu(
    conn: &mut Connection,
    core: &mut Core,
    now: Time,
    framer: &Framer,
    digest_ok: bool,
) -> After {
    let sink = core::mem::replace(&mut conn.link.sink, Sink::DISCARD);
    let (bhs, ahs) = (framer.bhs(), framer.ahs());
    let link = &mut conn.link;
    match (&mut conn.phase, sink) {
        (Phase::Login(login), Sink::Payload(payload)) => {
            if let Err(status) = login::handle_request(link, login, core, bhs, payload.data()) {
                login::refuse(link, login.as_deref(), core, status);
                return After::End;
            }
            After::Continue
        }
        (Phase::FullFeature(session), Sink::Payload(payload)) => {
            link.handle_expected_status(exp_stat_sn_of(bhs), &mut core.outbox.returned);
            let mut pdu = Pdu { bhs, ahs, payload };
            order(
                &mut Active { link, session },
                core,
                now,
                &mut pdu,
                digest_ok,
            )
        }
        (Phase::FullFeature(session), Sink::Task { task, .. }) => {
            let mut active = Active { link, session };
            end_data_out(&mut active, core, now, bhs, Some(task), digest_ok);
            After::Continue
        }
        _ => After::Continue,
    }
}

/// Delivers immediate PDUs at once, and numbered ones in the order of their CmdSN (RFC 7143 section
/// 4.2.2.1). A PDU outside the command window is ignored. An early one is held until its
/// predecessors have arrived.
fn order(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    pdu: &mut Pdu<'_>,
    digest_ok: bool,
) -> After {
    if let Some(after) = serve_unordered(conn, core, now, pdu, digest_ok) {
        return after;
    }
    if pdu.bhs.immediate() {
        return deliver_immediate(conn, core, now, pdu);
    }
    let cmd_sn = cmd_sn_of(pdu.bhs);
    let in_window = conn.link.window.contains(cmd_sn);
    if in_window && cmd_sn == conn.link.window.expected {
        return deliver(conn, core, now, pdu);
    }
    let session = &mut conn.session;
    if in_window && session.held.iter().all(|(held, _)| *held != cmd_sn) {
        session.held.push((cmd_sn, Held::Pdu(pdu.take())));
    } else {
        core.counters.sessions.protocol_errors += 1;
        let payload = core::mem::take(&mut pdu.payload);
        core.outbox.freed |= session.release_payload(&mut core.buffers, payload);
    }
    After::Continue
}

/// Serves a PDU that is damaged or is not ordered by CmdSN. Returns `None` for an intact request,
/// which the caller serves.
fn serve_unordered(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    pdu: &mut Pdu<'_>,
    digest_ok: bool,
) -> Option<After> {
    match pdu.bhs.opcode() {
        Some(Opcode::DataOut) => end_data_out(conn, core, now, pdu.bhs, None, digest_ok),
        _ if !digest_ok => {
            // The entire PDU is discarded. Its CmdSN is not consumed, and the initiator sends it
            // again (RFC 7143 section 7.8).
            let payload = core::mem::take(&mut pdu.payload);
            core.outbox.freed |= conn.session.release_payload(&mut core.buffers, payload);
            reject(conn.link, core, RejectReason::DataDigestError, pdu.bhs);
        }
        Some(
            Opcode::ScsiCommand
            | Opcode::NopOut
            | Opcode::TaskManagementRequest
            | Opcode::TextRequest
            | Opcode::LogoutRequest,
        ) => return None,
        Some(Opcode::Snack) => reject(conn.link, core, RejectReason::SnackReject, pdu.bhs),
        Some(Opcode::LoginRequest) => {
            core.counters.sessions.protocol_errors += 1;
            reject(conn.link, core, RejectReason::ProtocolError, pdu.bhs);
            return Some(After::End);
        }
        _ => {
            core.counters.sessions.protocol_errors += 1;
            reject(conn.link, core, RejectReason::CommandNotSupported, pdu.bhs);
        }
    }
    Some(After::Continue)
}

/// Delivers an immediate PDU, which consumes no CmdSN.
fn deliver_immediate(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    pdu: &mut Pdu<'_>,
) -> After {
    let result = dispatch(conn, core, now, pdu);
    let payload = core::mem::take(&mut pdu.payload);
    core.outbox.freed |= conn.session.release_payload(&mut core.buffers, payload);
    result.unwrap_or_else(|reason| {
        reject(conn.link, core, reason, pdu.bhs);
        After::Continue
    })
}

/// Delivers the PDU that is next in order. A rejected PDU does not count as received. The initiator
/// fills the gap with another PDU or by aborting the command (RFC 7143 section 7.3).
fn deliver(conn: &mut Active<'_>, core: &mut Core, now: Time, pdu: &mut Pdu<'_>) -> After {
    let cmd_sn = conn.link.window.expected;
    conn.link.window.expected = cmd_sn.plus(1);
    let result = dispatch(conn, core, now, pdu);
    let payload = core::mem::take(&mut pdu.payload);
    core.outbox.freed |= conn.session.release_payload(&mut core.buffers, payload);
    result.unwrap_or_else(|reason| {
        conn.link.window.expected = cmd_sn;
        reject(conn.link, core, reason, pdu.bhs);
        After::Continue
    })
}

/// Serves one request.
fn dispatch(
    conn: &mut Active<'_>,
    core: &mut Core,
    now: Time,
    pdu: &mut Pdu<'_>,
) -> Result<After, RejectReason> {
    match pdu.bhs.opcode() {
        Some(Opcode::ScsiCommand) => scsi_command(conn, core, now, pdu)?,
        // The write budget had no room for the data.
        _ if matches!(pdu.payload, Payload::Refused) => {
            return Err(RejectReason::LongOperationReject);
        }
        Some(Opcode::NopOut) => control::nop_out(conn, pdu.bhs, pdu.payload.data())?,
        Some(Opcode::TaskManagementRequest) => control::task_management(conn, core, pdu.bhs)?,
        Some(Opcode::TextRequest) => {
            text::text_request(conn, &core.config, pdu.bhs, pdu.payload.data())?;
        }
        Some(Opcode::LogoutRequest) => {
            if control::logout(conn, core, pdu.bhs)? {
                return Ok(After::End);
            }
        }
        _ => return Err(RejectReason::CommandNotSupported),
    }
    Ok(After::Continue)
}

/// Returns ExpStatSN, bytes 28 to 31 of every PDU of an initiator.
fn exp_stat_sn_of(bhs: &Bhs) -> StatSn {
    let b = bhs.as_bytes();
    StatSn(u32::from_be_bytes([b[28], b[29], b[30], b[31]]))
}

/// Returns CmdSN, bytes 24 to 27 of the five PDUs that have one.
fn cmd_sn_of(bhs: &Bhs) -> CmdSn {
    let b = bhs.as_bytes();
    CmdSn(u32::from_be_bytes([b[24], b[25], b[26], b[27]]))
}
