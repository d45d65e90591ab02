//! The pool itself: its state, and the way of a request through it.
//!
//! A request that can go on at once does (`write.rs`, `unmap.rs`, `manage.rs`). One that cannot waits in a single queue and
//! is tried again, in order, whenever something it may wait for has happened: a page was copied, pages came back, writes
//! ended. What waits holds nothing, so nothing waits in a circle: an access learns its pages and takes its space in one step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hakaru_units::Time;
use slab::Slab;

use crate::action::{Action, ActionFailure, ActionId, ActionKind, Event};
use crate::config::PoolConfig;
use crate::epoch::Epochs;
use crate::group::{self, Group, GroupId};
use crate::map::PageId;
use crate::pieces::{Piece, Pieces};
use crate::recycle::Recycler;
use crate::request::{Access, Failure, Outcome, Reply, Request, RequestId};
use crate::round::Rounds;
use crate::unmap::Zeroing;
use crate::volume::{Volume, VolumeId};

/// A pool of thin-provisioned volumes. Made by [`crate::create`] or [`crate::open`]; see the crate for its grammar.
#[derive(Debug)]
pub struct Pool {
    pub(crate) config: PoolConfig,
    pub(crate) uuid: [u8; 16],
    pub(crate) page_bytes: u32,
    pub(crate) generation: u64,
    pub(crate) now: Time,
    pub(crate) groups: Vec<Group>,
    /// Where the search for the next page begins.
    pub(crate) group_next: usize,
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
    pub(crate) volume_next: u32,

    pub(crate) accesses: Slab<InFlight>,
    pub(crate) epochs: Epochs,
    /// Pages of volumes that are being copied: writes to them wait. (volume, its page)
    pub(crate) busy: BTreeSet<(VolumeId, u64)>,
    waiting: VecDeque<Waiting>,
    /// One that waits wants space: no other one behind it takes any.
    pub(crate) space_is_wanted: bool,
    /// Something happened that a waiting request may have waited for.
    pub(crate) retry: bool,

    pub(crate) rounds: Rounds,
    pub(crate) recycler: Recycler,
    pub(crate) threshold_is_told: bool,
    /// The metadata's own space is nearly used up: no page is given out.
    pub(crate) metadata_is_low: bool,
    /// Pages copied because others shared them.
    pub(crate) copies_made: u64,
    pub(crate) commits_made: u64,
    pub(crate) read_only: bool,

    action_next: u64,
    pending: BTreeMap<ActionId, Pending>,
    actions: VecDeque<Action>,
    replies: VecDeque<Reply>,
    events: VecDeque<Event>,
}

/// An access that knows its pages.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) id: RequestId,
    pub(crate) epoch: u64,
    pub(crate) volume: VolumeId,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Read,
    Write(crate::write::Writing),
    Unmap(Zeroing),
}

/// Whom the end of an action is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    /// A copy or zeroing for the access under this key.
    Access {
        key: usize,
        index: usize,
    },
    RoundSync,
    RoundCommit,
    Discard {
        index: usize,
    },
    RecycleSync,
}

/// What came of starting a request.
#[derive(Debug)]
pub(crate) enum Step {
    /// It is under way, or over.
    Gone,
    /// Not now.
    Wait(WaitFor),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// A page being copied, or the end of the writes to a volume.
    Others,
    /// Pages that are being freed.
    Space,
    /// That somebody gives pages back, or adds some.
    Room,
}

#[derive(Debug)]
struct Waiting {
    id: RequestId,
    request: Request,
    /// What for.
    why: WaitFor,
    /// When it fails if there is still no room; `None`: it has not waited for that yet.
    until: Option<Time>,
}

