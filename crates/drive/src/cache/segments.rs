//! Segments of a cache by place, each with a bit per sector, and the order in which clean segments
//! are evicted.
//!
//! A write-pending segment (dirty or being destaged) is never evicted. All others are in a list
//! from least to most recently used.
use std::collections::BTreeMap;
use std::ops::Range;

/// Length of a sector, bytes: SCSI's smallest block. Masks have one bit per sector.
pub(super) const SECTOR_BYTES: u64 = 512;

/// A group, and the number of a segment in it.
pub(super) type Place = (u32, u64);

/// End of the list.
const NONE: u32 = u32::MAX;

/// A segment of a group in the cache. Bit `i` of a mask is its sector `i`.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) place: Place,
    /// Sectors held by the cache.
    pub(super) valid: u128,
    /// Sectors that are newer than on the drives and not being destaged.
    pub(super) dirty: u128,
    /// Sectors being written to the drives.
    pub(super) destaging: u128,
    /// Sectors that were read ahead and not requested yet.
    pub(super) ahead: u128,
    /// Requests that wait for the destage in flight.
    pub(super) waits_for_destage: Vec<usize>,
    /// Requests that wait for the next destage, which writes the sectors that are dirty now.
    pub(super) waits_for_next: Vec<usize>,
    older: u32,
    newer: u32,
}

impl Segment {
    /// Returns whether the segment holds data that the drives do not have yet.
    pub(super) fn is_pending(&self) -> bool {
        self.dirty | self.destaging != 0
    }
}

/// All segments of a cache.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    /// Number of sectors per segment.
    sectors: u64,
    capacity: usize,
    slots: Vec<Segment>,
    free: Vec<u32>,
    by_place: BTreeMap<Place, u32>,
    oldest: u32,
    newest: u32,
}

