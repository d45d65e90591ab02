//! The pool itself: its state, and the path of a request through it.
//!
//! A request starts at once if it can (`access/`, `manage`). Otherwise it waits in a single queue.
//! The pool retries the queue in order whenever an event occurs for which a request may wait: a
//! page was copied, pages were recycled, or writes ended. An access resolves its pages and
//! allocates its space in one step. A waiting request therefore holds nothing, and no deadlock is
//! possible.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hakaru_units::Time;
use slab::Slab;

use crate::access::in_flight::{AccessKind, Attempt, InFlight, WaitFor};
use crate::access::request::{Access, Failure, Outcome, Reply, Request, RequestId};
use crate::action::{Action, ActionFailure, ActionId, Event};
use crate::actions::{Actions, Pending};
use crate::alloc::allocator::Allocator;
use crate::commit::rounds::Rounds;
use crate::config::PoolConfig;
use crate::map::PageId;
use crate::threshold::SoftThreshold;
use crate::volume::{Volume, VolumeId};
use crate::waiting::{Waiting, WaitingQueue};

/// A pool of thin-provisioned volumes, created by [`crate::create`] or [`crate::open`]. The
/// documentation of the crate describes the sequence of calls.
#[derive(Debug)]
pub struct Pool {
    pub(crate) config: PoolConfig,
    pub(crate) uuid: [u8; 16],
    pub(crate) page_bytes: u32,
    pub(crate) generation: u64,
    pub(crate) now: Time,
    pub(crate) alloc: Allocator,
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
    pub(crate) volume_next: u32,

    pub(crate) accesses: Slab<InFlight>,
    /// Pages of volumes that are being copied, as (volume, its page). Writes to them wait.
    pub(crate) busy: BTreeSet<(VolumeId, u64)>,
    waiting: WaitingQueue,
    /// Whether an event occurred for which a request may be waiting.
    pub(crate) retry: bool,

    pub(crate) rounds: Rounds,
    threshold: SoftThreshold,
    /// Number of shared pages copied since the pool was opened.
    pub(crate) copies_made: u64,
    pub(crate) commits_made: u64,
    pub(crate) read_only: bool,

    pub(crate) actions: Actions,
    replies: VecDeque<Reply>,
    events: VecDeque<Event>,
}

impl Pool {
    pub(crate) fn empty(config: PoolConfig, uuid: [u8; 16], page_bytes: u32) -> Pool {
        Pool {
            config,
            uuid,
            page_bytes,
            generation: 0,
            now: Time::ZERO,
            alloc: Allocator::new(page_bytes),
            volumes: BTreeMap::new(),
            volume_next: 0,
            accesses: Slab::default(),
            busy: BTreeSet::new(),
            waiting: WaitingQueue::default(),
            retry: false,
            rounds: Rounds::default(),
            threshold: SoftThreshold::default(),
            copies_made: 0,
            commits_made: 0,
            read_only: false,
            actions: Actions::default(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Accepts a request. [`Pool::poll_reply`] returns the answer, at once unless the request must
    /// wait.
    pub fn handle_request(&mut self, now: Time, id: RequestId, request: Request) {
        self.now = now;
        if let Request::Read {
            volume,
            offset_bytes,
            length_bytes,
        } = request
        {
            self.start_read(id, volume, offset_bytes, length_bytes);
            return;
        }
        if let Attempt::Wait(reason) = self.start(id, &request) {
            self.defer(Waiting {
                id,
                request,
                reason,
                until: None,
            });
        }
        self.settle();
    }

    /// Ends an access after its data was transferred or, if `ok` is false, the transfer failed.
    /// Only a successful `fua` write receives another reply.
    pub fn handle_moved(&mut self, now: Time, access: Access, ok: bool) {
        self.now = now;
        let ended = self.accesses.remove(access.0);
        self.alloc.epochs.leave(ended.epoch);
        if let AccessKind::Write(writing) = ended.kind {
            self.end_write(ended.id, ended.volume, &writing, ok);
        }
        self.settle();
    }

    /// Handles a completed action.
    ///
    /// # Panics
    /// If no action `id` is in progress.
    pub fn handle_action_done(
        &mut self,
        now: Time,
        id: ActionId,
        result: Result<(), ActionFailure>,
    ) {
        self.now = now;
        match self.actions.finish(id) {
            Pending::Access { key, index } => self.handle_page_action(key, index, result),
            Pending::RoundSync => self.handle_round_synced(result),
            Pending::RoundCommit => self.handle_round_committed(result),
            Pending::Discard { index } => {
                let recycler = &mut self.alloc.recycler;
                recycler.handle_discarded(index, result, &mut self.actions);
            }
            Pending::RecycleSync if result.is_err() => self.set_read_only(),
            Pending::RecycleSync => {
                self.alloc.end_recycling();
                self.retry = true;
            }
        }
        self.settle();
    }

    /// Handles the deadlines of [`Pool::poll_timeout`] that have passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        if self.rounds.deadline.is_some_and(|at| at <= now) {
            // Cleared, so that it is not reported again while the previous round runs.
            self.rounds.deadline = None;
            self.rounds.want();
        }
        self.retry |= self.waiting.room_deadline().is_some_and(|at| at <= now);
        self.settle();
    }

    /// Sets whether the metadata's file lacks space to grow. If so, no page is allocated, as if the
    /// pool were full. Deallocation and deletion still work, using the store's reserve. See
    /// [`crate::commit::metadata::Store::space_is_low`].
    pub fn set_metadata_is_low(&mut self, now: Time, low: bool) {
        self.now = now;
        self.retry |= self.alloc.metadata_is_low && !low;
        self.alloc.metadata_is_low = low;
        self.settle();
    }

    /// Cancels a request that still waits, for space or for a copy. Returns true if the request
    /// was cancelled: it had no effect and receives no reply.
    pub fn cancel(&mut self, now: Time, id: RequestId) -> bool {
        self.now = now;
        let Some(waiting) = self.waiting.remove(id) else {
            return false;
        };
        self.release_barrier(&waiting.request);
        self.retry = true;
        self.settle();
        true
    }

    /// Returns the next reply.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Returns the next action to carry out.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.poll()
    }

