//! The first entry that references each page, to detect pages that are referenced twice.

use crate::finding::Fault;
use crate::map::PageId;
use crate::volume::VolumeId;

/// For every page of every group: the first entry that references it.
pub(crate) struct Owners {
    groups: Vec<Vec<Option<Owner>>>,
}

#[derive(Clone, Copy)]
struct Owner {
    volume: VolumeId,
    family: VolumeId,
    page: u64,
}

impl Owners {
    pub(crate) fn new(pages: impl Iterator<Item = u32>) -> Owners {
        Owners {
            groups: pages.map(|pages| vec![None; pages as usize]).collect(),
        }
    }

    /// Registers an entry that references `at`. Only copies of one volume may reference the same
    /// page, each at the same page of theirs.
    pub(crate) fn claim(
        &mut self,
        at: PageId,
        volume: VolumeId,
        family: VolumeId,
        page: u64,
    ) -> Option<Fault> {
        let owner = &mut self.groups[at.group.index()][at.page as usize];
        match owner {
            None => {
                *owner = Some(Owner {
                    volume,
                    family,
                    page,
                });
                None
            }
            Some(first)
                if first.family == family && first.page == page && first.volume != volume =>
            {
                None
            }
            Some(first) => Some(Fault::UsedTwice {
                page: at,
                other: (first.volume, first.page),
            }),
        }
    }
}
