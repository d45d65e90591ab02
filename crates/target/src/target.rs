//! The target: owns every connection and session. What the shell calls, and nothing else, is public here.

use core::net::SocketAddr;

use hakaru_units::Time;

use crate::config::TargetConfig;
use crate::io::{ConnectionId, Io, IoId, IoResult};
use crate::transmit::Transmit;

/// An iSCSI target with all its sessions.
///
/// ```text
/// loop {
///     accept            → handle_connected        (None: close the socket at once)
///     socket readable   → handle_received         unless !wants_received: then leave the bytes in the socket
///     socket ended      → handle_closed
///     timer             → handle_timeout          at poll_timeout, or any time
///     while poll_io       → do it, now or later   → handle_io_done
///     while poll_transmit → writev of transmit(c).segments() → handle_transmitted; on EAGAIN when writable again
///     while poll_close    → close the socket      the id is forgotten: no handle_closed
/// }
/// ```
/// Calls with the id of a connection that has ended do nothing: a shell may be late.
#[derive(Debug)]
pub struct Target {
    config: TargetConfig,
    nothing: Transmit,
}

impl Target {
    /// A target without sessions.
    ///
    /// # Panics
    /// If the configuration breaks a bound its documentation names.
    #[must_use]
    pub fn new(config: TargetConfig) -> Self {
        Self {
            config,
            nothing: Transmit::default(),
        }
    }

    /// A connection came in on portal `portal` (an index into [`TargetConfig::portals`]). `None` if a limit is reached:
    /// close it.
    pub fn handle_connected(
        &mut self,
        now: Time,
        portal: usize,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Option<ConnectionId> {
        let _ = (now, portal, local, peer, &self.config);
        None
    }

    /// Bytes came in; takes all of them.
    pub fn handle_received(&mut self, now: Time, connection: ConnectionId, bytes: &[u8]) {
        let _ = (now, connection, bytes);
    }

    /// Whether the connection's socket should be read. False while so much is queued to it that it must drain first;
    /// ask again after [`Self::handle_transmitted`].
    #[must_use]
    pub fn wants_received(&self, connection: ConnectionId) -> bool {
        let _ = connection;
        true
    }

    /// The connection's socket ended, however. What was queued to it is dropped.
    pub fn handle_closed(&mut self, now: Time, connection: ConnectionId) {
        let _ = (now, connection);
    }

    /// An [`Io`] ended.
    pub fn handle_io_done(&mut self, now: Time, id: IoId, result: IoResult) {
        let _ = (now, id, result);
    }

    /// `sent` bytes of [`Self::transmit`] were taken by the kernel. `read_lu(lun, offset_bytes, out)` copies from an LU;
    /// it is called at most once, when the cut lies within a logical block that is sent in place.
    pub fn handle_transmitted(
        &mut self,
        now: Time,
        connection: ConnectionId,
        sent: usize,
        read_lu: &mut dyn FnMut(u8, u64, &mut [u8]),
    ) {
        let _ = (now, connection, sent, read_lu);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }

    /// When [`Self::handle_timeout`] is wanted next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// The next access to an LU that is to be done.
    pub fn poll_io(&mut self) -> Option<Io> {
        None
    }

    /// A connection to which something was queued since it was last named here.
    pub fn poll_transmit(&mut self) -> Option<ConnectionId> {
        None
    }

    /// What a connection has to send; empty if the connection has ended.
    #[must_use]
    pub fn transmit(&self, connection: ConnectionId) -> &Transmit {
        let _ = connection;
        &self.nothing
    }

    /// A connection to close now: what it had to send is sent, or was given up. Its id is forgotten.
    pub fn poll_close(&mut self) -> Option<ConnectionId> {
        None
    }

    /// An empty buffer for [`IoResult::ReadData`], with the capacity of one used before if there is one.
    #[must_use]
    pub fn take_buffer(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Ends every session: says so with an asynchronous message (logout requested), takes no new logins and closes each
    /// connection when its commands are answered, or after the linger time.
    pub fn shut_down(&mut self, now: Time) {
        let _ = now;
    }

    /// Sessions in full feature phase.
    #[must_use]
    pub fn sessions_now(&self) -> usize {
        0
    }

    /// Gives each counter as entity (`lu/N`, `port/N`, `sessions`), name and cumulative value.
    pub fn visit_counters(&self, visit: &mut dyn FnMut(&str, &str, f64)) {
        let _ = visit;
    }
}
