//! What the operator and the storage change while the target runs, and how initiators are told.

use hakaru_scsi_device::{LuDescription, Space};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::scsi::{AccessState, Sense};

use crate::target::Target;
use crate::task::{Stage, Task};

impl Target {
    /// Space behind an LU, for LOG SENSE page 0Ch; the LU must be thin, or it is not told. Cheap; call it as often as the figures change.
    pub fn set_space(&mut self, lun: u8, space: Space) {
        if let Some(unit) = self.lus.get_mut(lun) {
            unit.space = Some(space);
        }
    }

    /// The soft threshold of an LU's pool was crossed: every initiator is told once (UNIT ATTENTION, THIN PROVISIONING SOFT THRESHOLD REACHED). Call it
    /// once for each crossing.
    pub fn raise_threshold(&mut self, lun: u8) {
        self.attend_all(
            Some(lun),
            Sense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED,
            None,
        );
    }

    /// An LU has another size; every initiator is told (CAPACITY DATA HAS CHANGED). Where it is smaller, accesses that were checked against the old size
    /// may still come out of [`Target::poll_io`].
    ///
    /// # Panics
    /// If the size is no whole, positive number of blocks.
    pub fn set_capacity(&mut self, lun: u8, size_bytes: u64) {
        let Some(unit) = self.lus.get_mut(lun) else {
            return;
        };
        unit.resize(size_bytes);
        self.attend_all(Some(lun), Sense::CAPACITY_DATA_CHANGED, None);
    }

    /// The port of a portal gives another kind of access from now on; every initiator is told (ASYMMETRIC ACCESS STATE CHANGED). Commands under way go on.
    ///
    /// # Panics
    /// If there is no such portal.
    pub fn set_port_state(&mut self, portal: usize, state: AccessState) {
        let port = &mut self.ports[portal];
        if port.state == state {
            return;
        }
        port.state = state;
        port.changed = true;
        self.attend_all(None, Sense::ASYMMETRIC_ACCESS_STATE_CHANGED, None);
    }

    /// How a portal gives access now.
    ///
    /// # Panics
    /// If there is no such portal.
    #[must_use]
    pub fn port_state(&self, portal: usize) -> AccessState {
        self.ports[portal].state
    }

    /// A logical unit comes; every initiator is told (REPORTED LUNS DATA HAS CHANGED).
    ///
    /// # Panics
    /// As [`Target::new`] does for a description; if there is an LU of that number.
    pub fn add_lu(&mut self, description: LuDescription) {
        self.lus.add(description);
        self.attend_all(None, Sense::REPORTED_LUNS_DATA_CHANGED, None);
    }

    /// A logical unit goes; every initiator is told. Its tasks end without an answer. The storage keeps what is behind it until
    /// [`Target::is_in_use`] says no more. False: there is no such LU.
    pub fn remove_lu(&mut self, now: Time, lun: u8) -> bool {
        if !self.lus.remove(lun) {
            return false;
        }
        let tasks = self.tasks.iter();
        let of_unit: Vec<Key> = tasks
            .filter(|(_, task)| task.lu == lun && task.stage != Stage::Aborted)
            .map(|(key, _)| key)
            .collect();
        for key in of_unit {
            self.abort(key);
        }
        self.forget_lent(lun);
        for conn in self.connections.values_mut() {
            if let Some(session) = conn.session_mut() {
                session.device.forget_unit(lun);
            }
        }
        self.attend_all(None, Sense::REPORTED_LUNS_DATA_CHANGED, None);
        self.start_budgeted(now);
        true
    }

    /// Whether an access to an LU is under way, or its memory is about to be sent.
    #[must_use]
    pub fn is_in_use(&self, lun: u8) -> bool {
        // A program may be at another LU than its command's.
        let accesses = |task: &Task| match &task.job {
            Some(job) => job.accessing == Some(lun),
            None => task.lu == lun && matches!(task.stage, Stage::Io | Stage::Aborted),
        };
        let accessed = self.tasks.iter().any(|(_, task)| accesses(task));
        let mut connections = self.connections.iter();
        accessed || connections.any(|(_, conn)| conn.transmit.names_lu(lun))
    }
}
