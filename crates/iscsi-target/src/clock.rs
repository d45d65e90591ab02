//! Deadlines: logins that take too long, initiators that do not answer, take nothing, or do not go.
//!
//! All connections are looked at when the earliest deadline may have come; between two looks lie 100 ms at least. A deadline only
//! ever moves away (as bytes come in), except where `check_by` says so; so a look may find nothing to do, but never comes late by more.

use core::time::Duration;

use hakaru_units::Time;
use hakaru_wire::iscsi::{AsyncEvent, AsyncMessage, Lun};

use crate::connection::{Connection, Phase};
use crate::id::ConnectionId;
use crate::target::Target;

/// Deadlines are kept to within this.
const GRAIN: Duration = Duration::from_millis(100);

/// What a connection is due for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Its login is not finished.
    Login,
    /// It has been ending for long enough.
    Linger,
    /// It takes nothing, or does not send what a write of its own waits for.
    Stall,
    /// Nothing came from it: is it there?
    Ping,
    /// It did not answer.
    Silence,
    /// The target shuts down and nothing is left to do.
    ShutDown,
}

impl Target {
    /// When [`Self::handle_timeout`] is wanted next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        (!self.connections.is_empty()).then_some(self.next_check)
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if now < self.next_check {
            return;
        }
        self.next_check = Time::MAX;
        let mut earliest = Time::MAX;
        let mut due = Vec::new();
        for conn in self.connections.values_mut() {
            if conn.transmit.is_empty() {
                conn.clocks.sent = now;
            }
            let (at, what) = deadline(
                conn,
                &self.config.limits,
                self.shutting_down.then_some(self.shut_down_by),
                now,
            );
            if at <= now {
                due.push((conn.id, what));
            } else {
                earliest = earliest.min(at);
            }
        }
        for (_, task) in self.tasks.iter().filter(|(_, task)| task.awaits_data()) {
            let at = task.active + self.config.limits.stall_timeout;
            if at <= now {
                due.push((task.connection, Due::Stall));
            } else {
                earliest = earliest.min(at);
            }
        }
        for (connection, what) in due {
            self.act(now, connection, what);
        }
        self.next_check = self.next_check.min(earliest).max(now + GRAIN);
        self.start_budgeted(now);
    }

    /// Looks at the deadlines at this instant, if not before.
    pub(crate) fn check_by(&mut self, at: Time) {
        self.next_check = self.next_check.min(at);
    }

    fn act(&mut self, now: Time, connection: ConnectionId, due: Due) {
        match due {
            Due::Ping => {
                self.ping(now, connection);
                self.check_by(now + self.config.limits.keepalive_timeout);
                return;
            }
            Due::Login if self.connections.get(connection.0).is_some_and(is_held) => {
                self.counters.sessions.timeouts += 1;
                self.give_up_login(now, connection);
                return;
            }
            Due::ShutDown => {}
            Due::Linger => {
                self.discard_transmit(connection);
                return;
            }
            Due::Login | Due::Stall | Due::Silence => self.counters.sessions.timeouts += 1,
        }
        self.end(now, connection);
        if matches!(due, Due::Stall | Due::Silence) {
            self.discard_transmit(connection);
        }
    }

    /// Ends every session: asks for logout with an asynchronous message, takes no new logins, and closes each connection when its
    /// commands are answered, at the latest after the linger time.
    pub fn shut_down(&mut self, now: Time) {
        if self.shutting_down {
            return;
        }
        self.shutting_down = true;
        self.shut_down_by = now + self.config.limits.linger;
        let all: Vec<ConnectionId> = self.connections.values_mut().map(|conn| conn.id).collect();
        for connection in all {
            let Some(conn) = self.connections.get_mut(connection.0) else {
                continue;
            };
            if conn.session().is_some() {
                let message = AsyncMessage {
                    event: AsyncEvent::LogoutRequested,
                    vendor_code: 0,
                    lun: Lun::default(),
                    numbers: conn.status_numbers(),
                    parameters: [
                        0,
                        0,
                        self.config.limits.linger.as_secs().min(u64::from(u16::MAX)) as u16,
                    ],
                    data_segment_length: 0,
                };
                let mut header = [0; 48];
                message.emit(&mut header);
                conn.send(&header, &[]);
                self.announce(connection);
            } else {
                self.end(now, connection);
            }
        }
        self.check_by(now);
    }
}

fn is_held(conn: &Connection) -> bool {
    matches!(&conn.phase, Phase::Login(login) if login.held.is_some())
}

/// The connection's earliest deadline.
fn deadline(
    conn: &Connection,
    limits: &crate::config::Limits,
    shut_down_by: Option<Time>,
    now: Time,
) -> (Time, Due) {
    let clocks = &conn.clocks;
    let session = match &conn.phase {
        Phase::Login(_) => return (clocks.connected + limits.login_timeout, Due::Login),
        Phase::Ending => {
            return (
                clocks.ending.unwrap_or(clocks.sent) + limits.linger,
                Due::Linger,
            );
        }
        Phase::FullFeature(session) => session,
    };
    let alive = match clocks.pinged {
        Some(pinged) => (pinged + limits.keepalive_timeout, Due::Silence),
        None => (clocks.received + limits.keepalive_after, Due::Ping),
    };
    let stall = (clocks.sent + limits.stall_timeout, Due::Stall);
    let shut_down = shut_down_by.map(|by| {
        let idle = session.tasks.is_empty() && conn.transmit.is_empty();
        // While something is left, looks again soon.
        (
            if idle || by <= now {
                now
            } else {
                by.min(now + GRAIN)
            },
            Due::ShutDown,
        )
    });
    let due = if stall.0 < alive.0 { stall } else { alive };
    match shut_down {
        Some(shut_down) if shut_down.0 <= due.0 => shut_down,
        _ => due,
    }
}
