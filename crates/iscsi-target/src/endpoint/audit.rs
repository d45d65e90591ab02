//! The check of the state that sessions share, after a panic was caught.

use crate::endpoint::Target;

impl Target {
    /// Checks that the tables are consistent with each other, and that sessions hold no more write
    /// budget than is reserved.
    ///
    /// # Errors
    /// Describes the first contradiction.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let mut reserved_bytes = 0;
        let core = &self.core;
        for (key, entry) in self.connections.iter() {
            let id = entry.conn.link.id;
            let Some(session) = entry.conn.session() else {
                continue;
            };
            reserved_bytes += session.reserved_bytes;
            if core.sessions.by_tsih.get(&session.tsih) != Some(&id) || id.0 != key {
                return Err(format!(
                    "session {} is not in the directory of sessions",
                    session.tsih
                ));
            }
            for task in session.tasks.tasks() {
                let owner = core.tasks.get(task).and_then(|task| task.connection);
                if owner != Some(id) {
                    return Err(format!(
                        "session {} lists a task that belongs to another session",
                        session.tsih
                    ));
                }
            }
        }
        if reserved_bytes > core.buffers.reserved_bytes() {
            return Err("sessions hold more write budget than is reserved".to_owned());
        }
        for (tsih, id) in &core.sessions.by_tsih {
            let entry = self.connections.get(id.0);
            if entry
                .and_then(|entry| entry.conn.session())
                .is_none_or(|session| session.tsih != *tsih)
            {
                return Err(format!(
                    "session {tsih} is in the directory but does not exist"
                ));
            }
        }
        if core.sessions.by_name.len() != core.sessions.by_tsih.len() {
            return Err("the directories of sessions by name and by TSIH differ".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::id::ConnectionId;
    use crate::{Access, Limits, LuDescription, Target, TargetConfig};
    use hakaru_send_queue::Key;

    #[test]
    fn a_session_that_is_listed_and_does_not_exist_is_found() {
        let mut target = Target::new(TargetConfig {
            target_name: "iqn.2026-01.net.example:array".to_owned(),
            portals: vec!["10.0.0.1:3260".parse().expect("an address")],
            port_groups: Vec::new(),
            lus: vec![LuDescription::new(0, 1 << 20)],
            access: Access::default(),
            limits: Limits::default(),
        });
        assert_eq!(target.audit(), Ok(()));
        let unknown_connection = ConnectionId(Key {
            index: 7,
            generation: 0,
        });
        target.core.sessions.by_tsih.insert(3, unknown_connection);
        assert_eq!(
            target.audit(),
            Err("session 3 is in the directory but does not exist".to_owned())
        );
    }
}
