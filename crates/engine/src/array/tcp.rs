//! The kernel's TCP counters of all connections of the array, open and closed.
use std::collections::BTreeMap;

use hakaru_runtime::net::tcp_info::TcpInfo;

use super::connection::Connection;
use crate::tcp::{TcpLog, counters};

/// Maximum number of connections that are reported. Reading one takes a microsecond, during which
/// no connection is served.
const CONNECTIONS_MAX: usize = 1024;

/// Counters of the connections.
#[derive(Default)]
pub struct Tcp {
    log: TcpLog,
    /// Sums over closed connections.
    closed: BTreeMap<String, f64>,
    /// Whether more than [`CONNECTIONS_MAX`] connections were open at some time. The sums over
    /// closed connections are then incomplete.
    incomplete: bool,
}

impl Tcp {
    /// Returns the sums over all connections since the array started, and the current states of the
    /// open connections. Returns `None` if too many connections are, or were, open.
    pub fn counters(
        &mut self,
        connections: &[Option<Connection>],
        open: usize,
    ) -> Option<BTreeMap<String, f64>> {
        self.incomplete |= open > CONNECTIONS_MAX;
        if self.incomplete {
            return None;
        }
        let mut all: Vec<TcpInfo> = Vec::with_capacity(open);
        for (index, connection) in connections.iter().enumerate() {
            if let Some(connection) = connection {
                self.log.read(index, connection.socket());
                all.extend(self.log.of(index..index + 1));
            }
        }
        let mut sums = counters(all.iter());
        for (name, value) in &self.closed {
            *sums.entry(name.clone()).or_insert(0.0) += value;
        }
        Some(sums)
    }

    /// Adds the counters of a connection that is about to be closed to the sums over closed
    /// connections.
    pub fn forget(&mut self, index: usize, connection: &Connection) {
        if self.incomplete {
            return;
        }
        self.log.read(index, connection.socket());
        let last = counters(self.log.of(index..index + 1));
        for (name, value) in last {
            if !name.ends_with("_now") {
                *self.closed.entry(name).or_insert(0.0) += value;
            }
        }
        self.log.forget(index);
    }
}
