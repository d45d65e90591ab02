//! State of the rounds: changes since the last one started, and the running one.

use std::collections::BTreeSet;

use hakaru_units::Time;

use super::metadata::Batch;
use crate::access::request::{Outcome, RequestId};
use crate::map::PageId;
use crate::place::GroupId;
use crate::volume::{Volume, VolumeId};

/// Changes since the last round started, and the running round.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) dirty_leaves: BTreeSet<(VolumeId, u32)>,
    pub(crate) dirty_volumes: BTreeSet<VolumeId>,
    pub(crate) dirty_groups: BTreeSet<GroupId>,
    /// Volumes deleted since the last round started.
    pub(super) deleted: Vec<DeletedVolume>,
    /// References dropped in the current epoch.
    pub(crate) dropped: Vec<PageId>,
    pub(super) metadata_changed: bool,
    pub(super) waiters: Vec<(RequestId, Outcome)>,
    pub(super) running: Option<Running>,
    pub(super) wanted: bool,
    /// Deadline at which changes are committed without a flush.
    pub(crate) deadline: Option<Time>,
}

/// A volume with a deletion that is not durable yet. It is still readable, and is restored if the
/// commit fails.
#[derive(Debug)]
pub(super) struct DeletedVolume {
    pub(super) id: VolumeId,
    pub(super) volume: Volume,
    /// Epoch in which its pages were dropped. It stays open until the deletion is durable. Reads
    /// join it, so that their pages are not allocated again.
    pub(super) epoch: u64,
}

#[derive(Debug)]
pub(super) struct Running {
    /// The batch, until it is passed to the caller.
    pub(super) batch: Option<Box<Batch>>,
    pub(super) epoch: u64,
    pub(super) dropped: Vec<PageId>,
    pub(super) deleted: Vec<DeletedVolume>,
    pub(super) waiters: Vec<(RequestId, Outcome)>,
}

impl Rounds {
    fn deleted(&self) -> impl Iterator<Item = &DeletedVolume> {
        let running = self.running.iter().flat_map(|running| &running.deleted);
        running.chain(&self.deleted)
    }

    /// Returns whether the volume was deleted and its deletion is not durable yet.
    pub(crate) fn is_being_deleted(&self, id: VolumeId) -> bool {
        self.deleted().any(|deleted| deleted.id == id)
    }

    /// Returns a deleted volume if its deletion is not durable yet, and the epoch that reads of the
    /// volume join.
    pub(crate) fn volume_being_deleted(&self, id: VolumeId) -> Option<(&Volume, u64)> {
        let mut deleted = self.deleted();
        let matching = deleted.find(|deleted| deleted.id == id)?;
        Some((&matching.volume, matching.epoch))
    }

    /// Requests a round.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Requests a round if it would free pages.
    pub(crate) fn want_space(&mut self) {
        self.wanted |= !self.dropped.is_empty();
    }

    /// Removes and returns the requests that wait for a round, because no round will follow.
    pub(crate) fn take_all_waiters(&mut self) -> Vec<RequestId> {
        let running = self.running.take();
        let ended = running.into_iter().flat_map(|running| running.waiters);
        ended
            .chain(self.waiters.drain(..))
            .map(|(id, _)| id)
            .collect()
    }
}
