//! Figures of a pool, its groups and volumes, in bytes of whole pages.

use crate::access::request::{Failure, Range};
use crate::place::GroupId;
use crate::pool::Pool;
use crate::volume::VolumeId;

/// Figures of a pool. `capacity = used + free + lost`.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolStatus {
    /// Page size, bytes.
    pub page_bytes: u32,
    /// Capacity for data, without headers, bytes.
    pub capacity_bytes: u64,
    /// Bytes that at least one volume maps, or that a copy in progress will map.
    pub used_bytes: u64,
    /// Bytes available to writes, at once or after freed pages are recycled.
    pub free_bytes: u64,
    /// Part of the free bytes that is not yet committed, discarded and synced. A write that needs
    /// it waits.
    pub freeing_bytes: u64,
    /// Bytes that could not be discarded: unusable until the pool is opened again.
    pub lost_bytes: u64,
    /// Sum of the sizes of all writable volumes, bytes.
    pub provisioned_bytes: u64,
    /// Sum of the bytes that each volume maps. Shared pages count once for each volume.
    pub mapped_bytes: u64,
    /// Runs in all maps: pages of a volume that follow one another in their group, in the order of
    /// the volume. A fragmented pool has many.
    pub runs: u64,
    /// `provisioned / capacity`; 0 for a pool without groups.
    pub overcommit: f64,
    /// Use at which the soft threshold is reported, bytes.
    pub threshold_bytes: u64,
    /// Number of the last commit that was started.
    pub generation: u64,
    /// Commits since the pool was opened.
    pub commits: u64,
    /// Pages copied since the pool was opened.
    pub copies: u64,
    /// Whether a sync or a commit has failed.
    pub read_only: bool,
    /// Whether the space for metadata is almost exhausted.
    pub metadata_is_low: bool,
}

/// Figures of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// Number of the group.
    pub id: GroupId,
    /// Name of the group.
    pub name: String,
    /// Size of the used part of the group's file, bytes: whole pages, including the header's.
    pub size_bytes: u64,
    /// Capacity for data, bytes.
    pub capacity_bytes: u64,
    /// Bytes that at least one volume maps, as in [`PoolStatus`].
    pub used_bytes: u64,
    /// Bytes available to writes, as in [`PoolStatus`].
    pub free_bytes: u64,
}

/// Figures of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Number of the volume.
    pub id: VolumeId,
    /// Name of the volume.
    pub name: String,
    /// Virtual size, bytes.
    pub size_bytes: u64,
    /// Quota, bytes.
    pub quota_bytes: Option<u64>,
    /// Bytes of the pages that the volume maps, shared or not.
    pub mapped_bytes: u64,
    /// Whether the volume is a read-only snapshot.
    pub read_only: bool,
    /// The volume from which this one was copied. It may have been deleted.
    pub origin: Option<VolumeId>,
}

