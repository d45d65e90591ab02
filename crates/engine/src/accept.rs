//! Listening sockets, and back-off while accept(2) lacks descriptors or memory.
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hakaru_contract::SocketOptions;
use hakaru_runtime::net::socket_options::SocketFacts;
use hakaru_runtime::net::{AcceptError, Listener, Socket};
use hakaru_runtime::{Interest, Reactor, Token};
use hakaru_units::Time;

use crate::failure::{Failure, OrEnvironment};

/// First pause after accept(2) lacked descriptors or memory. Each further pause is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Shortest time between two reports of single connections that could not be accepted.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Result of one attempt to accept a connection.
#[derive(Debug)]
pub enum Accept {
    /// A new connection and its peer.
    Connection(Socket, SocketAddr),
    /// No connection is pending, or the listeners are paused.
    Nothing,
    /// The attempt failed; carries the failure if it should be reported now.
    Failed(Option<Failure>),
}

/// Listeners, by number: those of an array by portal.
///
/// The reactor does not watch the listeners during a pause. It is level-triggered for them, and
/// would report the same pending connection again and again.
pub struct Acceptor<'r> {
    reactor: &'r Reactor,
    /// `None` for addresses that refuse connections.
    listeners: Vec<Option<Listener>>,
    addresses: Vec<SocketAddr>,
    options: SocketOptions,
    /// Token of the first listener. Those of the others follow.
    first_token: u64,
    backoff: Backoff,
    /// Time of the last report of a single connection that could not be accepted.
    reported_at: Option<Time>,
}

impl<'r> Acceptor<'r> {
    /// Listens on every address. The reactor reports the listeners by the tokens from `first_token`.
    ///
    /// # Errors
    /// An address cannot be bound, or no descriptor is available.
    pub fn listen(
        addresses: &[SocketAddr],
        options: &SocketOptions,
        reactor: &'r Reactor,
        first_token: u64,
    ) -> Result<Acceptor<'r>, Failure> {
        let mut listeners = Vec::new();
        let mut bound = Vec::new();
        for (address, token) in addresses.iter().zip(first_token..) {
            let listener = listen(*address, options)?;
            watch(reactor, &listener, Token(token))?;
            let local = listener.local_address();
            bound.push(local.or_environment("read the bound address", "try again")?);
            listeners.push(Some(listener));
        }
        Ok(Acceptor {
            reactor,
            listeners,
            addresses: bound,
            options: options.clone(),
            first_token,
            backoff: Backoff::default(),
            reported_at: None,
        })
    }

    /// Closes a listener, so that the system resets further connection attempts. No effect on one
    /// that is closed.
    pub fn refuse(&mut self, listener: usize) {
        self.listeners[listener] = None;
    }

    /// Listens again on the address of a listener that [`Acceptor::refuse`] closed. No effect on an
    /// open one.
    ///
    /// # Errors
    /// As [`Acceptor::listen`].
    pub fn accept_again(&mut self, listener: usize) -> Result<(), Failure> {
        if self.listeners[listener].is_some() {
            return Ok(());
        }
        let opened = listen(self.addresses[listener], &self.options)?;
        // During a pause, its end registers all listeners.
        if self.backoff.retry_at.is_none() {
            watch(self.reactor, &opened, self.token(listener))?;
        }
        self.listeners[listener] = Some(opened);
        Ok(())
    }

    fn token(&self, listener: usize) -> Token {
        Token(self.first_token + listener as u64)
    }

    /// Returns the number of listeners.
    pub fn listeners(&self) -> usize {
        self.listeners.len()
    }

    /// Returns the bound address of every listener, also of those that refuse connections. A
    /// configured port of 0 is replaced by the actual port.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns whether a listener accepts connections.
    pub fn accepts(&self, listener: usize) -> bool {
        self.listeners[listener].is_some()
    }

    /// Returns the options of the listening sockets as the kernel reports them.
    pub fn socket_facts(&self) -> Option<SocketFacts> {
        let facts = self.listeners.iter().flatten().next().map(SocketFacts::of);
        facts.and_then(Result::ok)
    }

    /// Returns the end of the current pause.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.backoff.retry_at
    }

    /// Accepts one connection of a listener. `open` is the number of open connections, for the report
    /// of a pause.
    pub fn accept(&mut self, now: Time, listener: usize, open: usize) -> Accept {
        if self.backoff.retry_at.is_some() {
            return Accept::Nothing;
        }
        // An event may still name a listener that was closed in the same turn.
        let Some(open_listener) = &self.listeners[listener] else {
            return Accept::Nothing;
        };
        match open_listener.accept() {
            Ok(Some((socket, peer))) => {
                self.backoff.reset();
                Accept::Connection(socket, peer)
            }
            Ok(None) => Accept::Nothing,
            Err(AcceptError::Connection(error)) => {
                let due = self.should_report(now);
                Accept::Failed(due.then(|| connection_failure(&error)))
            }
            Err(AcceptError::Exhausted(error)) => {
                self.watch_all(false);
                let first = self.backoff.pause(now);
                Accept::Failed(first.then(|| exhausted_failure(&error, open)))
            }
        }
    }

    /// Ends an expired pause, or any pause if a descriptor was just closed.
    pub fn resume(&mut self, now: Time, descriptor_closed: bool) {
        let retry_at = self.backoff.retry_at;
        if retry_at.is_some_and(|at| descriptor_closed || now >= at) {
            self.backoff.retry_at = None;
            self.watch_all(true);
        }
    }

    /// Returns whether a single connection that could not be accepted should be reported now.
    fn should_report(&mut self, now: Time) -> bool {
        let due = self.reported_at.is_none_or(|at| now >= at + REPORT_EVERY);
        if due {
            self.reported_at = Some(now);
        }
        due
    }

    fn watch_all(&self, watch: bool) {
        for (index, listener) in self.listeners.iter().enumerate() {
            let Some(listener) = listener else { continue };
            // Neither call fails for an open descriptor in the state that `backoff` records.
            let _ = if watch {
                self.reactor
                    .register(listener, self.token(index), Interest::Level)
            } else {
                self.reactor.deregister(listener)
            };
        }
    }
}

