//! Writes into the cache, and their destaging to the drives.
//!
//! A write completes when the cache has room for all of it below the write-pending limit. Otherwise
//! it waits in order of arrival until destages free room, which throttles the initiators. Destaging
//! runs while any of these conditions holds:
//!
//! - more segments are pending than the high mark allows (until the low mark is reached),
//! - writes wait for room,
//! - a flush or a forced unit access waits,
//! - the group has been idle.
//!
//! At most `destage_writes` destages per group are in flight, and `destage_forced` more for each
//! write to the group that waits for room. The search for the next one starts where the last one
//! ended (an elevator). Contiguous dirty sectors are written together. In a parity group they are
//! split at row boundaries, so that complete rows need no reads.
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use hakaru_units::Time;

use super::core::{Core, Purpose};
use super::segments::{Part, Place, SECTOR_BYTES, bytes};
use crate::request::Op;

/// A write that waits for room, or is being admitted.
#[derive(Clone, Debug)]
struct StalledWrite {
    request: usize,
    group: u32,
    /// Sectors of the write.
    whole: Range<u64>,
    /// Sectors that have not been admitted yet.
    rest: Range<u64>,
    fua: bool,
    /// Instant of arrival.
    since: Time,
}

/// Dirty segments and the writes that wait for room among them.
#[derive(Clone, Debug)]
pub(super) struct WriteBack {
    /// Maximum number of write-pending segments.
    pending_max: usize,
    /// Write-pending segments: dirty or being destaged.
    pending: BTreeSet<Place>,
    /// Pending segments that can be destaged: dirty and not being destaged.
    ready: BTreeSet<Place>,
    /// Ready segments that a flush or a forced unit access waits for.
    urgent: BTreeSet<Place>,
    /// Writes that wait for room, in order of arrival.
    stalled: VecDeque<StalledWrite>,
    /// Whether the high mark has been exceeded, and the low mark has not been reached since then.
    above_mark: bool,
}

/// Passes a write or unmap on to the drives. It completes when they have completed it.
pub(super) fn write_through(
    core: &mut Core,
    request: usize,
    group: u32,
    op: Op,
    sectors: Range<u64>,
) {
    let keep = if op == Op::Write {
        sectors.clone()
    } else {
        0..0
    };
    let purpose = Purpose::Through {
        request,
        group,
        keep,
    };
    core.start_job(group, op, &[sectors], purpose);
}

impl WriteBack {
    /// Creates the state of a cache without dirty segments.
    pub(super) fn new(core: &Core) -> WriteBack {
        let share = core.config.write_pending_limit_percent / 100.0;
        WriteBack {
            pending_max: ((core.segments.capacity() as f64 * share) as usize).max(1),
            pending: BTreeSet::new(),
            ready: BTreeSet::new(),
            urgent: BTreeSet::new(),
            stalled: VecDeque::new(),
            above_mark: false,
        }
    }

    /// Returns the number of write-pending segments.
    pub(super) fn pending_segments(&self) -> usize {
        self.pending.len()
    }

    /// Returns the maximum number of write-pending segments.
    pub(super) fn pending_segments_max(&self) -> usize {
        self.pending_max
    }

    /// Returns the total time that the writes still waiting have waited until `now`, ns.
    pub(super) fn stalled_ns(&self, now: Time) -> u64 {
        self.stalled
            .iter()
            .map(|write| now.ns_since(write.since))
            .sum()
    }

    /// Returns the earliest instant at which a group will have been idle long enough to destage.
    pub(super) fn idle_destage_at(&self, core: &Core) -> Option<Time> {
        core.groups
            .iter()
            .enumerate()
            .filter(|(g, group)| group.destages == 0 && self.next_ready(*g as u32, 0).is_some())
            .map(|(_, group)| core.idle_from(group))
            .min()
    }

    /// Admits a write, or queues it until there is room.
    pub(super) fn write(
        &mut self,
        core: &mut Core,
        now: Time,
        request: usize,
        group: u32,
        sectors: Range<u64>,
        fua: bool,
    ) {
        let mut write = StalledWrite {
            request,
            group,
            whole: sectors.clone(),
            rest: sectors,
            fua,
            since: now,
        };
        if self.stalled.is_empty() && self.admit(core, &mut write) {
            return;
        }
        core.counts.stalls += 1;
        core.groups[group as usize].stalled += 1;
        self.stalled.push_back(write);
    }

    /// Admits as much of a write as there is room for. Returns whether the entire write was
    /// admitted.
    fn admit(&mut self, core: &mut Core, write: &mut StalledWrite) -> bool {
        for part in core.segments.parts(write.group, write.rest.clone()) {
            if !self.make_dirty(core, part) {
                return false;
            }
            write.rest.start += u64::from(part.mask.count_ones());
        }
        if write.fua && !core.config.nonvolatile {
            self.wait_for_destages(core, write.request, write.group, &write.whole.clone(), true);
        } else {
            core.complete(write.request, true);
        }
        true
    }

