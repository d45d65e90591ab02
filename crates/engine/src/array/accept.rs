//! Listeners, and the connections that they give.
use std::net::SocketAddr;

use hakaru_contract::SocketOptions;
use hakaru_runtime::net::{Listener, Socket};
use hakaru_runtime::{Interest, Reactor, Token};
use hakaru_units::Time;

use super::connection::Connection;
use super::{LISTENERS, Shell};
use crate::control::Control;
use crate::failure::{Failure, OrEnvironment};

/// Connections that one listener gives before the sessions have their turn: in a storm there is always one more.
const ACCEPTS_PER_TURN: usize = 16;

impl Shell<'_> {
    /// Takes connections of a portal.
    pub(super) fn accept(&mut self, now: Time, portal: usize, control: &Control) {
        // Level-triggered: those that still wait are told of again, after everybody else had a turn.
        for _ in 0..ACCEPTS_PER_TURN {
            match self.listeners[portal].accept() {
                Ok(Some((socket, peer))) => self.take_connection(now, portal, socket, peer),
                Ok(None) => return,
                Err(e) => {
                    // Or it would be told of the same connection for ever.
                    self.set_listening(false);
                    let failure = Failure::environment(
                        format_args!(
                            "cannot accept a connection while {} are open: {e}",
                            self.open
                        ),
                        "raise the limit of open files (ulimit -n)",
                    );
                    control.error(&failure, false);
                    return;
                }
            }
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

    /// Watches the listeners, or leaves them alone.
    pub(super) fn set_listening(&mut self, listening: bool) {
        if self.listening == listening {
            return;
        }
        self.listening = listening;
        for (portal, listener) in self.listeners.iter().enumerate() {
            let token = Token(LISTENERS + portal as u64);
            // Neither fails for a descriptor that is open and in the state noted.
            let _ = if listening {
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
