//! Writes: allocate new pages, copy shared pages, then return the pieces.

use crate::access::in_flight::{
    AccessKind, Attempt, Copies, Copying, Groups, InFlight, WaitFor, Writing,
};
use crate::access::pieces::pieces;
use crate::access::request::{Access, Failure, Outcome, RequestId};
use crate::action::{ActionFailure, ActionKind};
use crate::actions::Pending;
use crate::alloc::allocator::Space;
use crate::map::{LEAF_ENTRIES, PageId};
use crate::place::Place;
use crate::pool::Pool;
use crate::volume::VolumeId;

/// Numbers of pages that a write needs.
#[derive(Clone, Copy, Debug, Default)]
struct PagesNeeded {
    /// Pages to map where the volume has none.
    fresh: u64,
    /// Pages for copies of shared pages.
    shared: u64,
    /// Part of `shared` that replaces pages that become exclusive without a copy.
    settling: u64,
}

impl Pool {
    pub(crate) fn start_write(
        &mut self,
        id: RequestId,
        volume_id: VolumeId,
        offset_bytes: u64,
        length_bytes: u32,
        fua: bool,
    ) -> Attempt {
        let (first, last) = match self.writable(volume_id, offset_bytes, length_bytes.into()) {
            Ok(pages) => pages,
            Err(failure) => {
                self.fail(id, failure);
                return Attempt::Started;
            }
        };
        if self.must_wait(volume_id, first, last) {
            return Attempt::Wait(WaitFor::Others);
        }
        let PagesNeeded {
            fresh,
            shared,
            settling,
        } = self.count_pages_needed(volume_id, first, last);
        if fresh > 0 && self.exceeds_quota(volume_id, fresh) {
            self.fail(id, Failure::Quota);
            return Attempt::Started;
        }
        match self.alloc.space_for(fresh + shared, settling) {
            Space::Available => {}
            Space::Coming => return Attempt::Wait(WaitFor::Space),
            Space::Full => return Attempt::Wait(WaitFor::Room),
        }
        if fresh > 0 {
            self.map_fresh_pages(volume_id, first, last);
        }
        let key = self.enter_change(id, volume_id, |copies| {
            AccessKind::Write(Writing {
                offset_bytes,
                length_bytes,
                fua,
                copies,
                groups: Groups::default(),
            })
        });
        if shared == 0 {
            self.make_write_ready(key);
        } else {
            let copies = self.start_copies(key, volume_id, first..=last, vec![(first, last)]);
            let AccessKind::Write(writing) = &mut self.accesses[key].kind else {
                unreachable!("the access was inserted as a write");
            };
            writing.copies = copies;
        }
        Attempt::Started
    }

    /// Counts the pages that a write to the pages `first` to `last` needs.
    fn count_pages_needed(&self, volume_id: VolumeId, first: u64, last: u64) -> PagesNeeded {
        let map = &self.volumes[&volume_id].map;
        let mut needed = PagesNeeded::default();
        for page in first..=last {
            match map.get(page) {
                None => needed.fresh += 1,
                Some(at) if !self.alloc.is_exclusive(at) => {
                    needed.shared += 1;
                    needed.settling += u64::from(self.alloc.is_settling(at));
                }
                Some(_) => {}
            }
        }
        needed
    }

    /// Allocates a page for each unmapped page from `first` to `last`.
    fn map_fresh_pages(&mut self, volume_id: VolumeId, first: u64, last: u64) {
        for page in first..=last {
            if self.volumes[&volume_id].map.get(page).is_none() {
                let at = self.alloc.take_page();
                self.set_mapping(volume_id, page, Some(at));
            }
        }
    }

