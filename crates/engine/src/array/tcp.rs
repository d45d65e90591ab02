//! What the kernel's TCP says of all the array's connections, those that are gone included.
use std::collections::BTreeMap;

use hakaru_runtime::tcp_info::TcpInfo;

use super::connection::Connection;
use crate::tcp::{TcpLog, counters};

/// Connections that are told of. Reading takes a microsecond each, during which none is served: of more, nothing is told.
const CONNECTIONS_MAX: usize = 1024;

/// See the module.
#[derive(Default)]
pub struct Tcp {
    log: TcpLog,
    /// What those that are gone had come to, one by one summed.
    gone: BTreeMap<String, f64>,
    /// There were too many at some time: what is gone is not known.
    lost_count: bool,
}

impl Tcp {
    /// The sums over all connections since the array began, and of those that stand the states; `None` where they are, or were, too many.
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
        for (name, gone) in &self.gone {
            *sums.entry(name.clone()).or_insert(0.0) += gone;
        }
        Some(sums)
    }

    /// A connection goes.
    pub fn forget(&mut self, index: usize, connection: &Connection) {
        if self.lost_count {
            return;
        }
        self.log.read(index, connection.socket());
        let last = counters(self.log.of(index..index + 1));
        for (name, value) in last {
            if !name.ends_with("_now") {
                *self.gone.entry(name).or_insert(0.0) += value;
            }
        }
        self.log.forget(index);
    }
}
