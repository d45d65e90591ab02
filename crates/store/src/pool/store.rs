//! A pool and the files of its groups.
use std::collections::VecDeque;

use hakaru_pool::{ActionFailure, Event, Failure, Outcome, Pool, VolumeId};
use hakaru_units::Time;
use slab::Slab;

use super::transfer::PoolAccess;
use super::work::Work;
use crate::context::{Notice, StoreContext};
use crate::gate::Stretch;
use crate::lu::Place;
use crate::request::{Committed, FileId};

/// An open pool.
#[derive(Debug)]
pub struct PoolStore {
    /// Number of the pool within the array.
    pub(super) number: usize,
    name: String,
    pub(super) core: Pool,
    /// Files by group number.
    pub(super) groups: Vec<GroupFile>,
    pub(super) accesses: Slab<PoolAccess>,
    pub(super) work: Slab<Work>,
    /// Completed management requests.
    pub(super) ordered: VecDeque<(u64, Result<Outcome, Failure>)>,
    notices: VecDeque<Notice>,
}

/// The file of a RAID group.
#[derive(Clone, Copy, Debug)]
pub struct GroupFile {
    /// The open file.
    pub file: FileId,
    /// Position of the group on the modelled drives.
    pub place: Place,
}

impl PoolStore {
    /// Creates the store of an open pool, with the files of its groups in order.
    #[must_use]
    pub fn new(name: String, core: Pool, groups: Vec<GroupFile>) -> PoolStore {
        PoolStore {
            number: 0,
            name,
            core,
            groups,
            accesses: Slab::new(),
            work: Slab::new(),
            ordered: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }

    /// Sets the number of the pool within the array.
    pub(crate) fn set_number(&mut self, number: usize) {
        self.number = number;
    }

    /// Returns the pool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the core, with its figures, volumes and groups.
    #[must_use]
    pub fn core(&self) -> &Pool {
        &self.core
    }

    /// Returns the volume of that name.
    #[must_use]
    pub fn volume_named(&self, name: &str) -> Option<VolumeId> {
        self.core.volume_named(name)
    }

    /// Adds the file of a new group. The caller then orders [`hakaru_pool::Request::AddGroup`].
    pub fn push_group(&mut self, group: GroupFile) {
        self.groups.push(group);
    }

    /// Removes the group that was pushed last, because the pool refused it. Returns whether there
    /// was one.
    pub fn forget_pushed_group(&mut self) -> bool {
        let added = self.core.groups().count();
        let pushed = self.groups.len() > added;
        self.groups.truncate(added);
        pushed
    }

    /// Returns the positions of all groups on the modelled drives, for a flush.
    pub(crate) fn stretches(&self) -> Vec<Stretch> {
        let groups = self.groups.iter().zip(self.core.groups());
        groups
            .map(|(file, group)| Stretch {
                group: file.place.group,
                offset_bytes: file.place.offset_bytes,
                length_bytes: group.size_bytes,
                unmapped: false,
            })
            .collect()
    }

    /// Handles a completed commit.
    pub(crate) fn handle_committed(&mut self, committed: Committed, context: &mut StoreContext) {
        let result = committed.result.map_err(|error| {
            let pool = self.number;
            self.notices.push_back(Notice::Broken { pool, error });
            ActionFailure::Io
        });
        self.core
            .set_metadata_is_low(context.now, committed.metadata_is_low);
        self.core
            .handle_action_done(context.now, committed.action, result);
        self.settle(context);
    }

    /// Handles the pool's deadlines that have passed.
    pub(crate) fn handle_timeout(&mut self, context: &mut StoreContext) {
        if self.core.poll_timeout().is_some_and(|at| at <= context.now) {
            self.core.handle_timeout(context.now);
            self.settle(context);
        }
    }

    /// Returns when [`PoolStore::handle_timeout`] must be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.core.poll_timeout()
    }

    /// Returns the next completed management request.
    pub(crate) fn poll_ordered(&mut self) -> Option<(u64, Result<Outcome, Failure>)> {
        self.ordered.pop_front()
    }

    /// Returns the next event to report to the operator or to initiators.
    pub(crate) fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Calls `visit` with each of the pool's counters.
    pub(crate) fn visit_counters(&self, visit: &mut dyn FnMut(&str, &str, f64)) {
        let entity = format!("pool/{}", self.name);
        let status = self.core.status();
        for (name, bytes) in [
            ("capacity_bytes_now", status.capacity_bytes),
            ("used_bytes_now", status.used_bytes),
            ("free_bytes_now", status.free_bytes),
            ("freeing_bytes_now", status.freeing_bytes),
            ("provisioned_bytes_now", status.provisioned_bytes),
            ("mapped_bytes_now", status.mapped_bytes),
            ("runs_now", status.runs),
            ("commits", status.commits),
            ("copies", status.copies),
        ] {
            visit(&entity, name, bytes as f64);
        }
        visit(&entity, "overcommit_now", status.overcommit);
        visit(
            &entity,
            "read_only_now",
            f64::from(u8::from(status.read_only)),
        );
    }

    /// Handles replies, actions and events of the pool until there are none.
    pub(super) fn settle(&mut self, context: &mut StoreContext) {
        loop {
            let mut progressed = false;
            while let Some(reply) = self.core.poll_reply() {
                progressed = true;
                self.handle_reply(reply.id.0 as usize, reply.outcome, context);
            }
            while let Some(action) = self.core.poll_action() {
                progressed = true;
                self.begin_work(action, context);
            }
            while let Some(event) = self.core.poll_event() {
                progressed = true;
                let pool = self.number;
                self.notices.extend(match event {
                    Event::ThresholdCrossed => Some(Notice::Threshold { pool }),
                    Event::ReadOnly => Some(Notice::ReadOnly { pool }),
                    Event::ThresholdCleared => None,
                });
            }
            if !progressed {
                return;
            }
        }
    }
}