impl Pool {
    /// Returns the figures of the pool. Walks groups and volumes, not maps.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        let bytes = |pages: u64| pages * u64::from(self.page_bytes);
        let (total, used) = self.alloc.total_and_used_pages();
        let sum = |of: fn(&crate::alloc::group::Group) -> u32| {
            self.alloc
                .groups
                .iter()
                .map(|group| u64::from(of(group)))
                .sum::<u64>()
        };
        let (freeing, lost) = (
            sum(|group| group.freeing_pages()),
            sum(|group| group.lost_pages()),
        );
        let provisioned_bytes = self
            .volumes
            .values()
            .filter(|volume| !volume.read_only)
            .map(|volume| volume.size_bytes)
            .sum();
        PoolStatus {
            page_bytes: self.page_bytes,
            capacity_bytes: bytes(total),
            used_bytes: bytes(used),
            free_bytes: bytes(total - used - lost),
            freeing_bytes: bytes(freeing),
            lost_bytes: bytes(lost),
            provisioned_bytes,
            mapped_bytes: bytes(
                self.volumes
                    .values()
                    .map(|volume| volume.map.mapped())
                    .sum(),
            ),
            runs: self.volumes.values().map(|volume| volume.map.runs()).sum(),
            overcommit: if total == 0 {
                0.0
            } else {
                provisioned_bytes as f64 / bytes(total) as f64
            },
            threshold_bytes: bytes(
                (total * u64::from(self.config.soft_threshold_percent)).div_ceil(100),
            ),
            generation: self.generation,
            commits: self.commits_made,
            copies: self.copies_made,
            read_only: self.read_only,
            metadata_is_low: self.alloc.metadata_is_low,
        }
    }

    /// Returns the bytes that at least one volume maps, as in [`PoolStatus`]. Walks only the
    /// groups.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.alloc.total_and_used_pages().1 * u64::from(self.page_bytes)
    }

    /// Returns the bytes that a volume maps, and the bytes that it may still map: the pool's free
    /// bytes, or the rest of its quota if that is less. Walks only the groups.
    #[must_use]
    pub fn space(&self, id: VolumeId) -> Option<(u64, u64)> {
        let volume = self.volumes.get(&id)?;
        let page_bytes = u64::from(self.page_bytes);
        let (total, used) = self.alloc.total_and_used_pages();
        let lost: u64 = self
            .alloc
            .groups
            .iter()
            .map(|group| u64::from(group.lost_pages()))
            .sum();
        let mapped = volume.map.mapped() * page_bytes;
        let free = (total - used - lost) * page_bytes;
        let left = volume
            .quota_bytes
            .map_or(free, |quota| quota.saturating_sub(mapped));
        Some((mapped, free.min(left)))
    }

    /// Returns the figures of all groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = GroupStatus> + '_ {
        let bytes = |pages: u32| u64::from(pages) * u64::from(self.page_bytes);
        self.alloc
            .groups
            .iter()
            .enumerate()
            .map(move |(index, group)| GroupStatus {
                id: GroupId(index as u16),
                name: group.name.clone(),
                size_bytes: group.size_bytes,
                capacity_bytes: bytes(group.data_pages()),
                used_bytes: bytes(group.used_pages()),
                free_bytes: bytes(group.free_pages() + group.freeing_pages()),
            })
    }

    /// Returns the figures of all volumes, in order of their numbers.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeStatus> + '_ {
        self.volumes.keys().filter_map(|id| self.volume(*id))
    }

    /// Returns the figures of a volume.
    #[must_use]
    pub fn volume(&self, id: VolumeId) -> Option<VolumeStatus> {
        let volume = self.volumes.get(&id)?;
        Some(VolumeStatus {
            id,
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            quota_bytes: volume.quota_bytes,
            mapped_bytes: volume.map.mapped() * u64::from(self.page_bytes),
            read_only: volume.read_only,
            origin: volume.origin,
        })
    }

    /// Returns the volume with this name.
    #[must_use]
    pub fn volume_named(&self, name: &str) -> Option<VolumeId> {
        self.volumes
            .iter()
            .find_map(|(id, volume)| (volume.name == name).then_some(*id))
    }

    /// Returns the bytes of the pages that only this volume maps, which its deletion frees. Walks
    /// the volume's map.
    #[must_use]
    pub fn exclusive_bytes(&self, id: VolumeId) -> Option<u64> {
        let volume = self.volumes.get(&id)?;
        let is_exclusive = |page: &(u64, crate::map::PageId)| {
            self.alloc.groups[page.1.group.index()]
                .references(page.1.page)
                .live
                == 1
        };
        Some(volume.map.iter().filter(is_exclusive).count() as u64 * u64::from(self.page_bytes))
    }

    /// Returns the provisioning of a range for GET LBA STATUS: at most `extents_max` consecutive
    /// extents from its start, each with a flag that is true if the extent is mapped. Adjacent
    /// extents differ in the flag.
    ///
    /// # Errors
    /// [`Failure::NoVolume`], [`Failure::OutOfRange`].
    pub fn provisioning(
        &self,
        id: VolumeId,
        range: Range,
        extents_max: usize,
    ) -> Result<Vec<(Range, bool)>, Failure> {
        let volume = self.volumes.get(&id).ok_or(Failure::NoVolume)?;
        if !volume.contains(range.offset_bytes, range.length_bytes) {
            return Err(Failure::OutOfRange);
        }
        let page_bytes = u64::from(self.page_bytes);
        let end = range.offset_bytes + range.length_bytes;
        let page_end = end.div_ceil(page_bytes);
        let mut extents = Vec::new();
        let mut at = range.offset_bytes;
        while at < end && extents.len() < extents_max {
            let page = at / page_bytes;
            let mapped = volume.map.get(page).is_some();
            let next = if mapped {
                (page + 1..page_end).find(|&page| volume.map.get(page).is_none())
            } else {
                volume.map.next_mapped(page, page_end)
            };
            let to = next.map_or(end, |page| (page * page_bytes).min(end));
            let extent = Range {
                offset_bytes: at,
                length_bytes: to - at,
            };
            extents.push((extent, mapped));
            at = to;
        }
        Ok(extents)
    }
}
