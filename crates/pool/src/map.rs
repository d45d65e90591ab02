//! The map of a volume, from its pages to pages of groups.
//!
//! A map is a table of leaves, each of [`LEAF_ENTRIES`] entries. A snapshot shares the leaves with
//! its origin until either side changes one of them. A commit in progress shares them as well, so
//! it sees the map as it was.
//!
//! A map counts its **runs**: pages of the volume that follow one another in their group, in the
//! order of the volume. The groups of a pool take turns, so a run skips the pages in other groups.

use std::sync::Arc;

use crate::place::GroupId;

/// Pages of a volume that one leaf maps. 512 six-byte entries and their bitmap fit one 4 KiB page
/// of redb.
pub const LEAF_ENTRIES: usize = 512;

/// Largest distance of neighbouring pages of a run in the volume, in pages. It bounds the search
/// for a neighbour. The runs of a pool of more groups than this are not found.
const NEIGHBOUR_PAGES_MAX: u64 = 64;

/// A page of a group. Page 0 holds the group's header and is never allocated, so the all-zero value
/// means "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// The group.
    pub group: GroupId,
    /// Number of the page in the group's file.
    pub page: u32,
}

impl PageId {
    fn as_entry(self) -> u64 {
        u64::from(self.group.0) << 32 | u64::from(self.page)
    }

    fn from_entry(entry: u64) -> Option<PageId> {
        (entry != 0).then_some(PageId {
            group: GroupId((entry >> 32) as u16),
            page: entry as u32,
        })
    }
}

/// Entries of [`LEAF_ENTRIES`] consecutive pages of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    entries: [u64; LEAF_ENTRIES],
    mapped: u32,
}

impl Default for Leaf {
    fn default() -> Self {
        Leaf {
            entries: [0; LEAF_ENTRIES],
            mapped: 0,
        }
    }
}

impl Leaf {
    /// Returns the page at `slot`, which is below [`LEAF_ENTRIES`].
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<PageId> {
        PageId::from_entry(self.entries[slot])
    }

    /// Stores a page (or `None`) at `slot`. Returns the previous page.
    pub fn set(&mut self, slot: usize, page: Option<PageId>) -> Option<PageId> {
        let before = self.get(slot);
        self.entries[slot] = page.map_or(0, PageId::as_entry);
        self.mapped = self.mapped + u32::from(page.is_some()) - u32::from(before.is_some());
        before
    }

    /// Returns the number of entries with a page.
    #[must_use]
    pub fn mapped(&self) -> u32 {
        self.mapped
    }

    /// Returns the slots with a page, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, PageId)> + '_ {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(slot, entry)| Some((slot, PageId::from_entry(*entry)?)))
    }
}

/// The map of a volume. Pages of the volume are numbered from 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    /// Leaves by number, up to the highest that ever existed.
    leaves: Vec<Option<Arc<Leaf>>>,
    mapped: u64,
    runs: u64,
}

impl Map {
    /// Returns the number of mapped pages.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Returns the number of runs.
    pub(crate) fn runs(&self) -> u64 {
        self.runs
    }

    pub(crate) fn get(&self, page: u64) -> Option<PageId> {
        self.leaf((page / LEAF_ENTRIES as u64) as u32)?
            .get((page % LEAF_ENTRIES as u64) as usize)
    }

    pub(crate) fn set(&mut self, page: u64, to: Option<PageId>) -> Option<PageId> {
        let next = |at: Option<PageId>| self.next_in_group(page, at?.group);
        let (next_before, next_after) = (next(self.get(page)), next(to));
        let next_after = next_after.filter(|_| next_after != next_before);
        // Each page begins a run or not depending on itself and on the page before it in its group.
        let changed = [Some(page), next_before, next_after];
        let begun = self.count_runs(changed.into_iter().flatten());
        let before = self.replace(page, to);
        self.runs = self.runs - begun + self.count_runs(changed.into_iter().flatten());
        before
    }

    fn replace(&mut self, page: u64, to: Option<PageId>) -> Option<PageId> {
        let index = (page / LEAF_ENTRIES as u64) as usize;
        if index >= self.leaves.len() {
            to?;
            self.leaves.resize(index + 1, None);
        }
        let slot = &mut self.leaves[index];
        if slot.is_none() && to.is_none() {
            return None;
        }
        let leaf = Arc::make_mut(slot.get_or_insert_default());
        let before = leaf.set((page % LEAF_ENTRIES as u64) as usize, to);
        self.mapped = self.mapped + u64::from(to.is_some()) - u64::from(before.is_some());
        if leaf.mapped() == 0 {
            *slot = None;
        }
        before
    }

    pub(crate) fn leaf(&self, index: u32) -> Option<&Arc<Leaf>> {
        self.leaves.get(index as usize)?.as_ref()
    }

    /// Inserts a complete leaf at an unused index.
    pub(crate) fn put_leaf(&mut self, index: u32, leaf: Arc<Leaf>) {
        let index = index as usize;
        if index >= self.leaves.len() {
            self.leaves.resize(index + 1, None);
        }
        debug_assert!(self.leaves[index].is_none());
        let first = index as u64 * LEAF_ENTRIES as u64;
        let end = first + LEAF_ENTRIES as u64;
        let begun = self.count_runs(end..end + NEIGHBOUR_PAGES_MAX);
        self.mapped += u64::from(leaf.mapped());
        self.leaves[index] = (leaf.mapped() > 0).then_some(leaf);
        self.runs = self.runs - begun + self.count_runs(first..end + NEIGHBOUR_PAGES_MAX);
    }