    /// Marks the sectors of a part as dirty. Returns `false` if there is no room for the segment.
    fn make_dirty(&mut self, core: &mut Core, part: Part) -> bool {
        let is_pending = self.pending.contains(&part.place);
        if !is_pending && self.pending.len() >= self.pending_max {
            return false;
        }
        let slot = core
            .segments
            .find_or_make(part.place)
            .expect("below the limit a segment is free or clean");
        if !is_pending {
            self.pending.insert(part.place);
            core.segments.unlink(slot);
        }
        let segment = core.segments.get_mut(slot);
        core.counts.rewritten_bytes += bytes(part.mask & segment.dirty);
        core.counts.dirty_bytes += bytes(part.mask & !segment.dirty);
        segment.dirty |= part.mask;
        segment.valid |= part.mask;
        segment.ahead &= !part.mask;
        if segment.destaging == 0 {
            self.ready.insert(part.place);
        }
        true
    }

    /// Discards the cached sectors of a range. Its dirty sectors are never written.
    pub(super) fn drop_range(&mut self, core: &mut Core, group: u32, sectors: &Range<u64>) {
        let size = core.segments.sectors();
        for (place, slot) in core.segments.within(group, sectors) {
            let within = sectors.start.max(place.1 * size)..sectors.end.min((place.1 + 1) * size);
            let Some(Part { mask, .. }) = core.segments.parts(group, within).next() else {
                continue;
            };
            let segment = core.segments.get_mut(slot);
            let was_dirty = segment.dirty != 0;
            let dropped = bytes(segment.dirty & mask);
            core.counts.discarded_bytes += dropped;
            core.counts.dirty_bytes -= dropped;
            segment.dirty &= !mask;
            segment.valid &= !mask;
            segment.ahead &= !mask;
            if was_dirty && segment.dirty == 0 {
                let waiting = std::mem::take(&mut segment.waits_for_next);
                self.ready.remove(&place);
                self.urgent.remove(&place);
                for request in waiting {
                    core.end_wait(request);
                }
                self.become_clean(core, place, slot);
            }
            let segment = core.segments.get(slot);
            if segment.valid == 0 && !segment.is_pending() {
                core.segments.remove(slot);
            }
        }
    }

    /// Completes `request` when all sectors of the range that are dirty now are on the drives.
    /// `hit` is passed on if none is dirty.
    pub(super) fn wait_for_destages(
        &mut self,
        core: &mut Core,
        request: usize,
        group: u32,
        sectors: &Range<u64>,
        hit: bool,
    ) {
        let size = core.segments.sectors();
        let (first, last) = (sectors.start / size, (sectors.end - 1) / size);
        let places: Vec<Place> = self
            .pending
            .range((group, first)..=(group, last))
            .copied()
            .collect();
        for &place in &places {
            let slot = core
                .segments
                .find(place)
                .expect("a pending place has a segment");
            let segment = core.segments.get_mut(slot);
            if segment.dirty == 0 {
                segment.waits_for_destage.push(request);
                continue;
            }
            segment.waits_for_next.push(request);
            if segment.destaging == 0 {
                self.urgent.insert(place);
            }
        }
        core.set_waits(request, places.len() as u32);
        if places.is_empty() {
            core.complete(request, hit);
        }
    }

    /// Returns the first segment of a group from number `index` on that can be destaged.
    fn next_ready(&self, group: u32, index: u64) -> Option<Place> {
        let from = (group, index)..=(group, u64::MAX);
        self.ready.range(from).next().copied()
    }

    /// Admits the waiting writes that fit, and starts the destages that are needed and allowed.
    /// Must be called after every change that may affect either.
    pub(super) fn destage(&mut self, core: &mut Core, now: Time) {
        while let Some(mut write) = self.stalled.pop_front() {
            if !self.admit(core, &mut write) {
                self.stalled.push_front(write);
                break;
            }
            core.groups[write.group as usize].stalled -= 1;
            core.counts.stall_ns += now.ns_since(write.since);
        }
        let mark = |percent: f64| (self.pending_max as f64 * percent / 100.0) as usize;
        if self.pending.len() > mark(core.config.destage_high_percent) {
            self.above_mark = true;
        } else if self.pending.len() <= mark(core.config.destage_low_percent) {
            self.above_mark = false;
        }
        for g in 0..core.groups.len() {
            let forced = f64::from(core.groups[g].stalled) * core.config.destage_forced;
            while core.groups[g].destages < core.config.destage_writes + forced as u32 {
                let group = &core.groups[g];
                let is_needed =
                    self.above_mark || !self.stalled.is_empty() || now >= core.idle_from(group);
                let places = if is_needed { &self.ready } else { &self.urgent };
                let (g32, cursor) = (g as u32, group.cursor);
                let next = places
                    .range((g32, cursor)..=(g32, u64::MAX))
                    .next()
                    .or_else(|| places.range((g32, 0)..(g32, cursor)).next());
                let Some(&place) = next else { break };
                self.start_destage(core, place);
            }
        }
    }

