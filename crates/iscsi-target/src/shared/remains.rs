//! Tasks of ended sessions that the storage still executes.
//!
//! The same initiator may log in again before these tasks end and send the same writes. Its new
//! session must not begin before the old writes have taken effect, or an old write could overwrite
//! a new one.

use hakaru_send_queue::Key;

use std::collections::HashMap;

use crate::connection::session::SessionName;
use crate::id::ConnectionId;

/// Remaining tasks, by connection and by initiator.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    by_connection: HashMap<ConnectionId, (SessionName, Vec<Key>)>,
    by_name: HashMap<SessionName, Vec<ConnectionId>>,
}

impl Remains {
    /// Adds the tasks of an ended session that the storage still executes.
    pub(crate) fn add(&mut self, name: SessionName, connection: ConnectionId, tasks: Vec<Key>) {
        if !tasks.is_empty() {
            self.by_name
                .entry(name.clone())
                .or_default()
                .push(connection);
            self.by_connection.insert(connection, (name, tasks));
        }
    }

    /// Removes a task of `connection` that has ended.
    pub(crate) fn remove(&mut self, connection: ConnectionId, task: Key) {
        let Some((name, tasks)) = self.by_connection.get_mut(&connection) else {
            return;
        };
        tasks.retain(|remaining| *remaining != task);
        if !tasks.is_empty() {
            return;
        }
        if let Some(connections) = self.by_name.get_mut(name) {
            connections.retain(|remaining| *remaining != connection);
            if connections.is_empty() {
                self.by_name.remove(name);
            }
        }
        self.by_connection.remove(&connection);
    }

    /// Returns the remaining tasks of ended sessions of this name.
    pub(crate) fn of(&self, name: &SessionName) -> Vec<Key> {
        let connections = self.by_name.get(name).into_iter().flatten();
        connections
            .filter_map(|connection| self.by_connection.get(connection))
            .flat_map(|(_, tasks)| tasks)
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use hakaru_scsi_device::Nexus;

    use super::*;

    fn key(index: u32) -> Key {
        Key {
            index,
            generation: 0,
        }
    }

    #[test]
    fn tasks_left_by_sessions_of_one_initiator_are_listed_until_each_has_ended() {
        let name = |name: &str| SessionName {
            nexus: Nexus {
                initiator_name: name.to_owned(),
                ..Nexus::default()
            },
            discovery: false,
        };
        let mut remains = Remains::default();
        let (first, second) = (ConnectionId(key(1)), ConnectionId(key(2)));
        remains.add(name("a"), first, vec![key(10), key(11)]);
        remains.add(name("a"), second, vec![key(12)]);
        remains.add(name("b"), ConnectionId(key(3)), vec![]);
        assert_eq!(
            (remains.of(&name("a")).len(), remains.of(&name("b")).len()),
            (3, 0)
        );
        remains.remove(first, key(10));
        remains.remove(second, key(12));
        assert_eq!(remains.of(&name("a")), [key(11)]);
        remains.remove(first, key(11));
        assert!(remains.by_connection.is_empty() && remains.by_name.is_empty());
    }
}
