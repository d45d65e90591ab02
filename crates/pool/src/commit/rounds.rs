//! The state of rounds: what changed since the last one began, and the one that runs.

use std::collections::BTreeSet;

use hakaru_units::Time;

use super::metadata::Batch;
use crate::access::request::{Outcome, RequestId};
use crate::map::PageId;
use crate::place::GroupId;
use crate::volume::{Volume, VolumeId};

/// Changes since the last round began, and the round that runs.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) dirty_leaves: BTreeSet<(VolumeId, u32)>,
    pub(crate) dirty_volumes: BTreeSet<VolumeId>,
    pub(crate) dirty_groups: BTreeSet<GroupId>,
    /// Volumes deleted since the last round began.
    pub(super) deleted: Vec<DeletedVolume>,
    /// References dropped in the present epoch.
    pub(crate) dropped: Vec<PageId>,
    pub(super) metadata_changed: bool,
    pub(super) waiters: Vec<(RequestId, Outcome)>,
    pub(super) running: Option<Running>,
    pub(super) wanted: bool,
    /// When what changed is committed unasked.
    pub(crate) deadline: Option<Time>,
}

/// A volume whose deletion is not durable yet. It is still read, and comes back if the commit
/// fails.
#[derive(Debug)]
pub(super) struct DeletedVolume {
    pub(super) id: VolumeId,
    pub(super) volume: Volume,
    /// The epoch its pages were dropped in, kept open until the deletion is durable: reads join it,
    /// so that no page is given out under them.
    pub(super) epoch: u64,
}

#[derive(Debug)]
pub(super) struct Running {
    /// Until it is handed out.
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

    /// Whether the volume was deleted and that is not durable yet.
    pub(crate) fn is_being_deleted(&self, id: VolumeId) -> bool {
        self.deleted().any(|deleted| deleted.id == id)
    }

    /// A volume whose deletion is not durable yet, and the epoch that reads of it join.
    pub(crate) fn volume_being_deleted(&self, id: VolumeId) -> Option<(&Volume, u64)> {
        let mut deleted = self.deleted();
        let matching = deleted.find(|deleted| deleted.id == id)?;
        Some((&matching.volume, matching.epoch))
    }

    /// Asks for a round.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Asks for a round if it brings pages back.
    pub(crate) fn want_space(&mut self) {
        self.wanted |= !self.dropped.is_empty();
    }

    /// Takes the requests that wait for a round: none will come.
    pub(crate) fn take_all_waiters(&mut self) -> Vec<RequestId> {
        let running = self.running.take();
        let ended = running.into_iter().flat_map(|running| running.waiters);
        ended
            .chain(self.waiters.drain(..))
            .map(|(id, _)| id)
            .collect()
    }
}