fn listen(address: SocketAddr, options: &SocketOptions) -> Result<Listener, Failure> {
    Listener::bind_with(address, options).or_environment(
        format_args!("listen on {address}"),
        "choose a free port on an address of this machine or network namespace, and \
         buffers that `net.core.rmem_max` and `wmem_max` permit",
    )
}

fn watch(reactor: &Reactor, listener: &Listener, token: Token) -> Result<(), Failure> {
    reactor
        .register(listener, token, Interest::Level)
        .or_environment("watch a listening socket", "raise the limit of open files")
}

fn connection_failure(error: &io::Error) -> Failure {
    Failure::environment(
        format_args!("one connection was not accepted: {error}"),
        "other peers are not affected; check the socket options and the firewall",
    )
}

fn exhausted_failure(error: &io::Error, open: usize) -> Failure {
    let message = format!(
        "cannot accept connections while {open} are open: {error}; no peer can connect until \
         open files or memory become available; retrying at least every {} s",
        PAUSE_MAX.as_secs()
    );
    Failure::environment(
        message,
        "raise the limit of open files (ulimit -n), or end connections; open ones continue",
    )
}

/// Exponential back-off of accept(2).
#[derive(Debug, Default)]
struct Backoff {
    /// End of the current pause.
    retry_at: Option<Time>,
    /// Length of the last pause since a connection was accepted.
    pause: Option<Duration>,
}

impl Backoff {
    /// Begins a pause. Returns whether it is the first since a connection was accepted.
    fn pause(&mut self, now: Time) -> bool {
        let first = self.pause.is_none();
        let pause = self
            .pause
            .map_or(PAUSE_FIRST, |pause| (2 * pause).min(PAUSE_MAX));
        self.pause = Some(pause);
        self.retry_at = Some(now + pause);
        first
    }

    /// Resets the length of the pause after a connection was accepted.
    fn reset(&mut self) {
        self.pause = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_get_longer_up_to_a_bound_and_only_the_first_is_reported() {
        let mut backoff = Backoff::default();
        let now = Time::ZERO;
        assert!(backoff.pause(now));
        assert_eq!(backoff.retry_at, Some(now + PAUSE_FIRST));
        for _ in 0..20 {
            assert!(!backoff.pause(now));
        }
        assert_eq!(backoff.retry_at, Some(now + PAUSE_MAX));
        backoff.reset();
        assert!(backoff.pause(now));
    }
}
