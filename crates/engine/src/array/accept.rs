//! Listeners, and the connections that they give.
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hakaru_contract::SocketOptions;
use hakaru_runtime::net::{AcceptError, Listener, Socket};
use hakaru_runtime::{Interest, Reactor, Token};
use hakaru_units::Time;

use super::connection::Connection;
use super::{LISTENERS, Shell};
use crate::control::Control;
use crate::failure::{Failure, OrEnvironment};

/// Connections that one listener gives before the sessions have their turn: in a storm there is always one more.
const ACCEPTS_PER_TURN: usize = 16;

/// The first pause after accept(2) found no descriptors or memory; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_LONGEST: Duration = Duration::from_secs(2);
/// Failures of single connections are reported at most this often.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Whether listeners are watched. While accept(2) fails they are not, or the reactor would report the same connection for ever.
#[derive(Debug, Default)]
pub(super) struct Accepting {
    /// The end of the pause under way.
    retry_at: Option<Time>,
    /// The last pause since a connection was accepted.
    pause: Option<Duration>,
    /// A failure of a single connection was reported.
    reported_at: Option<Time>,
}

impl Accepting {
    /// When the pause ends.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.retry_at
    }

    /// Begins a pause. True: it is the first one.
    fn pause(&mut self, now: Time) -> bool {
        let first = self.pause.is_none();
        let pause = self
            .pause
            .map_or(PAUSE_FIRST, |pause| (2 * pause).min(PAUSE_LONGEST));
        self.pause = Some(pause);
        self.retry_at = Some(now + pause);
        first
    }

    /// Whether a failure of a single connection should be reported now.
    fn should_report(&mut self, now: Time) -> bool {
        let due = self.reported_at.is_none_or(|at| now >= at + REPORT_EVERY);
        if due {
            self.reported_at = Some(now);
        }
        due
    }
}

impl Shell<'_> {
    /// Takes connections of a portal.
    pub(super) fn accept(&mut self, now: Time, portal: usize, control: &Control) {
        // Level-triggered: connections that still wait are reported again, after everybody else had a turn.
        for _ in 0..ACCEPTS_PER_TURN {
            match self.listeners[portal].accept() {
                Ok(Some((socket, peer))) => {
                    self.accepting.pause = None;
                    self.take_connection(now, portal, socket, peer);
                }
                Ok(None) => return,
                Err(AcceptError::Connection(error)) => {
                    if self.accepting.should_report(now) {
                        let message = format!("one connection was not accepted: {error}");
                        let hint = "other initiators are not affected; see the array's socket options and the firewall";
                        control.error(&Failure::environment(message, hint), false);
                    }
                }
                Err(AcceptError::Exhausted(error)) => return self.pause(now, &error, control),
            }
        }
    }

    /// No descriptors or memory: leaves the listeners alone for a while.
    fn pause(&mut self, now: Time, error: &io::Error, control: &Control) {
        self.watch_listeners(false);
        if self.accepting.pause(now) {
            let message = format!(
                "no initiator can log in until files or memory are free: accept failed while {} connections are open: {error}; \
                 trying again at least every {} s",
                self.open,
                PAUSE_LONGEST.as_secs()
            );
            let hint = "raise the limit of open files (ulimit -n), or end sessions; the sessions that are open are served on";
            control.error(&Failure::environment(message, hint), false);
        }
    }

    /// Accepts again if a pause has ended, or at once if a descriptor was just freed.
    pub(super) fn resume_accepting(&mut self, now: Time, freed: bool) {
        if self.accepting.retry_at.is_some_and(|at| freed || now >= at) {
            self.accepting.retry_at = None;
            self.watch_listeners(true);
        }
    }

    fn take_connection(&mut self, now: Time, portal: usize, socket: Socket, peer: SocketAddr) {
        // A peer that is gone already has no address any more; dropping the socket ends it.
        let Ok(local) = socket.local_address() else {
            return;
        };
        let Some(id) = self.target.handle_connected(now, portal, local, peer) else {
            return;
        };
        if self
            .reactor
            .register(&socket, Token(id.index() as u64), Interest::Edge)
            .is_err()
        {
            return self.target.handle_closed(now, id);
        }
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        self.connections[id.index()] = Some(Connection::new(id, socket));
        self.open += 1;
    }

    fn watch_listeners(&self, watch: bool) {
        for (portal, listener) in self.listeners.iter().enumerate() {
            let token = Token(LISTENERS + portal as u64);
            // Neither fails for a descriptor that is open and in the state noted.
            let _ = if watch {
                self.reactor.register(listener, token, Interest::Level)
            } else {
                self.reactor.deregister(listener)
            };
        }
    }
}

/// Listens on every address.
///
/// # Errors
/// One of them cannot be listened on.
pub(super) fn listen(
    addresses: &[SocketAddr],
    options: &SocketOptions,
    reactor: &Reactor,
) -> Result<Vec<Listener>, Failure> {
    let mut listeners = Vec::new();
    for (portal, address) in addresses.iter().enumerate() {
        let listener = Listener::bind_with(*address, options).or_environment(
            format_args!("listen on {address}"),
            "choose a free port of an address that this machine (or namespace) has",
        )?;
        reactor
            .register(&listener, Token(LISTENERS + portal as u64), Interest::Level)
            .or_environment("watch a listening socket", "raise the limit of open files")?;
        listeners.push(listener);
    }
    Ok(listeners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_get_longer_up_to_a_bound_and_only_the_first_is_reported() {
        let mut accepting = Accepting::default();
        let now = Time::ZERO;
        assert!(accepting.pause(now));
        assert_eq!(accepting.poll_timeout(), Some(now + PAUSE_FIRST));
        for _ in 0..20 {
            assert!(!accepting.pause(now));
        }
        assert_eq!(accepting.poll_timeout(), Some(now + PAUSE_LONGEST));
        accepting.pause = None;
        assert!(accepting.pause(now));
    }
}