    /// Starts to destage a segment and the dirty segments around it that are contiguous with it.
    fn start_destage(&mut self, core: &mut Core, place: Place) {
        let run = self.run_around(core, place);
        let group = place.0;
        let mut slots = Vec::with_capacity((run.end - run.start) as usize);
        let mut ranges = Vec::new();
        for index in run.clone() {
            let place = (group, index);
            self.ready.remove(&place);
            self.urgent.remove(&place);
            let slot = core
                .segments
                .find(place)
                .expect("a ready place has a segment");
            let segment = core.segments.get_mut(slot);
            segment.destaging = std::mem::take(&mut segment.dirty);
            segment.waits_for_destage = std::mem::take(&mut segment.waits_for_next);
            let destaging = segment.destaging;
            core.segments.push_runs(&mut ranges, index, destaging);
            slots.push(slot);
        }
        core.counts.destages += ranges.len() as u64;
        let state = &mut core.groups[group as usize];
        state.cursor = run.end;
        state.destages += 1;
        core.start_job(group, Op::Write, &ranges, Purpose::Destage { group, slots });
    }

    /// Returns the run of segments with contiguous dirty sectors around a place, up to the longest
    /// write. Without parity it starts at the place. With parity it may start earlier in the same
    /// row, and ends at a row boundary if it includes one.
    fn run_around(&self, core: &Core, (group, index): Place) -> Range<u64> {
        let size = core.segments.sectors();
        let row = core.groups[group as usize].row_sectors;
        let longest = u64::from(core.config.destage_bytes_max) / SECTOR_BYTES;
        let longest = (longest.max(row.unwrap_or(0)) / size).max(1);
        let row_of = |index: u64| row.map(|row| index * size / row);
        let mut run = index..index + 1;
        while run.start > 0
            && run.end - run.start < longest
            && row_of(run.start - 1).is_some_and(|row| Some(row) == row_of(index))
            && self.follows(core, group, run.start - 1)
        {
            run.start -= 1;
        }
        while run.end - run.start < longest && self.follows(core, group, run.end - 1) {
            run.end += 1;
        }
        if let Some(row) = row {
            let whole_rows_end = run.end * size / row * row / size;
            if whole_rows_end > run.start.max(index) {
                run.end = whole_rows_end;
            }
        }
        run
    }

    /// Returns whether the dirty sectors of segment `index` and of the next segment are contiguous,
    /// and both segments can be destaged.
    fn follows(&self, core: &Core, group: u32, index: u64) -> bool {
        let dirty_sectors = |index| {
            let place = (group, index);
            let slot = self
                .ready
                .contains(&place)
                .then(|| core.segments.find(place));
            slot.flatten()
                .map_or(0, |slot| core.segments.get(slot).dirty)
        };
        dirty_sectors(index) >> (core.segments.sectors() - 1) & 1 == 1
            && dirty_sectors(index + 1) & 1 == 1
    }

    /// Ends a destage. Segments that were written meanwhile stay dirty.
    pub(super) fn end_destage(&mut self, core: &mut Core, group: u32, slots: Vec<u32>) {
        core.groups[group as usize].destages -= 1;
        for slot in slots {
            let segment = core.segments.get_mut(slot);
            let destaged = bytes(std::mem::take(&mut segment.destaging));
            let (place, is_dirty) = (segment.place, segment.dirty != 0);
            let is_urgent = !segment.waits_for_next.is_empty();
            for request in std::mem::take(&mut segment.waits_for_destage) {
                core.end_wait(request);
            }
            core.counts.destaged_bytes += destaged;
            core.counts.dirty_bytes -= destaged;
            if is_dirty {
                self.ready.insert(place);
                if is_urgent {
                    self.urgent.insert(place);
                }
            } else {
                self.become_clean(core, place, slot);
            }
        }
    }

    /// Removes a segment from the pending ones, unless it is still dirty or being destaged.
    fn become_clean(&mut self, core: &mut Core, place: Place, slot: u32) {
        if !core.segments.get(slot).is_pending() && self.pending.remove(&place) {
            core.segments.link(slot);
        }
    }
}