impl Pool {
    pub(crate) fn empty(config: PoolConfig, uuid: [u8; 16], page_bytes: u32) -> Pool {
        Pool {
            config,
            uuid,
            page_bytes,
            generation: 0,
            now: Time::ZERO,
            groups: Vec::new(),
            group_next: 0,
            volumes: BTreeMap::new(),
            volume_next: 0,
            accesses: Slab::default(),
            epochs: Epochs::new(),
            busy: BTreeSet::new(),
            waiting: VecDeque::new(),
            space_is_wanted: false,
            retry: false,
            rounds: Rounds::default(),
            recycler: Recycler::default(),
            threshold_is_told: false,
            metadata_is_low: false,
            copies_made: 0,
            commits_made: 0,
            read_only: false,
            action_next: 0,
            pending: BTreeMap::new(),
            actions: VecDeque::new(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes a request; it is answered by [`Pool::poll_reply`], at once where nothing has to be waited for.
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
        if let Step::Wait(why) = self.start(id, &request) {
            self.put_off(Waiting {
                id,
                request,
                why,
                until: None,
            });
        }
        self.settle();
    }

    /// The data of an access were moved, or (`ok` false) could not be: tell the initiator so. Ends the access; only a `fua` write
    /// that went well is answered once more.
    pub fn handle_moved(&mut self, now: Time, access: Access, ok: bool) {
        self.now = now;
        let ended = self.accesses.remove(access.0);
        self.epochs.leave(ended.epoch);
        if let Kind::Write(writing) = ended.kind {
            self.end_write(ended.id, ended.volume, &writing, ok);
        }
        self.settle();
    }

    /// An action was done, or failed.
    ///
    /// # Panics
    /// If there is no such action (any more).
    pub fn handle_action_done(
        &mut self,
        now: Time,
        id: ActionId,
        result: Result<(), ActionFailure>,
    ) {
        self.now = now;
        let pending = self
            .pending
            .remove(&id)
            .expect("an action is answered once");
        match pending {
            Pending::Access { key, index } => self.handle_page_action(key, index, result),
            Pending::RoundSync => self.handle_round_synced(result),
            Pending::RoundCommit => self.handle_round_committed(result),
            Pending::Discard { index } => self.handle_discarded(index, result),
            Pending::RecycleSync => self.handle_recycle_synced(result),
        }
        self.settle();
    }

    /// The time [`Pool::poll_timeout`] gave has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        if self.rounds.deadline.is_some_and(|at| at <= now) {
            // Not asked for again while the round before still runs.
            self.rounds.deadline = None;
            self.rounds.want();
        }
        self.retry |= self.room_deadline().is_some_and(|at| at <= now);
        self.settle();
    }

    /// The metadata's file can (false) or cannot (true) grow any more. While it cannot, no page is given out, as if the pool
    /// were full; giving back and deleting still work, from what the store keeps for that. See [`crate::metadata::Store::space_is_low`].
    pub fn set_metadata_is_low(&mut self, now: Time, low: bool) {
        self.now = now;
        self.retry |= self.metadata_is_low && !low;
        self.metadata_is_low = low;
        self.settle();
    }