    /// Returns the next event to report.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Pool::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadlines = [self.rounds.deadline, self.waiting.room_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Returns the page size, bytes.
    #[must_use]
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Returns the identifier of the pool.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns whether a sync or a commit has failed; only reads are served then.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns whether no access, action or waiting request is in progress. Changes may still be in
    /// memory only, until a flush.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.accesses.is_empty() && self.actions.is_empty() && self.waiting.is_empty()
    }

    pub(crate) fn reply(&mut self, id: RequestId, outcome: Outcome) {
        self.replies.push_back(Reply { id, outcome });
    }

    pub(crate) fn fail(&mut self, id: RequestId, failure: Failure) {
        self.reply(id, Outcome::Failed(failure));
    }

    pub(crate) fn report(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Makes the pool read-only after a failed sync or commit, because the state of stable storage
    /// is unknown.
    pub(crate) fn set_read_only(&mut self) {
        if !self.read_only {
            self.read_only = true;
            self.restore_deleted_volumes();
            self.report(Event::ReadOnly);
            for id in self.rounds.take_all_waiters() {
                self.fail(id, Failure::ReadOnly);
            }
            self.rounds.deadline = None;
            self.retry = true;
        }
    }

    /// Drops a reference of a map, or of a copy that failed.
    pub(crate) fn drop_page(&mut self, page: PageId) {
        self.alloc.group(page.group).drop_reference(page.page);
        self.rounds.dropped.push(page);
        self.mark_metadata_changed();
        self.retry = true;
    }

    fn start(&mut self, id: RequestId, request: &Request) -> Attempt {
        if self.read_only && !matches!(request, Request::Read { .. }) {
            self.fail(id, Failure::ReadOnly);
            return Attempt::Started;
        }
        match request {
            Request::Read { .. } => unreachable!("a read never waits"),
            Request::Write { volume, .. } | Request::Unmap { volume, .. }
                if self.rounds.is_being_deleted(*volume) =>
            {
                // Fails with `NoVolume` once the deletion is durable. If the deletion fails, the
                // pool becomes read-only and refuses the request.
                Attempt::Wait(WaitFor::Others)
            }
            Request::Write {
                volume,
                offset_bytes,
                length_bytes,
                fua,
            } => self.start_write(id, *volume, *offset_bytes, *length_bytes, *fua),
            Request::Unmap {
                volume,
                ranges,
                fua,
            } => self.start_unmap(id, *volume, ranges, *fua),
            Request::Flush => self.start_flush(id),
            Request::AddGroup { name, size_bytes } => self.add_group(id, name, *size_bytes),
            Request::Create {
                name,
                size_bytes,
                quota_bytes,
            } => self.create_volume(id, name, *size_bytes, *quota_bytes),
            Request::Snapshot {
                volume,
                name,
                read_only,
                quota_bytes,
            } => self.copy_volume(id, *volume, name, *read_only, *quota_bytes),
            Request::Resize { volume, size_bytes } => self.resize_volume(id, *volume, *size_bytes),
            Request::SetQuota {
                volume,
                quota_bytes,
            } => self.set_quota(id, *volume, *quota_bytes),
            Request::Delete { volume } => self.delete_volume(id, *volume),
        }
    }

    /// Tries the waiting requests again, in order.
    fn run_waiting(&mut self) {
        self.alloc.is_contended = false;
        for _ in 0..self.waiting.len() {
            let waiting = self.waiting.pop().expect("the queue was not empty");
            self.release_barrier(&waiting.request);
            if let Attempt::Wait(reason) = self.start(waiting.id, &waiting.request) {
                self.defer(Waiting { reason, ..waiting });
            }
        }
    }

    fn defer(&mut self, mut waiting: Waiting) {
        if waiting.reason == WaitFor::Space {
            self.alloc.is_contended = true;
            self.rounds.want_space();
        }
        if waiting.reason == WaitFor::Room {
            let until = self.now + self.config.hold_when_full;
            if *waiting.until.get_or_insert(until) <= self.now {
                return self.fail(waiting.id, Failure::Full);
            }
        }
        self.take_barrier(&waiting.request);
        self.waiting.push(waiting);
    }

    fn take_barrier(&mut self, request: &Request) {
        if let Request::Snapshot { volume, .. } | Request::Delete { volume } = request
            && let Some(volume) = self.volumes.get_mut(volume)
        {
            volume.barriers += 1;
        }
    }

    fn release_barrier(&mut self, request: &Request) {
        if let Request::Snapshot { volume, .. } | Request::Delete { volume } = request
            && let Some(volume) = self.volumes.get_mut(volume)
        {
            volume.barriers -= 1;
        }
    }

    /// Starts everything that can start; called at the end of every call.
    pub(crate) fn settle(&mut self) {
        loop {
            if core::mem::take(&mut self.retry) {
                // If no request waits any more, this ends the contention for space.
                self.run_waiting();
            }
            self.run_rounds();
            if !self.read_only {
                self.retry |= self.alloc.recycle(&mut self.actions);
            }
            if !self.retry || self.waiting.is_empty() {
                break;
            }
        }
        let (total, used) = self.alloc.total_and_used_pages();
        let percent = self.config.soft_threshold_percent.into();
        if let Some(event) = self.threshold.update(used, total, percent) {
            self.report(event);
        }
    }
}
