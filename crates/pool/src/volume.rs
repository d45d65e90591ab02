//! A virtual LU: its map and its properties.

use crate::map::Map;

/// Number of a volume, never reused in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) quota_bytes: Option<u64>,
    /// Whether the volume is a read-only snapshot.
    pub(crate) read_only: bool,
    /// The volume from which this one was copied. It may have been deleted.
    pub(crate) origin: Option<VolumeId>,
    /// The first volume in the chain of origins. Only volumes of one family share pages, each at
    /// the same page number.
    pub(crate) family: VolumeId,
    pub(crate) map: Map,
    /// Number of accesses in flight that change the volume's pages.
    pub(crate) writes_in_flight: u32,
    /// Number of snapshots and deletions that wait for these accesses. No write starts meanwhile.
    pub(crate) barriers: u32,
}

impl Volume {
    pub(crate) fn new(
        id: VolumeId,
        name: String,
        size_bytes: u64,
        quota_bytes: Option<u64>,
    ) -> Volume {
        Volume {
            name,
            size_bytes,
            quota_bytes,
            read_only: false,
            origin: None,
            family: id,
            map: Map::default(),
            writes_in_flight: 0,
            barriers: 0,
        }
    }

    pub(crate) fn contains(&self, offset_bytes: u64, length_bytes: u64) -> bool {
        length_bytes > 0
            && offset_bytes
                .checked_add(length_bytes)
                .is_some_and(|end| end <= self.size_bytes)
    }
}
