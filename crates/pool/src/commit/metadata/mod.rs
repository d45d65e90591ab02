//! The pool's metadata on stable storage: checksummed records in redb, over a
//! [`crate::disk::Disk`].
//!
//! redb provides atomic commits, but its integrity checks are not relied on: each record contains
//! its format, kind and key, and a CRC32C. Commits are two-phase, so that a damaged root is
//! refused; otherwise redb would fall back to the previous commit.
//!
//! | table | key | record |
//! |---|---|---|
//! | `superblock` | 0 | [`Superblock`] |
//! | `groups` | number | [`GroupRecord`] |
//! | `volumes` | number | [`VolumeRecord`] |
//! | `leaves` | volume << 32 \| leaf | 512 entries of a volume's map |
//!
//! Free pages are not recorded. They follow from the maps, so no crash can leak a page.

mod backend;
pub(crate) mod frame;
mod record;
mod store;

use std::sync::Arc;

pub use frame::{FORMAT, RecordError};
pub use record::{GroupRecord, Superblock, VolumeRecord};
pub use store::{Loaded, Store, StoreError};

use crate::map::Leaf;
use crate::place::GroupId;
use crate::volume::VolumeId;

/// Changes since the previous batch, which become durable together or not at all. Created by the
/// pool, for [`Store::commit`].
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) superblock: Superblock,
    pub(crate) groups: Vec<(GroupId, GroupRecord)>,
    pub(crate) volumes: Vec<(VolumeId, VolumeRecord)>,
    /// Leaves as of the creation of the batch; `None` for a removed leaf.
    pub(crate) leaves: Vec<(VolumeId, u32, Option<Arc<Leaf>>)>,
    /// Volumes deleted with all their leaves.
    pub(crate) deleted: Vec<VolumeId>,
}

impl Batch {
    /// Returns the number of the commit, one more than that of the previous commit.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.superblock.generation
    }
}
