//! Settings and limits of a pool.

use core::time::Duration;

/// Smallest page: 64 KiB.
pub const PAGE_BYTES_MIN: u32 = 64 << 10;
/// Default page: 256 KiB. Metadata takes 6 bytes per page. A first write or a copy costs at most
/// one page.
pub const PAGE_BYTES_DEFAULT: u32 = 256 << 10;
/// Largest page: 16 MiB.
pub const PAGE_BYTES_MAX: u32 = 16 << 20;
/// Maximum number of groups: limits the size of the superblock's record and the cost of a round
/// over all groups.
pub const GROUPS_MAX: usize = 256;
/// Maximum number of volumes, including snapshots.
pub const VOLUMES_MAX: usize = 4096;
/// Longest name of a group or volume, bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Largest volume and largest group: 256 TiB. A volume's table of leaves is then 16 MiB with the
/// default page.
pub const SIZE_BYTES_MAX: u64 = 256 << 40;

/// Settings that may change each time a pool is opened. The page size is fixed at creation and
/// stored in the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Used share of the pool at which [`crate::Event::ThresholdCrossed`] is reported, percent, 1
    /// to 100, default 70. It is reported again only after use has fallen 2 percentage points
    /// below.
    pub soft_threshold_percent: u8,
    /// Longest time for which a changed map stays in memory without a flush, default 5 s. Freed
    /// pages are recycled after at most this time. Costs one sync of the data and one commit.
    pub commit_interval: Duration,
    /// Time for which a write waits for space before it fails with [`crate::Failure::Full`], as in
    /// dm-thin's queue mode (`no_space_timeout` 60 s). It proceeds once space becomes free
    /// (UNMAP, another group). A volume at its quota still refuses at once. Default 0: refuse at
    /// once.
    pub hold_when_full: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            soft_threshold_percent: 70,
            commit_interval: Duration::from_secs(5),
            hold_when_full: Duration::ZERO,
        }
    }
}

/// Returns whether a name is valid: 1 to [`NAME_BYTES_MAX`] ASCII letters, digits, `.`, `_` and
/// `-`, not starting with `.` or `-`. Such a name is safe in a file name, a label and a terminal.
#[must_use]
pub fn name_is_valid(name: &str) -> bool {
    let bytes = name.as_bytes();
    matches!(bytes.first(), Some(first) if first.is_ascii_alphanumeric() || *first == b'_')
        && bytes.len() <= NAME_BYTES_MAX
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Logical block; sizes are multiples of it.
const BLOCK_BYTES: u64 = 512;

/// Returns whether a size is a whole number of blocks, at least one, within the bounds.
pub(crate) fn size_is_valid(size_bytes: u64) -> bool {
    size_bytes > 0 && size_bytes <= SIZE_BYTES_MAX && size_bytes.is_multiple_of(BLOCK_BYTES)
}

/// Returns whether a page size is a power of two within the bounds.
pub(crate) fn page_bytes_are_valid(page_bytes: u32) -> bool {
    page_bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes)
}
