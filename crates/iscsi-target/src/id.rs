//! Names of connections.

use hakaru_send_queue::Key;

/// Names one connection. Never equal to that of an earlier connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub(crate) Key);

impl ConnectionId {
    /// A small number that no other open connection has: an index for a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.index as usize
    }
}
