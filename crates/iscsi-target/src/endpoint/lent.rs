//! Memory of an LU that is lent to the kernel instead of being copied, until it returns.
//!
//! Lent memory is sent later, or was sent and is still read by an initiator on this machine. Until
//! it returns, the storage must not change it in place. It returns when the initiator acknowledges
//! the status of the command (ExpStatSN, RFC 7143 section 4.2.2.2), which follows the data on the
//! same connection. TCP's acknowledgement is not enough: over loopback the receiver's socket holds
//! the very pages until it is read.

use hakaru_scsi_device::Returned;

use crate::endpoint::Target;
use crate::id::ConnectionId;

/// Maximum number of ranges that a connection may have lent at once. An initiator that never
/// acknowledges status reaches it, and its further reads are copied.
const LENT_MAX: usize = 256;

impl Target {
    /// Whether memory of an LU may be lent to the kernel for a connection now.
    #[must_use]
    pub fn may_lend(&self, connection: ConnectionId, lun: u8) -> bool {
        let entry = self.connections.get(connection.0);
        self.core.device.units.get(lun).is_some()
            && entry.is_some_and(|entry| entry.conn.link.lent.len() < LENT_MAX)
    }

    /// Notes that the first `length` bytes of [`Self::transmit`], which are memory of one LU, were
    /// lent to the kernel. They are pending until [`Self::handle_transmitted`] reports that the
    /// socket took them; [`Self::poll_returned`] reports when the memory may be changed again.
    /// `read_lu` is as for [`Self::handle_transmitted`].
    ///
    /// # Panics
    /// If the queue does not begin with that many bytes of an LU.
    pub fn handle_lent(
        &mut self,
        connection: ConnectionId,
        length: usize,
        read_lu: &mut dyn FnMut(u8, u64, &mut [u8]),
    ) {
        let Some(entry) = self.connections.get_mut(connection.0) else {
            return;
        };
        let link = &mut entry.conn.link;
        let units = &self.core.device.units;
        let block_bytes = |lun| units.get(lun).map_or(512, |unit| unit.block_bytes);
        self.core.counters.ports[link.portal].tx_lent_bytes += length as u64;
        let lent = link.transmit.lend(length as u32, block_bytes, read_lu);
        // All data of a command is queued with its status, so the next StatSN comes after it.
        link.lent.push_back((link.stat_sn, lent));
    }

    /// Returns the next range of memory that is no longer lent.
    pub fn poll_returned(&mut self) -> Option<Returned> {
        self.core.outbox.returned.pop_front()
    }

    /// Forgets the lent memory of an LU that is removed.
    pub(super) fn forget_lent(&mut self, lun: u8) {
        for entry in self.connections.values_mut() {
            let lent = &mut entry.conn.link.lent;
            lent.retain(|(_, lent)| lent.lun != lun);
        }
        self.core.outbox.returned.retain(|returned| {
            let (Returned::Read(lent) | Returned::Abandoned(lent)) = returned;
            lent.lun != lun
        });
    }
}
