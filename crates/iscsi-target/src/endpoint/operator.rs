//! Changes by the operator and the storage while the target runs, and the unit attention conditions
//! that report them to initiators.

use core::time::Duration;

use hakaru_scsi_device::{LuDescription, PortChange, Space, TapeRecord};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::scsi::{AccessState, Sense};

use crate::endpoint::Target;
use crate::shared::transitions::Transition;
use crate::task::{Stage, Task};

impl Target {
    /// Sets the bounds on connections and sessions ([`crate::Limits`]). Connections and sessions
    /// above them stay; new ones are refused.
    pub fn set_connections_max(&mut self, connections_max: u32, sessions_max: u32) {
        let limits = &mut self.core.config.limits;
        limits.connections_max = connections_max;
        limits.sessions_max = sessions_max;
    }

    /// Whether an LU has this number.
    #[must_use]
    pub fn has_lu(&self, lun: u8) -> bool {
        self.core.device.units.get(lun).is_some()
    }

    /// Sets the space behind an LU, for LOG SENSE page 0Ch, which only a thin LU reports. Cheap:
    /// call it whenever the figures change.
    pub fn set_space(&mut self, lun: u8, space: Space) {
        if let Some(unit) = self.core.device.units.get_mut(lun) {
            unit.space = Some(space);
        }
    }

    /// Reports that the pool of an LU has crossed its soft threshold. Every initiator gets UNIT
    /// ATTENTION, THIN PROVISIONING SOFT THRESHOLD REACHED. Call it once per crossing.
    pub fn raise_threshold(&mut self, lun: u8) {
        self.attend_all(
            Some(lun),
            Sense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED,
            None,
        );
    }

    /// Changes the size of an LU; every initiator gets UNIT ATTENTION, CAPACITY DATA HAS CHANGED.
    /// When it shrinks, [`Target::poll_io`] may still return accesses that were checked against the
    /// old size.
    ///
    /// # Panics
    /// If the size is not a positive multiple of the block length.
    pub fn set_capacity(&mut self, lun: u8, size_bytes: u64) {
        let Some(unit) = self.core.device.units.get_mut(lun) else {
            return;
        };
        unit.resize(size_bytes);
        self.attend_all(Some(lun), Sense::CAPACITY_DATA_CHANGED, None);
    }

    /// Changes the asymmetric access state of the target port group of a portal; every initiator
    /// gets UNIT ATTENTION, ASYMMETRIC ACCESS STATE CHANGED. Commands in flight continue. A
    /// transition of the group ends.
    ///
    /// # Panics
    /// If there is no such portal.
    pub fn set_port_state(&mut self, portal: usize, state: AccessState) {
        self.set_group_state(self.port_group(portal), state);
    }

    fn set_group_state(&mut self, group: usize, state: AccessState) {
        self.core
            .transitions
            .retain(|transition| transition.group != group);
        let ports = &mut self.core.device.ports;
        if ports.set_state(group, state, PortChange::Device) {
            self.attend_all(None, Sense::ASYMMETRIC_ACCESS_STATE_CHANGED, None);
        }
    }

    /// Changes the state of a portal's group like [`Target::set_port_state`], after a transition of
    /// this length. Until then its ports refuse commands that need an active port with NOT READY,
    /// ASYMMETRIC ACCESS STATE TRANSITION. It ends up to 100 ms late.
    ///
    /// # Panics
    /// If there is no such portal.
    pub fn begin_port_transition(
        &mut self,
        now: Time,
        portal: usize,
        state: AccessState,
        duration: Duration,
    ) {
        let group = self.port_group(portal);
        self.set_group_state(group, AccessState::Transitioning);
        let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
        let longest = &mut self.core.device.transition_seconds;
        *longest = (*longest).max(u8::try_from(seconds).unwrap_or(u8::MAX));
        let at = now + duration;
        self.core.transitions.push(Transition { group, state, at });
        self.core.outbox.check_by(at);
    }

    /// Ends the transitions of groups that are due.
    pub(super) fn end_transitions(&mut self, now: Time) {
        while let Some(index) = self.core.transitions.iter().position(|due| due.at <= now) {
            let Transition { group, state, .. } = self.core.transitions.remove(index);
            self.set_group_state(group, state);
        }
        if let Some(at) = self
            .core
            .transitions
            .iter()
            .map(|transition| transition.at)
            .min()
        {
            self.core.outbox.check_by(at);
        }
    }

    /// Returns the asymmetric access state of a portal's port.
    ///
    /// # Panics
    /// If there is no such portal.
    #[must_use]
    pub fn port_state(&self, portal: usize) -> AccessState {
        self.core.device.ports.state(portal)
    }

    /// Returns the position of the target port group of a portal, from 0.
    ///
    /// # Panics
    /// If there is no such portal.
    #[must_use]
    pub fn port_group(&self, portal: usize) -> usize {
        self.core.device.ports.group_of(portal)
    }

    /// Returns whether the target port group of a portal is the preferred one.
    ///
    /// # Panics
    /// If there is no such portal.
    #[must_use]
    pub fn is_preferred(&self, portal: usize) -> bool {
        self.core.device.ports.groups()[self.port_group(portal)].preferred
    }

    /// Adds a logical unit; every initiator gets UNIT ATTENTION, REPORTED LUNS DATA HAS CHANGED.
    ///
    /// # Panics
    /// If the description is one that [`Target::new`] refuses, or the LUN is in use.
    pub fn add_lu(&mut self, description: LuDescription) {
        self.core.device.units.add(description);
        self.attend_all(None, Sense::REPORTED_LUNS_DATA_CHANGED, None);
    }

    /// Returns the records that make everything that tape drives have written durable, and the LU
    /// on which they are to be written, when the array ends. Drives that still move data are left
    /// out.
    pub fn synchronise_tapes(&mut self) -> Option<(u8, Vec<TapeRecord>)> {
        self.core.device.units.synchronise_tapes()
    }

    /// Removes a logical unit; every initiator gets UNIT ATTENTION, REPORTED LUNS DATA HAS CHANGED.
    /// Its tasks end without an answer. The storage keeps the contents while [`Target::is_in_use`]
    /// is true. Returns false if there is no such LU.
    pub fn remove_lu(&mut self, now: Time, lun: u8) -> bool {
        if !self.core.device.units.remove(lun) {
            return false;
        }
        let tasks = self.core.tasks.iter();
        let unit_tasks: Vec<Key> = tasks
            .filter(|(_, task)| task.names(lun) && task.stage != Stage::Aborted)
            .map(|(key, _)| key)
            .collect();
        for key in unit_tasks {
            self.abort(key);
        }
        self.forget_lent(lun);
        for entry in self.connections.values_mut() {
            if let Some(session) = entry.conn.session_mut() {
                session.device.forget_unit(lun);
            }
        }
        self.attend_all(None, Sense::REPORTED_LUNS_DATA_CHANGED, None);
        self.core.outbox.freed = true;
        self.settle(now);
        true
    }

    /// Whether an access to an LU is in flight, or its memory is about to be sent.
    #[must_use]
    pub fn is_in_use(&self, lun: u8) -> bool {
        // A program may access another LU than its command names.
        let accesses = |task: &Task| match &task.job {
            Some(job) => job.accessing == Some(lun),
            None => task.lu == lun && matches!(task.stage, Stage::Io | Stage::Aborted),
        };
        let accessed = self.core.tasks.iter().any(|(_, task)| accesses(task));
        let mut connections = self.connections.iter();
        accessed || connections.any(|(_, entry)| entry.conn.link.transmit.names_lu(lun))
    }
}
