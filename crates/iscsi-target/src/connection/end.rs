//! The end of a connection and of its session or login.

use hakaru_units::Time;

use crate::connection::{Active, Connection, Phase};
use crate::login::budget::Origin;
use crate::shared::Core;
use crate::task::abort::abort_session;

/// Ends a connection. Its queue is sent before it is closed; nothing more is received.
pub(crate) fn end(conn: &mut Connection, core: &mut Core, now: Time) {
    let link = &mut conn.link;
    match &mut conn.phase {
        Phase::Ending => return,
        Phase::Login(login) => {
            let held_bytes = login.as_ref().map_or(0, |login| login.held_bytes);
            core.logins.end(Origin::of(link.peer.ip()), held_bytes);
        }
        Phase::FullFeature(session) => {
            core.sessions.remove(&session.name, session.tsih);
            // A discovery session may have the initiator port of a normal session, which keeps its
            // state on the LUs.
            if !session.name.discovery {
                core.device.units.lose(&session.name.nexus);
            }
            let unfinished = abort_session(&mut Active { link, session }, core);
            core.remains.add(session.name.clone(), link.id, unfinished);
        }
    }
    conn.phase = Phase::Ending;
    link.clocks.ending = Some(now);
    if link.transmit.is_empty() {
        link.close(&mut core.outbox);
    }
    core.outbox.check_by(now + core.config.limits.linger);
    link.announce(&mut core.outbox);
}
