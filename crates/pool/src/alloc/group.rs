//! The pages of one group: free pages, and references to the others.

use crate::place::GroupId;

/// References to a page. A page without references may be allocated again once it was discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    /// Current references: entries of maps in memory, and copies in progress into the page.
    pub(crate) live: u32,
    /// Dropped references that a crash would restore, or that an access in flight may still use.
    pub(crate) dropping: u32,
}

/// Consecutive pages of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) group: GroupId,
    pub(crate) first: u32,
    pub(crate) pages: u32,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// Size of the used part of the file, bytes: whole pages.
    pub(crate) size_bytes: u64,
    references: Vec<References>,
    /// One bit per page that may be allocated.
    free: Vec<u64>,
    free_pages: u32,
    /// Pages with a live reference.
    used_pages: u32,
    /// Pages that could not be discarded: unusable until the pool is opened again.
    lost_pages: u32,
    /// Word of `free` at which the next search starts. Pages are allocated consecutively if
    /// possible.
    cursor: usize,
    /// Data was written since the last sync started.
    pub(crate) dirty: bool,
}

impl Group {
    /// Creates a group of `pages` pages, the first of which is the header's. No page is free yet.
    pub(crate) fn new(name: String, pages: u32, page_bytes: u32) -> Group {
        Group {
            name,
            size_bytes: u64::from(pages) * u64::from(page_bytes),
            references: vec![References::default(); pages as usize],
            free: vec![0; (pages as usize).div_ceil(64)],
            free_pages: 0,
            used_pages: 0,
            lost_pages: 0,
            cursor: 0,
            dirty: false,
        }
    }

    /// Returns the total number of pages, including the header's.
    pub(crate) fn pages(&self) -> u32 {
        self.references.len() as u32
    }

    /// Returns the number of pages that can hold data.
    pub(crate) fn data_pages(&self) -> u32 {
        self.pages() - 1
    }

    pub(crate) fn free_pages(&self) -> u32 {
        self.free_pages
    }

    pub(crate) fn used_pages(&self) -> u32 {
        self.used_pages
    }

    pub(crate) fn lost_pages(&self) -> u32 {
        self.lost_pages
    }

    /// Returns the number of pages that no volume maps and that become free after commit and
    /// discard.
    pub(crate) fn freeing_pages(&self) -> u32 {
        self.data_pages() - self.used_pages - self.free_pages - self.lost_pages
    }

    pub(crate) fn references(&self, page: u32) -> References {
        self.references[page as usize]
    }

    pub(crate) fn is_free(&self, page: u32) -> bool {
        self.free[page as usize / 64] & (1 << (page % 64)) != 0
    }

    /// Allocates the next free page, with one reference.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.free_pages == 0 {
            return None;
        }
        while self.free[self.cursor] == 0 {
            self.cursor = (self.cursor + 1) % self.free.len();
        }
        let bit = self.free[self.cursor].trailing_zeros();
        self.free[self.cursor] &= !(1 << bit);
        let page = self.cursor as u32 * 64 + bit;
        self.free_pages -= 1;
        self.add_reference(page);
        Some(page)
    }

    pub(crate) fn add_reference(&mut self, page: u32) {
        let references = &mut self.references[page as usize];
        references.live += 1;
        if references.live == 1 {
            self.used_pages += 1;
        }
    }

    /// Drops a map's reference; it counts as dropping until [`Group::settle`].
    pub(crate) fn drop_reference(&mut self, page: u32) {
        let references = &mut self.references[page as usize];
        references.live -= 1;
        references.dropping += 1;
        if references.live == 0 {
            self.used_pages -= 1;
        }
    }

    /// Removes a dropped reference and returns the remaining ones.
    pub(crate) fn settle(&mut self, page: u32) -> References {
        let references = &mut self.references[page as usize];
        references.dropping -= 1;
        *references
    }

    /// Marks discarded pages as free.
    pub(crate) fn set_free(&mut self, run: Run) {
        for page in run.first..run.first + run.pages {
            debug_assert!(!self.is_free(page) && self.references(page) == References::default());
            self.free[page as usize / 64] |= 1 << (page % 64);
        }
        self.free_pages += run.pages;
    }

    /// Marks pages that could not be discarded as lost.
    pub(crate) fn set_lost(&mut self, run: Run) {
        self.lost_pages += run.pages;
    }

    /// Returns all pages that no map references, as runs. Used when the pool is opened.
    pub(crate) fn unreferenced(&self, group: GroupId) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for page in 1..self.pages() {
            if self.references(page) != References::default() {
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.first + last.pages == page => last.pages += 1,
                _ => runs.push(Run {
                    group,
                    first: page,
                    pages: 1,
                }),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, pages: u32) -> Run {
        Run {
            group: GroupId(0),
            first,
            pages,
        }
    }

    #[test]
    fn pages_are_allocated_in_order_and_never_the_header() {
        let mut group = Group::new("a".into(), 130, 1 << 16);
        let all = group.unreferenced(GroupId(0));
        assert_eq!(all, [run(1, 129)]);
        group.set_free(all[0]);
        let taken: Vec<u32> = core::iter::from_fn(|| group.take()).collect();
        assert_eq!(taken, (1..130).collect::<Vec<_>>());
        assert_eq!((group.used_pages(), group.free_pages()), (129, 0));
    }

    #[test]
    fn a_page_is_freeing_until_its_dropped_references_are_settled() {
        let mut group = Group::new("a".into(), 3, 1 << 16);
        group.set_free(run(1, 2));
        let page = group.take().unwrap();
        group.add_reference(page);
        group.drop_reference(page);
        assert_eq!(group.settle(page).live, 1, "one map still references it");
        group.drop_reference(page);
        assert_eq!(
            (
                group.used_pages(),
                group.freeing_pages(),
                group.free_pages()
            ),
            (0, 1, 1)
        );
        assert_eq!(group.settle(page), References::default());
        group.set_free(run(page, 1));
        assert_eq!((group.freeing_pages(), group.free_pages()), (0, 2));
    }
}