    /// Takes back a request that still waits (for space, for a copy). True: it will not be answered and nothing was done.
    pub fn cancel(&mut self, now: Time, id: RequestId) -> bool {
        self.now = now;
        let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) else {
            return false;
        };
        let waiting = self.waiting.remove(at).expect("it was found there");
        self.release_barrier(&waiting.request);
        self.retry = true;
        self.settle();
        true
    }

    /// The next answer.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next thing to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Pool::handle_timeout`] is wanted.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadlines = [self.rounds.deadline, self.room_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// When the first of those that wait for room fails.
    fn room_deadline(&self) -> Option<Time> {
        let held = self
            .waiting
            .iter()
            .filter(|waiting| waiting.why == WaitFor::Room);
        held.filter_map(|waiting| waiting.until).min()
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// The pool's own number.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// A sync or a commit has failed; only reads are served.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Nothing is under way: no access, action, or waiting request. (Changes may still be in memory only: flush.)
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.accesses.is_empty() && self.pending.is_empty() && self.waiting.is_empty()
    }

    pub(crate) fn reply(&mut self, id: RequestId, outcome: Outcome) {
        self.replies.push_back(Reply { id, outcome });
    }

    pub(crate) fn fail(&mut self, id: RequestId, failure: Failure) {
        self.reply(id, Outcome::Failed(failure));
    }

    pub(crate) fn act(&mut self, kind: ActionKind, whom: Pending) {
        let id = ActionId(self.action_next);
        self.action_next += 1;
        self.pending.insert(id, whom);
        self.actions.push_back(Action { id, kind });
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// A sync or commit failed: what is on stable storage is not known any more, so nothing is changed any more.
    pub(crate) fn set_read_only(&mut self) {
        if !self.read_only {
            self.read_only = true;
            self.restore_deleted_volumes();
            self.tell(Event::ReadOnly);
            for id in self.rounds.take_all_waiters() {
                self.fail(id, Failure::ReadOnly);
            }
            self.rounds.deadline = None;
            self.retry = true;
        }
    }

    pub(crate) fn group(&mut self, id: GroupId) -> &mut Group {
        &mut self.groups[id.index()]
    }

    /// Nobody else counts on the page: the volume that maps it may overwrite it in place.
    pub(crate) fn is_exclusive(&self, page: PageId) -> bool {
        let references = self.groups[page.group.index()].references(page.page);
        references.live == 1 && references.dropping == 0
    }

    fn start_read(
        &mut self,
        id: RequestId,
        volume_id: VolumeId,
        offset_bytes: u64,
        length_bytes: u32,
    ) {
        let (volume, epoch_open) = match self.volumes.get(&volume_id) {
            Some(volume) => (volume, None),
            None => match self.rounds.volume_being_deleted(volume_id) {
                Some((volume, epoch)) => (volume, Some(epoch)),
                None => return self.fail(id, Failure::NoVolume),
            },
        };
        if !volume.contains(offset_bytes, length_bytes.into()) {
            return self.fail(id, Failure::OutOfRange);
        }
        let pieces = pieces(volume, self.page_bytes, offset_bytes, length_bytes);
        let epoch = match epoch_open {
            None => self.epochs.enter(),
            Some(epoch) => {
                self.epochs.join(epoch);
                epoch
            }
        };
        let access = Access(self.accesses.insert(InFlight {
            id,
            epoch,
            volume: volume_id,
            kind: Kind::Read,
        }));
        self.reply(id, Outcome::Ready { access, pieces });
    }

    fn start(&mut self, id: RequestId, request: &Request) -> Step {
        if self.read_only && !matches!(request, Request::Read { .. }) {
            self.fail(id, Failure::ReadOnly);
            return Step::Gone;
        }
        match request {
            Request::Read { .. } => unreachable!("a read never waits"),
            Request::Write { volume, .. } | Request::Unmap { volume, .. }
                if self.rounds.is_being_deleted(*volume) =>
            {
                // Fails if the deletion succeeds, and is refused with the deletion if it does not.
                Step::Wait(WaitFor::Others)
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

    /// Tries what waits once more, in order.
    fn run_waiting(&mut self) {
        self.space_is_wanted = false;
        for _ in 0..self.waiting.len() {
            let waiting = self.waiting.pop_front().expect("counted above");
            self.release_barrier(&waiting.request);
            if let Step::Wait(why) = self.start(waiting.id, &waiting.request) {
                self.put_off(Waiting { why, ..waiting });
            }
        }
    }

    fn put_off(&mut self, mut waiting: Waiting) {
        if waiting.why == WaitFor::Space {
            self.space_is_wanted = true;
            self.rounds.want_space();
        }
        if waiting.why == WaitFor::Room {
            let until = self.now + self.config.hold_when_full;
            if *waiting.until.get_or_insert(until) <= self.now {
                return self.fail(waiting.id, Failure::Full);
            }
        }
        self.take_barrier(&waiting.request);
        self.waiting.push_back(waiting);
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

    /// After every call: lets everything go on that can.
    pub(crate) fn settle(&mut self) {
        loop {
            if core::mem::take(&mut self.retry) && !self.waiting.is_empty() {
                self.run_waiting();
            }
            self.run_rounds();
            self.run_recycler();
            if !self.retry || self.waiting.is_empty() {
                break;
            }
        }
        self.check_threshold();
    }
}

/// Where a range of a volume lies.
pub(crate) fn pieces(
    volume: &Volume,
    page_bytes: u32,
    offset_bytes: u64,
    length_bytes: u32,
) -> Pieces {
    let mut pieces = Pieces::default();
    let shift = page_bytes.trailing_zeros();
    let (mut at, mut left) = (offset_bytes, length_bytes);
    while left > 0 {
        let within = (at & u64::from(page_bytes - 1)) as u32;
        let length_bytes = left.min(page_bytes - within);
        pieces.push(match volume.map.get(at >> shift) {
            Some(page) => {
                let mut place = group::place(page.group, page.page, page_bytes);
                place.offset_bytes += u64::from(within);
                Piece::Data {
                    place,
                    length_bytes,
                }
            }
            None => Piece::Zeros { length_bytes },
        });
        at += u64::from(length_bytes);
        left -= length_bytes;
    }
    pieces
}