impl Segments {
    /// Creates `size_bytes` of empty segments. `segment_bytes` is a power of two from 4 to 64 KiB.
    pub(super) fn new(size_bytes: u64, segment_bytes: u32) -> Segments {
        Segments {
            sectors: u64::from(segment_bytes) / SECTOR_BYTES,
            capacity: (size_bytes / u64::from(segment_bytes)) as usize,
            slots: Vec::new(),
            free: Vec::new(),
            by_place: BTreeMap::new(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Returns the number of segments that fit into the cache.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of sectors per segment.
    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    pub(super) fn find(&self, place: Place) -> Option<u32> {
        self.by_place.get(&place).copied()
    }

    pub(super) fn get(&self, slot: u32) -> &Segment {
        &self.slots[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Segment {
        &mut self.slots[slot as usize]
    }

    /// Returns the segments that overlap a range of a group, in order: place and slot.
    pub(super) fn within(&self, group: u32, sectors: &Range<u64>) -> Vec<(Place, u32)> {
        if sectors.is_empty() {
            return Vec::new();
        }
        let first = sectors.start / self.sectors;
        let last = (sectors.end - 1) / self.sectors;
        self.by_place
            .range((group, first)..=(group, last))
            .map(|(&place, &slot)| (place, slot))
            .collect()
    }

    /// Returns the slot of a place's segment, which is created if absent. If the cache is full, the
    /// least recently used segment is evicted. `None` if all segments are write-pending.
    pub(super) fn find_or_make(&mut self, place: Place) -> Option<u32> {
        if let Some(slot) = self.find(place) {
            return Some(slot);
        }
        if self.by_place.len() >= self.capacity {
            if self.oldest == NONE {
                return None;
            }
            self.remove(self.oldest);
        }
        let segment = Segment {
            place,
            valid: 0,
            dirty: 0,
            destaging: 0,
            ahead: 0,
            waits_for_destage: Vec::new(),
            waits_for_next: Vec::new(),
            older: NONE,
            newer: NONE,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = segment;
                slot
            }
            None => {
                self.slots.push(segment);
                (self.slots.len() - 1) as u32
            }
        };
        self.by_place.insert(place, slot);
        self.link(slot);
        Some(slot)
    }

    /// Evicts a clean segment.
    pub(super) fn remove(&mut self, slot: u32) {
        debug_assert!(!self.get(slot).is_pending());
        self.unlink(slot);
        let place = self.get(slot).place;
        self.by_place.remove(&place);
        self.free.push(slot);
    }

    /// Evicts all clean segments. Returns the number of bytes that they held.
    pub(super) fn remove_clean(&mut self) -> u64 {
        let mut held = 0;
        while self.oldest != NONE {
            held += bytes(self.get(self.oldest).valid);
            self.remove(self.oldest);
        }
        held
    }

    /// Moves a clean segment to the end of the list, as the most recently used one.
    pub(super) fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.unlink(slot);
            self.link(slot);
        }
    }

    /// Appends a clean segment to the list, as the most recently used one.
    pub(super) fn link(&mut self, slot: u32) {
        let newest = self.newest;
        let segment = self.get_mut(slot);
        (segment.older, segment.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = slot,
            newest => self.get_mut(newest).newer = slot,
        }
        self.newest = slot;
    }

    /// Removes a segment from the list.
    pub(super) fn unlink(&mut self, slot: u32) {
        let Segment { older, newer, .. } = *self.get(slot);
        match older {
            NONE => self.oldest = newer,
            older => self.get_mut(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.get_mut(newer).older = older,
        }
    }

    /// Divides a range of a group into its parts in each segment.
    pub(super) fn parts(
        &self,
        group: u32,
        sectors: Range<u64>,
    ) -> impl Iterator<Item = Part> + use<> {
        let size = self.sectors;
        let mut at = sectors.start;
        std::iter::from_fn(move || {
            if at >= sectors.end {
                return None;
            }
            let (index, from) = (at / size, at % size);
            let to = size.min(from + sectors.end - at);
            at += to - from;
            Some(Part {
                place: (group, index),
                mask: mask(from, to),
            })
        })
    }

    /// Appends the runs of set bits in the mask of segment `index` as sector ranges of the group.
    /// Extends the last range if the first run follows it.
    pub(super) fn push_runs(&self, runs: &mut Vec<Range<u64>>, index: u64, mut bits: u128) {
        let mut base = index * self.sectors;
        while bits != 0 {
            let skip = bits.trailing_zeros();
            bits >>= skip;
            let length = bits.trailing_ones();
            let start = base + u64::from(skip);
            let end = start + u64::from(length);
            match runs.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => runs.push(start..end),
            }
            base = end;
            bits = bits.checked_shr(length).unwrap_or(0);
        }
    }
}

/// The part of a range in one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) place: Place,
    /// Sectors of the segment that are in the range.
    pub(super) mask: u128,
}

/// Returns a mask with the bits `from..to` set. `from` is below `to`, and `to` at most 128.
fn mask(from: u64, to: u64) -> u128 {
    (u128::MAX >> (128 - (to - from))) << from
}

/// Returns the number of bytes in the sectors of a mask.
pub(super) fn bytes(mask: u128) -> u64 {
    u64::from(mask.count_ones()) * SECTOR_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_evicts_the_least_recently_used_segment() {
        let mut segments = Segments::new(3 * 4096, 4096);
        let slots: Vec<u32> = (0..3)
            .map(|i| segments.find_or_make((0, i)).expect("room"))
            .collect();
        segments.touch(slots[0]);
        segments.find_or_make((0, 3)).expect("one is clean");
        assert_eq!(segments.find((0, 1)), None);
        assert!(segments.find((0, 0)).is_some() && segments.find((0, 2)).is_some());
    }

    #[test]
    fn a_write_pending_segment_is_not_evicted() {
        let mut segments = Segments::new(4096, 4096);
        let slot = segments.find_or_make((0, 0)).expect("room");
        segments.get_mut(slot).dirty = 1;
        segments.unlink(slot);
        assert_eq!(segments.find_or_make((0, 1)), None);
    }

    #[test]
    fn only_clean_segments_are_removed_at_once() {
        let mut segments = Segments::new(4 * 4096, 4096);
        for place in 0..3 {
            let slot = segments.find_or_make((0, place)).expect("room");
            segments.get_mut(slot).valid = 0b11;
        }
        let pending = segments.find((0, 1)).expect("made");
        segments.get_mut(pending).dirty = 1;
        segments.unlink(pending);
        assert_eq!(segments.remove_clean(), 2 * 2 * SECTOR_BYTES);
        assert_eq!(segments.within(0, &(0..100)), [((0, 1), pending)]);
        assert_eq!(segments.remove_clean(), 0);
        assert!(segments.find_or_make((0, 2)).is_some());
    }

    #[test]
    fn parts_and_runs_of_a_range_are_inverse() {
        let segments = Segments::new(1 << 20, 64 << 10);
        for range in [0..1, 127..129, 5..900, 128..256] {
            let mut runs = Vec::new();
            for part in segments.parts(0, range.clone()) {
                segments.push_runs(&mut runs, part.place.1, part.mask);
            }
            assert_eq!(runs, [range]);
        }
        let mut runs = Vec::new();
        segments.push_runs(&mut runs, 1, 0b1101);
        assert_eq!(runs, [128..129, 130..132]);
    }
}
