//! Memory of an LU that the shell lends to the kernel instead of having it copied, and when it comes back.
//!
//! What is lent is sent later, or has been sent and is still read by an initiator on this machine. Until it comes back the
//! storage must not change it in place ([`Target::handle_lent`]). It comes back when the initiator says that it has the
//! command's status (ExpStatSN, RFC 7143 section 4.2.2.2), which is behind the data on the same connection. That TCP was
//! acknowledged is not enough: over loopback the receiver's socket holds the very pages until it is read.
use std::collections::VecDeque;

use hakaru_scsi_device::{Lent, Returned};
use hakaru_wire::iscsi::StatSn;

use crate::connection::Connection;
use crate::id::ConnectionId;
use crate::target::Target;

/// Ranges that a connection may have lent at once: those of an initiator that never tells what it has are bounded, and
/// its further reads are copied.
const LENT_MAX: usize = 256;

/// What one connection has lent, oldest first: each until the initiator expects this StatSN.
pub(crate) type Lending = VecDeque<(StatSn, Lent)>;

impl Connection {
    /// The initiator expects this StatSN: it has all before.
    #[inline]
    pub(crate) fn handle_expected_status(
        &mut self,
        expected: StatSn,
        returned: &mut VecDeque<Returned>,
    ) {
        while let Some((until, lent)) = self.lent.front() {
            if expected.precedes(*until) {
                return;
            }
            returned.push_back(Returned::Read(*lent));
            self.lent.pop_front();
        }
    }
}

impl Target {
    /// Whether memory of an LU may be lent to a connection now.
    #[must_use]
    pub fn may_lend(&self, connection: ConnectionId, lun: u8) -> bool {
        let conn = self.connections.get(connection.0);
        self.lus.get(lun).is_some() && conn.is_some_and(|conn| conn.lent.len() < LENT_MAX)
    }

    /// The kernel was lent the first `length` bytes of what [`Self::transmit`] names, all of the LU that comes first there. They count
    /// as pending until [`Self::handle_transmitted`] tells that the socket took them; [`Self::poll_returned`] tells when the memory may be
    /// changed again. `read_lu` as for [`Self::handle_transmitted`].
    ///
    /// # Panics
    /// If that is not what comes first.
    pub fn handle_lent(
        &mut self,
        connection: ConnectionId,
        length: usize,
        read_lu: &mut dyn FnMut(u8, u64, &mut [u8]),
    ) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        let block_bytes = |lun| self.lus.get(lun).map_or(512, |unit| unit.block_bytes);
        self.counters.ports[conn.portal].tx_lent_bytes += length as u64;
        let lent = conn.transmit.lend(length as u32, block_bytes, read_lu);
        // All of a command's data is queued with its status, so that the next number is behind it.
        conn.lent.push_back((conn.stat_sn, lent));
    }

    /// The next memory that comes back.
    pub fn poll_returned(&mut self) -> Option<Returned> {
        self.returned.pop_front()
    }

    /// An LU goes, and its memory with it.
    pub(crate) fn forget_lent(&mut self, lun: u8) {
        for conn in self.connections.values_mut() {
            conn.lent.retain(|(_, lent)| lent.lun != lun);
        }
        self.returned.retain(|returned| {
            let (Returned::Read(lent) | Returned::Abandoned(lent)) = returned;
            lent.lun != lun
        });
    }
}
