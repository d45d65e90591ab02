//! Full feature phase: NOP, logout, reject, and requests for task management.

use hakaru_units::Time;
use hakaru_wire::iscsi::{
    Bhs, Itt, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, NopIn, NopOut, Reject,
    RejectReason, TaskManagementRequest, TaskManagementResponse, TaskManagementResult, Ttt,
};

use crate::connection::Active;
use crate::connection::link::Link;
use crate::shared::Core;
use crate::shared::outbox::Effect;

/// Answers a ping with its own data, truncated to the length that the initiator accepts (RFC 7143
/// section 11.19.1). A NOP-Out without ITT answers a NOP-In of the target, or only acknowledges
/// status.
pub(crate) fn nop_out(conn: &mut Active<'_>, bhs: &Bhs, data: &[u8]) -> Result<(), RejectReason> {
    let ping = NopOut::parse(bhs).map_err(|_| RejectReason::InvalidPduField)?;
    if ping.itt == Itt::RESERVED {
        return if ping.immediate {
            Ok(())
        } else {
            Err(RejectReason::ProtocolError)
        };
    }
    let length_max = conn.session.parameters.peer_max_recv_data_segment_length as usize;
    let data = &data[..data.len().min(length_max)];
    let answer = NopIn {
        lun: ping.lun,
        itt: ping.itt,
        ttt: Ttt::RESERVED,
        numbers: conn.link.status_numbers(),
        data_segment_length: data.len() as u32,
    };
    let mut header = [0; 48];
    answer.emit(&mut header);
    conn.link.send(&header, data);
    Ok(())
}

/// Sends a NOP-In to check that the initiator is alive. Any byte received counts as the answer.
pub(crate) fn ping(link: &mut Link, core: &mut Core, now: Time) {
    link.clocks.pinged = Some(now);
    let ping = NopIn {
        itt: Itt::RESERVED,
        ttt: Ttt(link.id.0.index),
        numbers: link.numbers(),
        ..NopIn::default()
    };
    let mut header = [0; 48];
    ping.emit(&mut header);
    link.send(&header, &[]);
    link.announce(&mut core.outbox);
}

/// Answers a request to end the session, or its only connection, which has the same effect. Returns
/// true if the session ends. Its unanswered commands then end without an answer (RFC 7143 section
/// 11.14).
pub(crate) fn logout(
    conn: &mut Active<'_>,
    core: &mut Core,
    bhs: &Bhs,
) -> Result<bool, RejectReason> {
    let request = LogoutRequest::parse(bhs).map_err(|_| RejectReason::InvalidPduField)?;
    let result = match request.reason {
        LogoutReason::CloseSession => LogoutResult::Success,
        LogoutReason::CloseConnection if request.cid == conn.session.cid => LogoutResult::Success,
        LogoutReason::CloseConnection => LogoutResult::CidNotFound,
        LogoutReason::RemoveForRecovery => LogoutResult::RecoveryNotSupported,
        LogoutReason::Other(_) => return Err(RejectReason::InvalidPduField),
    };
    let ends = result == LogoutResult::Success;
    core.counters.sessions.logouts += u64::from(ends);
    let response = LogoutResponse {
        result,
        itt: request.itt,
        numbers: conn.link.status_numbers(),
        time2wait: 0,
        time2retain: 0,
    };
    let mut header = [0; 48];
    response.emit(&mut header);
    conn.link.send(&header, &[]);
    Ok(ends)
}

/// Passes a Task Management Function Request to the endpoint, because it concerns other
/// connections.
pub(crate) fn task_management(
    conn: &mut Active<'_>,
    core: &mut Core,
    bhs: &Bhs,
) -> Result<(), RejectReason> {
    let request = TaskManagementRequest::parse(bhs).map_err(|_| RejectReason::InvalidPduField)?;
    if conn.session.name.discovery {
        return Err(RejectReason::ProtocolError);
    }
    core.counters.sessions.task_management += 1;
    core.outbox.effects.push_back(Effect::Manage {
        connection: conn.link.id,
        request,
    });
    Ok(())
}

/// Answers a Task Management Function Request.
pub(crate) fn answer_management(
    link: &mut Link,
    core: &mut Core,
    itt: Itt,
    result: TaskManagementResult,
) {
    let response = TaskManagementResponse {
        result,
        itt,
        numbers: link.status_numbers(),
    };
    let mut header = [0; 48];
    response.emit(&mut header);
    link.send(&header, &[]);
    link.announce(&mut core.outbox);
}

/// Rejects a PDU. The Reject carries the header of that PDU as data (RFC 7143 section 11.17).
pub(crate) fn reject(link: &mut Link, core: &mut Core, reason: RejectReason, bhs: &Bhs) {
    core.counters.sessions.rejects += 1;
    let reject = Reject {
        reason,
        numbers: link.status_numbers(),
        data_sn: 0,
        data_segment_length: 48,
    };
    let mut header = [0; 48];
    reject.emit(&mut header);
    link.send(&header, bhs.as_bytes());
}
