//! Deadlines of one connection: login, keep-alive, stalled transfers, lingering, shutdown.

use core::time::Duration;

use hakaru_units::Time;

use crate::config::Limits;
use crate::connection::{Connection, Phase};

/// Precision of deadlines: the target acts on a deadline at most this late.
pub(crate) const GRAIN: Duration = Duration::from_millis(100);

/// The reason for which a deadline was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The login is not finished.
    Login,
    /// The queue of an ending connection was not taken in time.
    Linger,
    /// The initiator accepts no data, or does not send the data of a write.
    Stall,
    /// Nothing was received for `keepalive_after`. The target sends a NOP-In.
    Ping,
    /// The NOP-In was not answered in time.
    Silence,
    /// The target shuts down, and the connection is idle.
    ShutDown,
}

/// Returns the earliest deadline of a connection.
pub(crate) fn deadline(
    conn: &Connection,
    limits: &Limits,
    shut_down_by: Option<Time>,
    now: Time,
) -> (Time, Due) {
    let clocks = &conn.link.clocks;
    let session = match &conn.phase {
        Phase::Login(_) => return (clocks.connected + limits.login_timeout, Due::Login),
        Phase::Ending => {
            let began = clocks.ending.unwrap_or(clocks.sent);
            return (began + limits.linger, Due::Linger);
        }
        Phase::FullFeature(session) => session,
    };
    let alive = match clocks.pinged {
        Some(pinged) => (pinged + limits.keepalive_timeout, Due::Silence),
        None => (clocks.received + limits.keepalive_after, Due::Ping),
    };
    let stall = (clocks.sent + limits.stall_timeout, Due::Stall);
    let due = if stall.0 < alive.0 { stall } else { alive };
    let Some(by) = shut_down_by else { return due };
    let idle = session.tasks.is_empty() && conn.link.transmit.is_empty();
    // A connection that is still busy is checked again soon.
    let at = if idle || by <= now {
        now
    } else {
        by.min(now + GRAIN)
    };
    if at <= due.0 {
        (at, Due::ShutDown)
    } else {
        due
    }
}
