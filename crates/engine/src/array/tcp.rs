//! The kernel's TCP counters of all the array's connections, closed ones included.
use std::collections::BTreeMap;

use hakaru_runtime::net::tcp_info::TcpInfo;

use super::connection::Connection;
use crate::tcp::{TcpLog, counters};

/// Most connections that are reported. Reading one takes a microsecond, during which none is
/// served.
const CONNECTIONS_MAX: usize = 1024;

/// Counters of the connections.
#[derive(Default)]
pub struct Tcp {
    log: TcpLog,
    /// The sums over closed connections.
    closed: BTreeMap<String, f64>,
    /// There were too many at some time: the sums over closed ones are not known.
    lost_count: bool,
}

impl Tcp {
    /// The sums over all connections since the array began, and the states of the open ones; `None`
    /// if there are, or were, too many.
    pub fn counters(
        &mut self,
        connections: &[Option<Connection>],
        open: usize,
    ) -> Option<BTreeMap<String, f64>> {
        self.lost_count |= open > CONNECTIONS_MAX;
        if self.lost_count {
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

    /// A connection is closed.
    pub fn forget(&mut self, index: usize, connection: &Connection) {
        if self.lost_count {
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
