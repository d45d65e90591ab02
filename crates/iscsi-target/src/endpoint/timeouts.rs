//! Deadlines of all connections, and the end of the target.
//!
//! All connections are checked when the earliest deadline may have passed, at most every 100 ms. A
//! deadline only moves to a later time (as bytes are received), except where `check_by` is called.
//! A check may therefore find nothing to do, but it is never late by more than 100 ms.

use hakaru_units::Time;
use hakaru_wire::iscsi::{AsyncEvent, AsyncMessage, LoginStatus, Lun};

use crate::connection::control::ping;
use crate::connection::deadlines::{Due, GRAIN, deadline};
use crate::connection::end::end;
use crate::connection::link::Link;
use crate::connection::{Connection, Phase};
use crate::endpoint::Target;
use crate::id::ConnectionId;
use crate::login::refuse;
use crate::shared::Core;
use crate::shared::barriers::AfterAbort;

impl Target {
    /// Returns the time at which [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let waits = !self.connections.is_empty() || !self.core.transitions.is_empty();
        waits.then_some(self.core.outbox.next_check)
    }

    /// Acts on the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if now < self.core.outbox.next_check {
            return;
        }
        self.core.outbox.next_check = Time::MAX;
        let (due, earliest) = self.passed_deadlines(now);
        for (connection, due) in due {
            if let Some(entry) = self.connections.get_mut(connection.0) {
                act(&mut entry.conn, &mut self.core, now, due);
            }
        }
        let outbox = &mut self.core.outbox;
        outbox.next_check = outbox.next_check.min(earliest).max(now + GRAIN);
        outbox.freed = true;
        self.end_transitions(now);
        self.settle(now);
    }

    /// Returns the deadlines that have passed, and the earliest of the others.
    fn passed_deadlines(&mut self, now: Time) -> (Vec<(ConnectionId, Due)>, Time) {
        let limits = &self.core.config.limits;
        let mut earliest = Time::MAX;
        let mut passed = Vec::new();
        let mut check = |at: Time, connection: ConnectionId, due: Due| {
            if at <= now {
                passed.push((connection, due));
            } else {
                earliest = earliest.min(at);
            }
        };
        for entry in self.connections.values_mut() {
            let conn = &mut entry.conn;
            if conn.link.transmit.is_empty() {
                conn.link.clocks.sent = now;
            }
            let (at, due) = deadline(conn, limits, self.shut_down_by, now);
            check(at, conn.link.id, due);
        }
        for (_, task) in self.core.tasks.iter() {
            if let Some(connection) = task.connection
                && task.awaits_data()
            {
                check(task.active + limits.stall_timeout, connection, Due::Stall);
            }
        }
        (passed, earliest)
    }

    /// Ends every session: requests logout with an asynchronous message, accepts no new logins, and
    /// closes each connection when its commands are answered, at the latest after the linger time.
    pub fn shut_down(&mut self, now: Time) {
        if self.shut_down_by.is_some() {
            return;
        }
        let linger = self.core.config.limits.linger;
        self.core.shutting_down = true;
        self.shut_down_by = Some(now + linger);
        let seconds = linger.as_secs().min(u64::from(u16::MAX)) as u16;
        for entry in self.connections.values_mut() {
            let (conn, core) = (&mut entry.conn, &mut self.core);
            if conn.session().is_some() {
                request_logout(&mut conn.link, seconds);
                conn.link.announce(&mut core.outbox);
            } else {
                end(conn, core, now);
            }
        }
        self.core.outbox.check_by(now);
    }
}

/// Sends an asynchronous message that requests logout within `seconds`.
fn request_logout(link: &mut Link, seconds: u16) {
    let message = AsyncMessage {
        event: AsyncEvent::LogoutRequested,
        vendor_code: 0,
        lun: Lun::default(),
        numbers: link.status_numbers(),
        parameters: [0, 0, seconds],
        data_segment_length: 0,
    };
    let mut header = [0; 48];
    message.emit(&mut header);
    link.send(&header, &[]);
}

/// Acts on one deadline.
fn act(conn: &mut Connection, core: &mut Core, now: Time, due: Due) {
    match due {
        Due::Ping => {
            ping(&mut conn.link, core, now);
            let timeout = core.config.limits.keepalive_timeout;
            return core.outbox.check_by(now + timeout);
        }
        Due::Linger => return conn.link.discard_transmit(&mut core.outbox),
        Due::Login => {
            core.counters.sessions.timeouts += 1;
            give_up_login(conn, core);
        }
        Due::Stall | Due::Silence => core.counters.sessions.timeouts += 1,
        Due::ShutDown => {}
    }
    end(conn, core, now);
    if matches!(due, Due::Stall | Due::Silence) {
        conn.link.discard_transmit(&mut core.outbox);
    }
}

/// Refuses a login that has waited too long for the end of an older session.
fn give_up_login(conn: &mut Connection, core: &mut Core) {
    if let Phase::Login(Some(login)) = &conn.phase
        && login.is_held()
    {
        let connection = conn.link.id;
        core.barriers
            .cancel(AfterAbort::BeginSession { connection });
        let status = LoginStatus::SERVICE_UNAVAILABLE;
        refuse(&mut conn.link, Some(login), core, status);
    }
}
