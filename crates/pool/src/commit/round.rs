//! Rounds: sync the data, then commit the maps that reference it, then answer the waiting requests.
//!
//! One round runs at a time. Requests that arrive meanwhile belong to the next round. The maps are
//! captured when the sync *starts*. This is safe because every page that they reference was either
//! zeros on stable storage when it was allocated, or copied before the sync, which covers the copy.

use std::mem;

use super::rounds::{DeletedVolume, Running};
use crate::access::in_flight::Attempt;
use crate::access::request::{Failure, Outcome, RequestId};
use crate::action::{ActionFailure, ActionKind};
use crate::actions::Pending;
use crate::commit::metadata::{Batch, GroupRecord, Superblock, VolumeRecord};
use crate::place::GroupId;
use crate::pool::Pool;
use crate::volume::{Volume, VolumeId};

/// Number of changed leaves in memory at which a round starts by itself: 16 MiB.
const DIRTY_LEAVES_MAX: usize = 4096;

impl Pool {
    pub(crate) fn mark_metadata_changed(&mut self) {
        self.rounds.metadata_changed = true;
        if self.rounds.deadline.is_none() && !self.read_only {
            self.rounds.deadline = Some(self.now + self.config.commit_interval);
        }
    }

    /// Keeps a volume that was removed from the pool until its deletion is durable. The references
    /// to its pages were dropped.
    pub(crate) fn commit_deletion(&mut self, id: VolumeId, volume: Volume) {
        let epoch = self.alloc.epochs.enter();
        self.rounds
            .deleted
            .push(DeletedVolume { id, volume, epoch });
        self.mark_metadata_changed();
    }

    /// Restores the volumes with a deletion that can no longer become durable. Their pages were
    /// neither discarded nor allocated.
    pub(crate) fn restore_deleted_volumes(&mut self) {
        let running = self.rounds.running.as_mut();
        let mut deleted = running.map_or_else(Vec::new, |running| mem::take(&mut running.deleted));
        deleted.append(&mut self.rounds.deleted);
        for DeletedVolume { id, volume, epoch } in deleted {
            self.alloc.epochs.leave(epoch);
            for (_, page) in volume.map.iter() {
                self.alloc.groups[page.group.index()].add_reference(page.page);
            }
            self.volumes.insert(id, volume);
        }
    }

    pub(crate) fn start_flush(&mut self, id: RequestId) -> Attempt {
        self.await_stable(id, Outcome::Done);
        Attempt::Started
    }

    /// Answers `id` with `outcome` once all changes up to now are on stable storage.
    pub(crate) fn await_stable(&mut self, id: RequestId, outcome: Outcome) {
        if self.read_only {
            self.fail(id, Failure::ReadOnly);
        } else if self.rounds.metadata_changed || self.alloc.groups.iter().any(|group| group.dirty)
        {
            self.rounds.waiters.push((id, outcome));
            self.rounds.wanted = true;
        } else if let Some(running) = &mut self.rounds.running {
            // The sync of the running round started after the last change.
            running.waiters.push((id, outcome));
        } else {
            self.reply(id, outcome);
        }
    }

    /// Starts a round if one is wanted and none runs.
    pub(crate) fn run_rounds(&mut self) {
        if self.read_only || self.rounds.running.is_some() {
            return;
        }
        if !self.rounds.wanted && self.rounds.dirty_leaves.len() < DIRTY_LEAVES_MAX {
            return;
        }
        self.rounds.wanted = false;
        self.rounds.deadline = None;
        let mut groups = Vec::new();
        for (index, group) in self.alloc.groups.iter_mut().enumerate() {
            if mem::take(&mut group.dirty) {
                groups.push(GroupId(index as u16));
            }
        }
        let deleted = mem::take(&mut self.rounds.deleted);
        let batch = self.rounds.metadata_changed.then(|| {
            let ids = deleted.iter().map(|deleted| deleted.id);
            Box::new(self.take_batch(ids.collect()))
        });
        let dropped = mem::take(&mut self.rounds.dropped);
        self.rounds.running = Some(Running {
            batch,
            epoch: self.alloc.epochs.advance(),
            dropped,
            deleted,
            waiters: mem::take(&mut self.rounds.waiters),
        });
        if groups.is_empty() {
            self.commit_round();
        } else {
            self.actions
                .start(ActionKind::Sync { groups }, Pending::RoundSync);
        }
    }

    pub(crate) fn handle_round_synced(&mut self, result: Result<(), ActionFailure>) {
        match result {
            Ok(()) => self.commit_round(),
            Err(_) => self.set_read_only(),
        }
    }

    fn commit_round(&mut self) {
        let Some(running) = &mut self.rounds.running else {
            return;
        };
        match running.batch.take() {
            Some(batch) => self
                .actions
                .start(ActionKind::Commit(batch), Pending::RoundCommit),
            None => self.end_round(),
        }
    }

    pub(crate) fn handle_round_committed(&mut self, result: Result<(), ActionFailure>) {
        match result {
            Ok(()) => {
                self.commits_made += 1;
                self.end_round();
            }
            Err(_) => self.set_read_only(),
        }
    }

    fn end_round(&mut self) {
        let Some(ended) = self.rounds.running.take() else {
            return;
        };
        for deleted in ended.deleted {
            self.alloc.epochs.leave(deleted.epoch);
        }
        for (id, outcome) in ended.waiters {
            self.reply(id, outcome);
        }
        if !ended.dropped.is_empty() {
            self.alloc
                .recycler
                .add_committed(ended.epoch, ended.dropped);
        }
        if self.alloc.is_contended {
            self.rounds.want_space();
        }
        self.retry = true;
    }

    fn take_batch(&mut self, deleted: Vec<VolumeId>) -> Batch {
        self.generation += 1;
        self.rounds.metadata_changed = false;
        let volume = |id: &VolumeId| Some((*id, VolumeRecord::of(self.volumes.get(id)?)));
        let leaf = |(id, index): &(VolumeId, u32)| {
            Some((*id, *index, self.volumes.get(id)?.map.leaf(*index).cloned()))
        };
        let group = |id: &GroupId| (*id, GroupRecord::of(&self.alloc.groups[id.index()]));
        let batch = Batch {
            superblock: Superblock {
                uuid: self.uuid,
                page_bytes: self.page_bytes,
                generation: self.generation,
                volume_next: self.volume_next,
                groups: self.alloc.groups.len() as u16,
                volumes: self.volumes.len() as u32,
            },
            volumes: self
                .rounds
                .dirty_volumes
                .iter()
                .filter_map(volume)
                .collect(),
            leaves: self.rounds.dirty_leaves.iter().filter_map(leaf).collect(),
            groups: self.rounds.dirty_groups.iter().map(group).collect(),
            deleted,
        };
        self.rounds.dirty_volumes.clear();
        self.rounds.dirty_leaves.clear();
        self.rounds.dirty_groups.clear();
        batch
    }
}
