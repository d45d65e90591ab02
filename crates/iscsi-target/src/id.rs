//! Identifiers of connections.

use hakaru_send_queue::Key;

/// Identifies one connection. It never equals the id of an earlier connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub(crate) Key);

impl ConnectionId {
    /// Returns a small number that is unique among open connections, for use as a table index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.index as usize
    }
}
