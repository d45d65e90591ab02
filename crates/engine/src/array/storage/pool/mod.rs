//! A pool and the files behind it: the shell around [`hakaru_pool::Pool`].
//!
//! The pool decides where the bytes of a volume lie; here they are moved. Everything is driven by three kinds of events: accesses and
//! orders that come in, requests to files that end, commits that the store's thread has done. After each the pool's
//! answers and actions are taken ([`PoolStore::settle`]). The loop never waits for a file or the store.
//!
//! | file | what it is |
//! |---|---|
//! | `open.rs` | a pool's directory: made, opened, locked, checked |
//! | `access.rs` | an initiator's access: asked, moved piece by piece, answered |
//! | `action.rs` | what the pool wants done: copies, holes, syncs, commits |
mod access;
mod action;
mod open;

use std::collections::VecDeque;

use hakaru_pool::metadata::{Store, StoreError};
use hakaru_pool::{ActionFailure, ActionId, Event, Failure, Outcome, Pool, VolumeId};
use hakaru_runtime::disk::PoolLock;
use hakaru_runtime::worker::Worker;
use hakaru_units::Time;

use super::files::{Finished, OpenFile};
use super::gate::Stretch;
use super::slab::Slab;
use super::{Notice, Purpose, Way};

pub use self::open::{PoolFailure, check};

use self::access::Asked;
use self::action::Acting;

/// A pool that is open.
pub struct PoolStore {
    /// Its place among the array's pools.
    number: usize,
    name: String,
    core: Pool,
    /// By the group's number.
    groups: Vec<GroupFile>,
    store: Worker<Store, StoreDone>,
    asked: Slab<Asked>,
    acting: Slab<Acting>,
    /// What came of the operator's orders.
    ordered: VecDeque<(u64, Result<Outcome, Failure>)>,
    notices: VecDeque<Notice>,
    directory: std::path::PathBuf,
    direct: bool,
    /// The file that was made for the group prepared last; `None` if it was there before.
    prepared_file: Option<std::path::PathBuf>,
    _lock: PoolLock,
}

/// The file of a RAID group, and its place on the modelled drives.
struct GroupFile {
    file: OpenFile,
    model_group: u32,
    model_offset_bytes: u64,
}

/// What the store's thread has done.
pub enum StoreDone {
    /// A commit.
    Committed(ActionId, Committed),
}

/// How a commit went; and whether the space for metadata is nearly used up.
type Committed = (Result<(), StoreError>, bool);

impl PoolStore {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The core: figures, volumes, groups.
    pub fn core(&self) -> &Pool {
        &self.core
    }

    /// The volume of that name.
    pub fn volume_named(&self, name: &str) -> Option<VolumeId> {
        self.core.volume_named(name)
    }

    /// Where the groups lie on the modelled drives, whole: for a flush.
    pub fn stretches(&self) -> Vec<Stretch> {
        let groups = self.groups.iter().zip(self.core.groups());
        groups
            .map(|(file, group)| Stretch {
                group: file.model_group,
                offset_bytes: file.model_offset_bytes,
                length_bytes: group.size_bytes,
            })
            .collect()
    }

    /// The reactor told of the store's token.
    pub fn handle_store_event(&mut self, way: &mut Way) {
        self.store.handle_event();
        while let Some(StoreDone::Committed(id, (committed, metadata_is_low))) =
            self.store.poll_done()
        {
            let result = committed.map_err(|e| {
                self.notices.push_back(Notice::Broken {
                    pool: self.number,
                    why: e.to_string(),
                });
                ActionFailure::Io
            });
            self.core.set_metadata_is_low(way.now, metadata_is_low);
            self.core.handle_action_done(way.now, id, result);
        }
        self.settle(way);
    }

    /// The time of [`PoolStore::poll_timeout`] has come, or not.
    pub fn handle_timeout(&mut self, way: &mut Way) {
        if self.core.poll_timeout().is_some_and(|at| at <= way.now) {
            self.core.handle_timeout(way.now);
            self.settle(way);
        }
    }

    /// When [`PoolStore::handle_timeout`] is wanted next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.core.poll_timeout()
    }

    /// What came of an order.
    pub fn poll_ordered(&mut self) -> Option<(u64, Result<Outcome, Failure>)> {
        self.ordered.pop_front()
    }

    /// Something the operator and the initiators should know.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Gives the pool's counters.
    pub fn visit_counters(&self, visit: &mut dyn FnMut(&str, &str, f64)) {
        let entity = format!("pool/{}", self.name);
        let status = self.core.status();
        for (name, bytes) in [
            ("capacity_bytes_now", status.capacity_bytes),
            ("used_bytes_now", status.used_bytes),
            ("free_bytes_now", status.free_bytes),
            ("freeing_bytes_now", status.freeing_bytes),
            ("provisioned_bytes_now", status.provisioned_bytes),
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

    /// Takes all that the pool has to say, until it has nothing more to say.
    fn settle(&mut self, way: &mut Way) {
        loop {
            let mut said = false;
            while let Some(reply) = self.core.poll_reply() {
                said = true;
                self.take_reply(reply.id.0, reply.outcome, way);
            }
            while let Some(action) = self.core.poll_action() {
                said = true;
                self.begin(action, way);
            }
            while let Some(event) = self.core.poll_event() {
                said = true;
                self.notices.extend(match event {
                    Event::ThresholdCrossed => Some(Notice::Threshold { pool: self.number }),
                    Event::ReadOnly => Some(Notice::ReadOnly { pool: self.number }),
                    Event::ThresholdCleared => None,
                });
            }
            if !said {
                return;
            }
        }
    }
}
