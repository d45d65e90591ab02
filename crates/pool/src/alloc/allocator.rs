//! Allocation: checks for space, chooses the next page, and recycles freed pages.

use crate::actions::Actions;
use crate::alloc::epoch::Epochs;
use crate::alloc::group::Group;
use crate::alloc::recycler::Recycler;
use crate::map::PageId;
use crate::place::GroupId;

/// Availability of a number of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Pages can be allocated now.
    Available,
    /// Enough pages become available when freed pages are recycled, when dropped references end,
    /// or after earlier requests in the queue.
    Coming,
    /// Enough pages become available only if others are deallocated or added.
    Full,
}

/// The pages of all groups.
#[derive(Debug)]
pub(crate) struct Allocator {
    pub(crate) page_bytes: u32,
    pub(crate) groups: Vec<Group>,
    /// Group at which the search for the next page starts.
    next: usize,
    pub(crate) epochs: Epochs,
    pub(crate) recycler: Recycler,
    /// A queued request is waiting for space; nothing behind it may allocate.
    pub(crate) is_contended: bool,
    /// The space for metadata is almost exhausted: no page is allocated.
    pub(crate) metadata_is_low: bool,
}

impl Allocator {
    /// Creates an allocator without groups.
    pub(crate) fn new(page_bytes: u32) -> Allocator {
        Allocator {
            page_bytes,
            groups: Vec::new(),
            next: 0,
            epochs: Epochs::new(),
            recycler: Recycler::default(),
            is_contended: false,
            metadata_is_low: false,
        }
    }

    /// Returns a group by its number.
    pub(crate) fn group(&mut self, id: GroupId) -> &mut Group {
        &mut self.groups[id.index()]
    }

    /// Returns whether only one reference to the page exists, so that the volume that maps it may
    /// overwrite it in place.
    pub(crate) fn is_exclusive(&self, page: PageId) -> bool {
        let references = self.groups[page.group.index()].references(page.page);
        references.live == 1 && references.dropping == 0
    }

    /// Returns whether the page becomes exclusive once its dropped references have ended.
    pub(crate) fn is_settling(&self, page: PageId) -> bool {
        let references = self.groups[page.group.index()].references(page.page);
        references.live == 1 && references.dropping > 0
    }

    /// Recycles dropped pages that no access can touch any longer. Returns whether a page became
    /// exclusive.
    pub(crate) fn recycle(&mut self, actions: &mut Actions) -> bool {
        self.recycler
            .run(&mut self.groups, &self.epochs, self.page_bytes, actions)
    }

    /// Frees the pages of a batch of discards, which is on stable storage.
    pub(crate) fn end_recycling(&mut self) {
        self.recycler.end_batch(&mut self.groups);
    }

    /// Returns whether `pages` pages can be allocated. Of these, `settling` replace pages that
    /// become exclusive, and are then no longer needed.
    pub(crate) fn space_for(&self, pages: u64, settling: u64) -> Space {
        if pages == 0 {
            return Space::Available;
        }
        let lasting = pages - settling;
        if self.metadata_is_low {
            return if lasting > 0 {
                Space::Full
            } else {
                Space::Coming
            };
        }
        let free: u64 = self
            .groups
            .iter()
            .map(|group| u64::from(group.free_pages()))
            .sum();
        let freeing: u64 = self
            .groups
            .iter()
            .map(|group| u64::from(group.freeing_pages()))
            .sum();
        if lasting > free + freeing {
            Space::Full
        } else if pages > free || self.is_contended {
            Space::Coming
        } else {
            Space::Available
        }
    }

    /// Allocates the next page, from the groups in turn, so that the drives of all groups share the
    /// load. Requires that [`Allocator::space_for`] reported space.
    pub(crate) fn take_page(&mut self) -> PageId {
        for _ in 0..self.groups.len() {
            let index = self.next;
            self.next = (index + 1) % self.groups.len();
            if let Some(page) = self.groups[index].take() {
                return PageId {
                    group: GroupId(index as u16),
                    page,
                };
            }
        }
        unreachable!("the caller checked that there is space")
    }

    /// Returns the number of pages that can hold data, and the number of those in use.
    pub(crate) fn total_and_used_pages(&self) -> (u64, u64) {
        self.groups.iter().fold((0, 0), |(total, used), group| {
            (
                total + u64::from(group.data_pages()),
                used + u64::from(group.used_pages()),
            )
        })
    }
}