    /// Returns the first and last page of a range, or the reason why it is not writable.
    pub(crate) fn writable(
        &self,
        volume: VolumeId,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(u64, u64), Failure> {
        let volume = self.volumes.get(&volume).ok_or(Failure::NoVolume)?;
        if volume.read_only {
            return Err(Failure::Snapshot);
        }
        if !volume.contains(offset_bytes, length_bytes) {
            return Err(Failure::OutOfRange);
        }
        let shift = self.page_bytes.trailing_zeros();
        Ok((
            offset_bytes >> shift,
            (offset_bytes + length_bytes - 1) >> shift,
        ))
    }

    /// Returns whether an access must wait, because a snapshot or deletion of the volume is pending
    /// or one of the pages is being copied.
    pub(crate) fn must_wait(&self, volume: VolumeId, first: u64, last: u64) -> bool {
        self.volumes[&volume].barriers > 0
            || self
                .busy
                .range((volume, first)..=(volume, last))
                .next()
                .is_some()
    }

    fn exceeds_quota(&self, volume: VolumeId, fresh: u64) -> bool {
        let volume = &self.volumes[&volume];
        volume
            .quota_bytes
            .is_some_and(|quota| (volume.map.mapped() + fresh) * u64::from(self.page_bytes) > quota)
    }

    /// Registers an access that changes pages of the volume.
    pub(crate) fn enter_change(
        &mut self,
        id: RequestId,
        volume: VolumeId,
        kind: impl FnOnce(Copies) -> AccessKind,
    ) -> usize {
        let epoch = self.alloc.epochs.enter();
        self.volumes
            .get_mut(&volume)
            .expect("the caller checked that the volume exists")
            .writes_in_flight += 1;
        self.accesses.insert(InFlight {
            id,
            epoch,
            volume,
            kind: kind(Copies::default()),
        })
    }

    /// Maps a page of the volume to `to`. The previously mapped page loses a reference.
    pub(crate) fn set_mapping(&mut self, volume: VolumeId, page: u64, to: Option<PageId>) {
        let map = &mut self
            .volumes
            .get_mut(&volume)
            .expect("the caller checked that the volume exists")
            .map;
        let before = map.set(page, to);
        self.rounds
            .dirty_leaves
            .insert((volume, (page / LEAF_ENTRIES as u64) as u32));
        self.rounds.dirty_volumes.insert(volume);
        self.mark_metadata_changed();
        if let Some(before) = before {
            self.drop_page(before);
        }
    }

    /// Starts copying the pages of `pages` that other volumes share. The page ranges in `busy` are
    /// busy until all copies end. The caller has checked that there is space for the copies.
    pub(crate) fn start_copies(
        &mut self,
        key: usize,
        volume: VolumeId,
        pages: impl Iterator<Item = u64>,
        busy: Vec<(u64, u64)>,
    ) -> Copies {
        let mut copies = Copies {
            busy,
            ..Copies::default()
        };
        for page in pages {
            let Some(from) = self.volumes[&volume].map.get(page) else {
                continue;
            };
            if self.alloc.is_exclusive(from) {
                continue;
            }
            let to = self.alloc.take_page();
            let action = ActionKind::Copy {
                from: Place::of_page(from.group, from.page, self.page_bytes),
                to: Place::of_page(to.group, to.page, self.page_bytes),
                length_bytes: self.page_bytes,
            };
            let index = copies.all.len();
            copies.all.push(Copying { page, to });
            self.actions.start(action, Pending::Access { key, index });
        }
        copies.left = copies.all.len();
        for &(first, last) in &copies.busy {
            self.busy.extend((first..=last).map(|page| (volume, page)));
        }
        copies
    }

    /// Ends a copy of an access. After the last copy, maps the copies and returns their common
    /// result.
    pub(crate) fn end_copy(
        &mut self,
        volume: VolumeId,
        copies: &mut Copies,
        index: usize,
        result: Result<(), ActionFailure>,
    ) -> Option<Result<(), ActionFailure>> {
        self.copies_made += u64::from(result.is_ok());
        let to = copies.all[index].to;
        self.alloc.group(to.group).dirty = true;
        copies.failure = copies.failure.or(result.err());
        copies.left -= 1;
        if copies.left > 0 {
            return None;
        }
        for copy in &copies.all {
            if copies.failure.is_none() {
                self.set_mapping(volume, copy.page, Some(copy.to));
            } else {
                self.drop_page(copy.to);
            }
        }
        for &(first, last) in &copies.busy {
            for page in first..=last {
                self.busy.remove(&(volume, page));
            }
        }
        self.retry = true;
        Some(copies.failure.map_or(Ok(()), Err))
    }

    /// Ends a copy or zeroing of an access.
    pub(crate) fn handle_page_action(
        &mut self,
        key: usize,
        index: usize,
        result: Result<(), ActionFailure>,
    ) {
        let access = &mut self.accesses[key];
        let volume = access.volume;
        match &mut access.kind {
            AccessKind::Read => unreachable!("a read needs no action"),
            AccessKind::Unmap(_) => self.handle_unmap_action(key, volume, index, result),
            AccessKind::Write(writing) => {
                let mut copies = core::mem::take(&mut writing.copies);
                let ended = self.end_copy(volume, &mut copies, index, result);
                let AccessKind::Write(writing) = &mut self.accesses[key].kind else {
                    unreachable!("the match above handled unmappings");
                };
                match ended {
                    None => writing.copies = copies,
                    Some(Ok(())) => self.make_write_ready(key),
                    Some(Err(failure)) => {
                        let id = self.leave(key);
                        self.end_change(id, false, Some(failure));
                    }
                }
            }
        }
    }

    /// Ends an access that changes pages of its volume.
    pub(crate) fn leave(&mut self, key: usize) -> RequestId {
        let ended = self.accesses.remove(key);
        self.alloc.epochs.leave(ended.epoch);
        self.leave_volume(ended.volume);
        ended.id
    }

    /// Answers a change as complete, or as failed because pages could not be copied or zeroed.
    pub(crate) fn end_change(&mut self, id: RequestId, fua: bool, failure: Option<ActionFailure>) {
        match failure {
            None if fua => self.await_stable(id, Outcome::Done),
            None => self.reply(id, Outcome::Done),
            Some(ActionFailure::NoSpace) => self.fail(id, Failure::Full),
            Some(ActionFailure::Io) => self.fail(id, Failure::Io),
        }
    }

    fn make_write_ready(&mut self, key: usize) {
        let access = &mut self.accesses[key];
        let AccessKind::Write(writing) = &mut access.kind else {
            unreachable!("the access is a write");
        };
        let pieces = pieces(
            &self.volumes[&access.volume],
            self.page_bytes,
            writing.offset_bytes,
            writing.length_bytes,
        );
        writing.groups = Groups::of(&pieces);
        let id = access.id;
        self.reply(
            id,
            Outcome::Ready {
                access: Access(key),
                pieces,
            },
        );
    }

    /// Ends a write after the transfer of its data, successful or not.
    pub(crate) fn end_write(
        &mut self,
        id: RequestId,
        volume: VolumeId,
        writing: &Writing,
        ok: bool,
    ) {
        for (index, group) in self.alloc.groups.iter_mut().enumerate() {
            group.dirty |= writing.groups.contains(index);
        }
        self.leave_volume(volume);
        if ok && writing.fua {
            self.await_stable(id, Outcome::Done);
        }
    }

    /// Unregisters an access that changed pages of the volume.
    pub(crate) fn leave_volume(&mut self, volume: VolumeId) {
        let volume = self
            .volumes
            .get_mut(&volume)
            .expect("a volume outlives the writes to it");
        volume.writes_in_flight -= 1;
        self.retry |= volume.barriers > 0 && volume.writes_in_flight == 0;
    }
}
