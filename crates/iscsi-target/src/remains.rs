//! Tasks of sessions that have ended, which the storage still has.
//!
//! The same initiator may come again before they are done: over a new connection, with the same writes. Its new session must not begin before the
//! old writes have had their effect, or an old one would change a block after a new one.

use std::collections::HashMap;

use crate::io::ConnectionId;
use crate::slab::Key;
use crate::target::Nexus;

/// What is left, by the connection it came over and by the initiator.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    by_connection: HashMap<ConnectionId, (Nexus, Vec<Key>)>,
    by_nexus: HashMap<Nexus, Vec<ConnectionId>>,
}

impl Remains {
    /// A session has ended and left these.
    pub(crate) fn add(&mut self, nexus: Nexus, connection: ConnectionId, tasks: Vec<Key>) {
        if !tasks.is_empty() {
            self.by_nexus
                .entry(nexus.clone())
                .or_default()
                .push(connection);
            self.by_connection.insert(connection, (nexus, tasks));
        }
    }

    /// A task that came over `connection` is done.
    pub(crate) fn remove(&mut self, connection: ConnectionId, task: Key) {
        let Some((nexus, tasks)) = self.by_connection.get_mut(&connection) else {
            return;
        };
        tasks.retain(|left| *left != task);
        if !tasks.is_empty() {
            return;
        }
        if let Some(connections) = self.by_nexus.get_mut(nexus) {
            connections.retain(|left| *left != connection);
            if connections.is_empty() {
                self.by_nexus.remove(nexus);
            }
        }
        self.by_connection.remove(&connection);
    }

    /// What sessions of this initiator have left.
    pub(crate) fn of(&self, nexus: &Nexus) -> Vec<Key> {
        let connections = self.by_nexus.get(nexus).into_iter().flatten();
        connections
            .filter_map(|connection| self.by_connection.get(connection))
            .flat_map(|(_, tasks)| tasks)
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> Key {
        Key {
            index,
            generation: 0,
        }
    }

    #[test]
    fn what_sessions_of_one_initiator_left_is_gone_when_each_task_is_done() {
        let nexus = |name: &str| Nexus {
            initiator_name: name.to_owned(),
            ..Nexus::default()
        };
        let mut remains = Remains::default();
        let (first, second) = (ConnectionId(key(1)), ConnectionId(key(2)));
        remains.add(nexus("a"), first, vec![key(10), key(11)]);
        remains.add(nexus("a"), second, vec![key(12)]);
        remains.add(nexus("b"), ConnectionId(key(3)), vec![]);
        assert_eq!(
            (remains.of(&nexus("a")).len(), remains.of(&nexus("b")).len()),
            (3, 0)
        );
        remains.remove(first, key(10));
        remains.remove(second, key(12));
        assert_eq!(remains.of(&nexus("a")), [key(11)]);
        remains.remove(first, key(11));
        assert!(remains.by_connection.is_empty() && remains.by_nexus.is_empty());
    }
}
