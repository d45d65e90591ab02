//! The first entry that references each page, to detect pages that are referenced twice.

use crate::finding::Fault;
use crate::map::PageId;
use crate::volume::VolumeId;

/// The first entry that references each page of each group.
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

    /// Registers an entry that references `at`. Returns a fault if another entry references it
    /// already, unless both are the same page of two copies of one volume.
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
