//! The directory of sessions in full feature phase.

use std::collections::{HashMap, HashSet};

use crate::connection::session::SessionName;
use crate::id::ConnectionId;

/// Maximum number of initiators remembered after a reset.
const OWED_MAX: usize = 4096;

/// Unit attention conditions for initiators that TARGET COLD RESET has logged out, until they log
/// in again.
#[derive(Debug, Default)]
struct OwedAttentions {
    names: HashSet<SessionName>,
    /// There were too many names to remember, so every session gets the condition at its login, as
    /// long as the target exists: a session that was logged out may log in at any time. A superfluous
    /// condition is harmless, a missing one is not.
    everyone: bool,
}

/// Connections of sessions in full feature phase, by name and by TSIH.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub(crate) by_name: HashMap<SessionName, ConnectionId>,
    pub(crate) by_tsih: HashMap<u16, ConnectionId>,
    owed: OwedAttentions,
    last_tsih: u16,
}

impl Sessions {
    /// Remembers that a reset has logged out this session.
    pub(crate) fn owe_attention(&mut self, name: &SessionName) {
        if self.owed.everyone || self.owed.names.len() >= OWED_MAX {
            self.owed.everyone = true;
            self.owed.names = HashSet::new();
        } else {
            self.owed.names.insert(name.clone());
        }
    }

    /// Returns whether a new session gets the unit attention condition of a reset, and forgets the
    /// condition.
    pub(crate) fn take_owed_attention(&mut self, name: &SessionName) -> bool {
        self.owed.names.remove(name) || self.owed.everyone
    }

    pub(crate) fn owed_attentions(&self) -> usize {
        self.owed.names.len()
    }

    /// Adds a session and returns its TSIH, which is neither 0 nor in use. There are fewer sessions
    /// than TSIHs, which [`crate::Target::new`] checks.
    pub(crate) fn insert(&mut self, name: SessionName, connection: ConnectionId) -> u16 {
        loop {
            self.last_tsih = self.last_tsih.wrapping_add(1);
            if self.last_tsih != 0 && !self.by_tsih.contains_key(&self.last_tsih) {
                break;
            }
        }
        self.by_tsih.insert(self.last_tsih, connection);
        self.by_name.insert(name, connection);
        self.last_tsih
    }

    /// Removes a session that ends.
    pub(crate) fn remove(&mut self, name: &SessionName, tsih: u16) {
        self.by_tsih.remove(&tsih);
        self.by_name.remove(name);
    }
}
