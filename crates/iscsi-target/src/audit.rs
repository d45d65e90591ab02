//! Whether what sessions share still holds together after a panic was caught.

use crate::target::Target;

impl Target {
    /// Checks that tables name each other and that no session holds more of a budget than is given out.
    ///
    /// # Errors
    /// The first contradiction, in words.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let mut reserved_bytes = 0;
        for (key, conn) in self.connections.iter() {
            let Some(session) = conn.session() else {
                continue;
            };
            reserved_bytes += session.reserved_bytes;
            if self.sessions.by_tsih.get(&session.tsih) != Some(&conn.id) || conn.id.0 != key {
                return Err(format!("session {} is not listed", session.tsih));
            }
            for task in session.tasks.tasks() {
                let owner = self.tasks.get(task).map(|task| task.connection);
                if owner != Some(conn.id) {
                    return Err(format!(
                        "session {} has a task that is not its own",
                        session.tsih
                    ));
                }
            }
        }
        if reserved_bytes > self.buffers.reserved_bytes() {
            return Err("sessions hold more write budget than is given out".to_owned());
        }
        for (tsih, id) in &self.sessions.by_tsih {
            let conn = self.connections.get(id.0);
            if conn
                .and_then(|conn| conn.session())
                .is_none_or(|session| session.tsih != *tsih)
            {
                return Err(format!("session {tsih} is listed and does not exist"));
            }
        }
        if self.sessions.by_name.len() != self.sessions.by_tsih.len() {
            return Err("sessions are listed by name and by handle differently".to_owned());
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
            lus: vec![LuDescription::new(0, 1 << 20)],
            access: Access::default(),
            limits: Limits::default(),
        });
        assert_eq!(target.audit(), Ok(()));
        let gone = ConnectionId(Key {
            index: 7,
            generation: 0,
        });
        target.sessions.by_tsih.insert(3, gone);
        assert_eq!(
            target.audit(),
            Err("session 3 is listed and does not exist".to_owned())
        );
    }
}
