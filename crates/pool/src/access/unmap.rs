//! UNMAP, and WRITE SAME that deallocates: whole pages are freed, parts of pages are zeroed.

use crate::access::in_flight::{AccessKind, Attempt, Part, WaitFor, Zeroing};
use crate::access::request::{Failure, Range, RequestId};
use crate::action::{ActionFailure, ActionKind};
use crate::actions::Pending;
use crate::alloc::allocator::Space;
use crate::place::Place;
use crate::pool::Pool;
use crate::volume::VolumeId;

/// Division of an unmapping into whole pages and parts.
#[derive(Debug, Default)]
struct Plan {
    /// Whole pages, as (first, end).
    whole: Vec<(u64, u64)>,
    parts: Vec<Part>,
}

/// Reason why an unmapping cannot start now.
enum Refusal {
    Failure(Failure),
    /// A page is being copied, or a snapshot is pending.
    Wait,
}

impl Pool {
    pub(crate) fn start_unmap(
        &mut self,
        id: RequestId,
        volume_id: VolumeId,
        ranges: &[Range],
        fua: bool,
    ) -> Attempt {
        let merged = match self.merge_writable(volume_id, ranges) {
            Ok(merged) => merged,
            Err(Refusal::Wait) => return Attempt::Wait(WaitFor::Others),
            Err(Refusal::Failure(failure)) => {
                self.fail(id, failure);
                return Attempt::Started;
            }
        };
        let plan = self.plan_unmap(volume_id, &merged);
        let shared = self.shared_pages(volume_id, &plan.parts);
        let settling = shared.iter().filter(|page| {
            let at = self.volumes[&volume_id].map.get(**page);
            at.is_some_and(|at| self.alloc.is_settling(at))
        });
        let settling = settling.count() as u64;
        match self.alloc.space_for(shared.len() as u64, settling) {
            Space::Available => {}
            Space::Coming => return Attempt::Wait(WaitFor::Space),
            Space::Full => return Attempt::Wait(WaitFor::Room),
        }
        self.free_pages(volume_id, &plan.whole);
        if plan.parts.is_empty() {
            self.end_change(id, fua, None);
        } else {
            self.start_zeroing(id, volume_id, fua, plan.parts, shared);
        }
        Attempt::Started
    }

    /// Sorts and merges the ranges of an unmapping. Refuses them unless all are writable now.
    fn merge_writable(&self, volume_id: VolumeId, ranges: &[Range]) -> Result<Vec<Range>, Refusal> {
        let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable();
        for range in sorted {
            let (first, last) = self
                .writable(volume_id, range.offset_bytes, range.length_bytes)
                .map_err(Refusal::Failure)?;
            if self.must_wait(volume_id, first, last) {
                return Err(Refusal::Wait);
            }
            let end = range.offset_bytes + range.length_bytes;
            match merged.last_mut() {
                Some(last) if range.offset_bytes <= last.offset_bytes + last.length_bytes => {
                    last.length_bytes = last.length_bytes.max(end - last.offset_bytes);
                }
                _ => merged.push(range),
            }
        }
        if !self.volumes.contains_key(&volume_id) {
            return Err(Refusal::Failure(Failure::NoVolume));
        }
        Ok(merged)
    }

    /// Returns the pages of `parts` that other volumes share, which must be copied before they are
    /// zeroed in part.
    fn shared_pages(&self, volume_id: VolumeId, parts: &[Part]) -> Vec<u64> {
        let map = &self.volumes[&volume_id].map;
        let is_shared = |page: &u64| {
            map.get(*page)
                .is_some_and(|at| !self.alloc.is_exclusive(at))
        };
        let mut shared: Vec<u64> = parts
            .iter()
            .map(|part| part.page)
            .filter(is_shared)
            .collect();
        shared.dedup();
        shared
    }

    /// Copies the `shared` pages, then zeroes the parts.
    fn start_zeroing(
        &mut self,
        id: RequestId,
        volume_id: VolumeId,
        fua: bool,
        parts: Vec<Part>,
        shared: Vec<u64>,
    ) {
        let key = self.enter_change(id, volume_id, |copies| {
            AccessKind::Unmap(Zeroing {
                fua,
                copies,
                parts,
                places: Vec::new(),
                zeroes_left: 0,
                failure: None,
            })
        });
        if shared.is_empty() {
            self.start_zeroes(key, volume_id);
        } else {
            let busy = shared.iter().map(|&page| (page, page)).collect();
            let copies = self.start_copies(key, volume_id, shared.into_iter(), busy);
            self.zeroing(key).copies = copies;
        }
    }

