//! The path from a measuring probe to its server: connections, and the orders of the control plane.
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

use hakaru_contract::SocketOptions;
use hakaru_runtime::net::Socket;
use hakaru_runtime::{Interest, Reactor, Token, Waiter, clock};
use hakaru_units::Time;

use crate::control::{Control, Order};
use crate::failure::{Failure, OrEnvironment};

/// Path to the server, and the orders that arrived so far.
pub(super) struct Path<'a> {
    pub(super) server: SocketAddr,
    pub(super) control: &'a mut Control,
    pub(super) waiter: Waiter,
    /// Instant of `start`, or of its arrival if that is later.
    pub(super) begin: Option<Time>,
    /// Whether `stop` has arrived.
    pub(super) stopped: bool,
    reactor: &'a Reactor,
}

impl<'a> Path<'a> {
    /// Creates a path without connections.
    pub(super) fn new(
        server: SocketAddr,
        reactor: &'a Reactor,
        control: &'a mut Control,
    ) -> Path<'a> {
        Path {
            server,
            control,
            waiter: Waiter::sleeping(64),
            begin: None,
            stopped: false,
            reactor,
        }
    }

    /// Begins to connect. Events of the socket have `token`.
    pub(super) fn connect(&self, token: Token, options: &SocketOptions) -> Result<Socket, Failure> {
        let socket = Socket::connect_with(self.server, options).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => Failure::environment(
                format_args!("open a connection to {}: {e}", self.server),
                "change the options of the socket, or run as root",
            ),
            _ => self.refused(&e),
        })?;
        self.reactor
            .register(&socket, token, Interest::Edge)
            .or_environment("watch a socket", "raise the limit of open files")?;
        Ok(socket)
    }

    /// Sends the first byte of a connection, `duty`, as soon as the server has accepted it.
    ///
    /// # Errors
    /// The server refuses the connection, or does not accept it within `timeout` or before `stop`.
    pub(super) fn open(
        &mut self,
        socket: &Socket,
        duty: u8,
        timeout: Duration,
    ) -> Result<(), Failure> {
        let deadline = clock::now() + timeout;
        loop {
            match socket.send_vectored(&[IoSlice::new(&[duty])]) {
                Ok(_) => return Ok(()),
                // Linux returns ENOTCONN or EAGAIN during the handshake.
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected
                    ) => {}
                Err(e) => return Err(self.refused(&e)),
            }
            if clock::now() >= deadline || self.stopped {
                return Err(self.refused(&io::ErrorKind::TimedOut.into()));
            }
            self.wait(Some(deadline))?;
        }
    }

    /// Reports `ready`, then sleeps until `start` or `stop`.
    pub(super) fn wait_for_start(&mut self) -> Result<(), Failure> {
        self.control.ready(BTreeMap::new());
        while self.begin.is_none() && !self.stopped {
            self.wait(None)?;
        }
        self.wait_until(self.begin.unwrap_or(Time::ZERO))
    }

    /// Sleeps until `instant` or until `stop`. Returns at once if `instant` has passed.
    pub(super) fn wait_until(&mut self, instant: Time) -> Result<(), Failure> {
        while !self.stopped && clock::now() < instant {
            self.wait(Some(instant))?;
        }
        Ok(())
    }

    /// Sleeps until an event or `until`, and stores the orders that arrived. The events of sockets
    /// are left to the caller, in `waiter`.
    pub(super) fn wait(&mut self, until: Option<Time>) -> Result<(), Failure> {
        self.control.wait(self.reactor, &mut self.waiter, until)?;
        for event in self.waiter.events() {
            self.control.handle_event(event)?;
        }
        while let Some(order) = self.control.poll_order() {
            match order {
                Order::Start(at) => self.begin = Some(at.max(clock::now())),
                Order::Stop => self.stopped = true,
            }
        }
        Ok(())
    }

    fn refused(&self, e: &io::Error) -> Failure {
        Failure::peer(
            format_args!("cannot reach the probe at {}: {e}", self.server),
            "start the server of the probe first",
        )
    }

    /// Returns the failure of a connection that was lost after it was opened.
    pub(super) fn lost(&self, e: &dyn std::fmt::Display) -> Failure {
        Failure::peer(
            format_args!("lost the probe at {}: {e}", self.server),
            "check why its server ended, and whether the network works",
        )
    }
}