    /// Returns how many of these pages begin a run.
    fn count_runs(&self, pages: impl Iterator<Item = u64>) -> u64 {
        pages.filter(|page| self.begins_run(*page)).count() as u64
    }

    /// Returns whether a page is mapped, and does not follow the page before it in its group.
    fn begins_run(&self, page: u64) -> bool {
        let Some(at) = self.get(page) else {
            return false;
        };
        let near = page.saturating_sub(NEIGHBOUR_PAGES_MAX)..page;
        let mut lower = near.rev().filter_map(|page| self.get(page));
        let before = lower.find(|before| before.group == at.group);
        before.is_none_or(|before| before.page.checked_add(1) != Some(at.page))
    }

    /// Returns the next page of the volume that is in a group.
    fn next_in_group(&self, page: u64, group: GroupId) -> Option<u64> {
        let mut near = page + 1..=page + NEIGHBOUR_PAGES_MAX;
        near.find(|page| self.get(*page).is_some_and(|at| at.group == group))
    }

    /// Returns the existing leaves, in order.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (u32, &Arc<Leaf>)> + '_ {
        self.leaves
            .iter()
            .enumerate()
            .filter_map(|(index, leaf)| Some((index as u32, leaf.as_ref()?)))
    }

    /// Returns every mapped page of the volume with its location, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, PageId)> + '_ {
        self.leaves().flat_map(|(index, leaf)| {
            leaf.iter().map(move |(slot, page)| {
                (u64::from(index) * LEAF_ENTRIES as u64 + slot as u64, page)
            })
        })
    }

    /// Returns the first mapped page of the volume in `from..end`. Skips missing leaves.
    pub(crate) fn next_mapped(&self, from: u64, end: u64) -> Option<u64> {
        let mut page = from;
        while page < end {
            let index = (page / LEAF_ENTRIES as u64) as usize;
            let leaf_end = (index as u64 + 1) * LEAF_ENTRIES as u64;
            if index >= self.leaves.len() {
                return None;
            }
            if let Some(leaf) = &self.leaves[index] {
                while page < leaf_end.min(end) {
                    if leaf.get((page % LEAF_ENTRIES as u64) as usize).is_some() {
                        return Some(page);
                    }
                    page += 1;
                }
            }
            page = leaf_end;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(page: u32) -> Option<PageId> {
        Some(PageId {
            group: GroupId(3),
            page,
        })
    }

    #[test]
    fn a_copy_of_a_map_keeps_its_own_entries() {
        let mut map = Map::default();
        map.set(700, page(9));
        let snapshot = map.clone();
        map.set(700, page(10));
        map.set(2, page(11));
        assert_eq!((snapshot.get(700), snapshot.mapped()), (page(9), 1));
        assert_eq!((map.get(700), map.mapped()), (page(10), 2));
    }

    #[test]
    fn a_leaf_without_entries_is_removed() {
        let mut map = Map::default();
        map.set(512, page(1));
        assert_eq!(map.set(512, None), page(1));
        assert_eq!(map.leaves().count(), 0);
        assert_eq!(map.mapped(), 0);
    }

    #[test]
    fn next_mapped_skips_unmapped_pages() {
        let mut map = Map::default();
        map.set(5000, page(1));
        assert_eq!(map.next_mapped(0, u64::MAX), Some(5000));
        assert_eq!(map.next_mapped(0, 5000), None);
        assert_eq!(map.next_mapped(5001, u64::MAX), None);
    }

    fn in_group(group: u16, page: u32) -> Option<PageId> {
        let group = GroupId(group);
        Some(PageId { group, page })
    }

    #[test]
    fn a_run_ends_where_a_page_does_not_follow_in_its_group() {
        let mut map = Map::default();
        for (at, to) in [(0, 5), (1, 6), (2, 7), (3, 20), (4, 21)] {
            map.set(at, page(to));
        }
        assert_eq!(map.runs(), 2);
        map.set(1, page(40));
        assert_eq!(map.runs(), 4, "5, 40, 7 and 20 to 21");
        map.set(1, None);
        assert_eq!(map.runs(), 3, "5, 7 and 20 to 21");
        map.set(2, page(6));
        assert_eq!(map.runs(), 2, "a run skips pages that are not mapped");
    }

    #[test]
    fn pages_of_groups_in_turn_form_one_run_in_each_group() {
        let mut map = Map::default();
        for at in 0..600 {
            map.set(u64::from(at), in_group((at % 3) as u16, 1 + at / 3));
        }
        assert_eq!(map.runs(), 3);
        let mut opened = Map::default();
        for (index, leaf) in map.leaves().collect::<Vec<_>>().into_iter().rev() {
            opened.put_leaf(index, leaf.clone());
        }
        assert_eq!(opened.runs(), 3, "leaves may be inserted in any order");
    }

    #[test]
    fn runs_are_those_of_a_count_of_the_whole_map() {
        // Linear congruential generator of Numerical Recipes.
        let mut state = 1_u32;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        let mut map = Map::default();
        for _ in 0..4000 {
            let to = (draw(4) > 0).then(|| PageId {
                group: GroupId(draw(3) as u16),
                page: 1 + draw(6),
            });
            map.set(u64::from(500 + draw(40)), to);
            assert_eq!(map.runs(), map.count_runs(0..1024));
        }
    }
}
