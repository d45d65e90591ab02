//! The pool's metadata on stable storage: records with their own checksums in redb, over a
//! [`crate::disk::Disk`].
//!
//! redb is trusted with atomic commits, not with our data: each record says which format, kind and
//! key it is, and carries a CRC32C. Commits are two-phase, so that a damaged root is refused; redb
//! would otherwise go back to the commit before it.
//!
//! | table | key | record |
//! |---|---|---|
//! | `superblock` | 0 | [`Superblock`] |
//! | `groups` | number | [`GroupRecord`] |
//! | `volumes` | number | [`VolumeRecord`] |
//! | `leaves` | volume << 32 \| leaf | 512 entries of a volume's map |
//!
//! The free pages are not recorded: that follows from the maps, so no crash can leak a page.

mod backend;
pub(crate) mod record;
mod store;

use std::sync::Arc;

pub use record::{FORMAT, GroupRecord, RecordError, Superblock, VolumeRecord};
pub use store::{Loaded, Store, StoreError};

use crate::map::Leaf;
use crate::place::GroupId;
use crate::volume::VolumeId;

/// Changes since the batch before: all of it becomes durable, or nothing. Made by the pool, for
/// [`Store::commit`].
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) superblock: Superblock,
    pub(crate) groups: Vec<(GroupId, GroupRecord)>,
    pub(crate) volumes: Vec<(VolumeId, VolumeRecord)>,
    /// Leaves as they were when the batch was made; `None`: no longer there.
    pub(crate) leaves: Vec<(VolumeId, u32, Option<Arc<Leaf>>)>,
    /// Volumes that are gone with all their leaves.
    pub(crate) deleted: Vec<VolumeId>,
}

impl Batch {
    /// The commit's number, one more than that of the commit before.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.superblock.generation
    }
}