    /// Divides sorted, disjoint ranges into whole pages and parts of mapped pages. The volume's
    /// last page counts as whole if the range includes all of the volume that lies in it.
    fn plan_unmap(&self, volume_id: VolumeId, ranges: &[Range]) -> Plan {
        let volume = &self.volumes[&volume_id];
        let page_bytes = u64::from(self.page_bytes);
        let mut plan = Plan::default();
        let mut part = |page: u64, from: u64, to: u64| {
            if from < to && volume.map.get(page).is_some() {
                plan.parts.push(Part {
                    page,
                    within_bytes: (from - page * page_bytes) as u32,
                    length_bytes: (to - from) as u32,
                });
            }
        };
        for range in ranges {
            let begin = range.offset_bytes;
            let end = begin + range.length_bytes;
            let first = begin.div_ceil(page_bytes);
            let whole_end = if end == volume.size_bytes {
                end.div_ceil(page_bytes)
            } else {
                end / page_bytes
            };
            if first > whole_end {
                // The range lies within one page.
                part(begin / page_bytes, begin, end);
                continue;
            }
            part(begin / page_bytes, begin, first * page_bytes);
            if first < whole_end {
                plan.whole.push((first, whole_end));
            }
            part(whole_end, whole_end * page_bytes, end);
        }
        plan
    }

    fn free_pages(&mut self, volume: VolumeId, whole: &[(u64, u64)]) {
        for &(first, whole_end) in whole {
            let mut from = first;
            while let Some(page) = self.volumes[&volume].map.next_mapped(from, whole_end) {
                self.set_mapping(volume, page, None);
                from = page + 1;
            }
        }
    }

    fn zeroing(&mut self, key: usize) -> &mut Zeroing {
        let AccessKind::Unmap(zeroing) = &mut self.accesses[key].kind else {
            unreachable!("the access is an unmapping");
        };
        zeroing
    }

    pub(crate) fn handle_unmap_action(
        &mut self,
        key: usize,
        volume: VolumeId,
        index: usize,
        result: Result<(), ActionFailure>,
    ) {
        if self.zeroing(key).copies.left > 0 {
            let mut copies = core::mem::take(&mut self.zeroing(key).copies);
            let ended = self.end_copy(volume, &mut copies, index, result);
            match ended {
                None => self.zeroing(key).copies = copies,
                Some(Ok(())) => self.start_zeroes(key, volume),
                Some(Err(failure)) => {
                    let id = self.leave(key);
                    self.end_change(id, false, Some(failure));
                }
            }
            return;
        }
        let zeroing = self.zeroing(key);
        zeroing.failure = zeroing.failure.or(result.err());
        zeroing.zeroes_left -= 1;
        let place = zeroing.places[index];
        let is_over = zeroing.zeroes_left == 0;
        self.alloc.group(place.group).dirty = true;
        if is_over {
            self.end_unmap(key);
        }
    }

    /// Zeroes the parts of pages at their present location. A page that was unmapped meanwhile
    /// reads as zeros already.
    fn start_zeroes(&mut self, key: usize, volume: VolumeId) {
        let parts = core::mem::take(&mut self.zeroing(key).parts);
        let mut places = Vec::with_capacity(parts.len());
        for part in parts {
            let Some(at) = self.volumes[&volume].map.get(part.page) else {
                continue;
            };
            let mut place = Place::of_page(at.group, at.page, self.page_bytes);
            place.offset_bytes += u64::from(part.within_bytes);
            let action = ActionKind::Zero {
                place,
                length_bytes: part.length_bytes,
            };
            let index = places.len();
            self.actions.start(action, Pending::Access { key, index });
            places.push(place);
        }
        let zeroing = self.zeroing(key);
        zeroing.zeroes_left = places.len();
        zeroing.places = places;
        if zeroing.zeroes_left == 0 {
            self.end_unmap(key);
        }
    }

    fn end_unmap(&mut self, key: usize) {
        let zeroing = self.zeroing(key);
        let (fua, failure) = (zeroing.fua, zeroing.failure);
        let id = self.leave(key);
        self.end_change(id, fua, failure);
    }
}
