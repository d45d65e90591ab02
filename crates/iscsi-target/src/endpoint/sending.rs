//! Bytes out: connections with something to send, and bytes that the kernel has taken.

use hakaru_units::Time;

use crate::endpoint::Target;
use crate::id::ConnectionId;
use crate::task::read::start_waiting;
use crate::transmit::Transmit;

impl Target {
    /// Whether the connection's socket should be read. False while its send queue is too long; call
    /// it again after [`Self::handle_transmitted`].
    #[must_use]
    pub fn wants_received(&self, connection: ConnectionId) -> bool {
        let limit = self.core.config.limits.transmit_bytes_max;
        self.connections
            .get(connection.0)
            .is_some_and(|entry| entry.conn.link.transmit.held_bytes() <= limit)
    }

    /// Removes `sent` bytes, which the kernel has taken, from [`Self::transmit`]. `read_lu(lun,
    /// offset_bytes, out)` copies from an LU. It is called at most once, when the cut lies within a
    /// logical block that is sent in place.
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
        let Some(entry) = self.connections.get_mut(connection.0) else {
            return;
        };
        if sent == 0 {
            return;
        }
        let (conn, core) = (&mut entry.conn, &mut self.core);
        let ending = conn.is_ending();
        let link = &mut conn.link;
        link.clocks.sent = now;
        // The NOP-In is queued behind earlier data. While the initiator takes data it is alive, and
        // the time for its answer begins anew.
        if let Some(pinged) = &mut link.clocks.pinged {
            *pinged = now;
        }
        core.counters.ports[link.portal].tx_bytes += sent as u64;
        let units = &core.device.units;
        let block_bytes = |lun| units.get(lun).map_or(512, |unit| unit.block_bytes);
        link.transmit
            .advance(sent as u64, block_bytes, read_lu, &mut self.retired);
        if ending && link.transmit.is_empty() {
            link.close(&mut core.outbox);
        }
        self.retired
            .drain(..)
            .for_each(|buffer| core.buffers.give(buffer));
        if let Some(mut active) = conn.active() {
            start_waiting(&mut active, core);
        }
        if core.outbox.is_unsettled() {
            self.settle(now);
        }
    }

    /// Returns a connection whose queue has grown after the connection was last returned.
    pub fn poll_transmit(&mut self) -> Option<ConnectionId> {
        while let Some(connection) = self.core.outbox.to_transmit.pop_front() {
            if let Some(conn) = self.connection(connection) {
                conn.link.unannounce();
                if !conn.link.transmit.is_empty() {
                    return Some(connection);
                }
            }
        }
        None
    }

    /// Returns the send queue of a connection. It is empty if the connection has ended.
    #[must_use]
    pub fn transmit(&self, connection: ConnectionId) -> &Transmit {
        self.connections
            .get(connection.0)
            .map_or(&self.empty, |entry| &entry.conn.link.transmit)
    }
}
