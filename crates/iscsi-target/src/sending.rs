//! Bytes out: which connections have something to send, and what the kernel has taken.

use hakaru_units::Time;

use crate::connection::Phase;
use crate::id::ConnectionId;
use crate::target::Target;
use crate::transmit::Transmit;

impl Target {
    /// Whether the connection's socket should be read. False while so much is queued to it that it must drain first;
    /// ask again after [`Self::handle_transmitted`].
    #[must_use]
    pub fn wants_received(&self, connection: ConnectionId) -> bool {
        let limit = self.config.limits.transmit_bytes_max;
        self.connections
            .get(connection.0)
            .is_some_and(|conn| conn.transmit.held_bytes() <= limit)
    }

    /// `sent` bytes of [`Self::transmit`] were taken by the kernel. `read_lu(lun, offset_bytes, out)` copies from an LU;
    /// it is called at most once, when the cut lies within a logical block that is sent in place.
    ///
    /// # Panics
    /// If more was sent than was queued.
    pub fn handle_transmitted(
        &mut self,
        now: Time,
        connection: ConnectionId,
        sent: usize,
        read_lu: &mut dyn FnMut(u8, u64, &mut [u8]),
    ) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        if sent == 0 {
            return;
        }
        conn.clocks.sent = now;
        self.counters.ports[conn.portal].tx_bytes += sent as u64;
        let block_bytes = |lun| self.lus.get(lun).map_or(512, |unit| unit.block_bytes);
        conn.transmit
            .advance(sent as u64, block_bytes, read_lu, &mut self.retired);
        let drained = conn.transmit.is_empty();
        if drained && matches!(conn.phase, Phase::Ending) {
            self.queue_close(connection);
        }
        self.retired
            .drain(..)
            .for_each(|buffer| self.buffers.give(buffer));
        self.start_waiting(now, connection);
    }

    /// A connection to which something was queued since it was last named here.
    pub fn poll_transmit(&mut self) -> Option<ConnectionId> {
        while let Some(connection) = self.to_transmit.pop_front() {
            if let Some(conn) = self.connections.get_mut(connection.0) {
                conn.announced = false;
                if !conn.transmit.is_empty() {
                    return Some(connection);
                }
            }
        }
        None
    }

    /// What a connection has to send; empty if the connection has ended.
    #[must_use]
    pub fn transmit(&self, connection: ConnectionId) -> &Transmit {
        self.connections
            .get(connection.0)
            .map_or(&self.nothing, |conn| &conn.transmit)
    }

    /// Has the connection named by `poll_transmit`, if there is something to send.
    pub(crate) fn announce(&mut self, connection: ConnectionId) {
        if let Some(conn) = self.connections.get_mut(connection.0)
            && !conn.announced
            && !conn.transmit.is_empty()
        {
            conn.announced = true;
            self.to_transmit.push_back(connection);
        }
    }
}
