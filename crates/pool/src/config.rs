//! Settings and limits of a pool.

use core::time::Duration;

/// Smallest page: 64 KiB.
pub const PAGE_BYTES_MIN: u32 = 64 << 10;
/// Default page: 256 KiB. Metadata cost 6 bytes a page, a first write or a copy at most one page.
pub const PAGE_BYTES_DEFAULT: u32 = 256 << 10;
/// Largest page: 16 MiB.
pub const PAGE_BYTES_MAX: u32 = 16 << 20;
/// Groups of a pool at most: what one record of the superblock's size and a round over all of them
/// stand comfortably.
pub const GROUPS_MAX: usize = 256;
/// Volumes of a pool at most, snapshots counted.
pub const VOLUMES_MAX: usize = 4096;
/// Bytes of a group's or volume's name at most.
pub const NAME_BYTES_MAX: usize = 64;
/// Largest volume and largest group: 256 TiB. A volume's table of leaves is then 16 MiB with the
/// default page.
pub const SIZE_BYTES_MAX: u64 = 256 << 40;

/// Settings that may differ each time a pool is opened. What is fixed when it is made (the page
/// size) is in its superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Used share of the pool, in percent, at which [`crate::Event::ThresholdCrossed`] is reported.
    /// 1 to 100, default 70. It is reported again only after use has fallen 2 percent points below.
    pub soft_threshold_percent: u8,
    /// Longest time for which a changed map stays in memory without a flush being asked for,
    /// default 5 s. Pages that were freed come back after at most this time. Costs one sync of the
    /// data and one commit.
    pub commit_interval: Duration,
    /// How long a write waits for space where there is none, before it fails with
    /// [`crate::Failure::Full`]: dm-thin's queue mode, whose
    /// `no_space_timeout` is 60 s. What gives space back (UNMAP, another group) lets it proceed. A
    /// volume at its quota refuses at once all the same. Default 0: refused at once.
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

/// 1 to [`NAME_BYTES_MAX`] letters, digits, `.`, `_` and `-` of ASCII, not beginning with `.` or
/// `-`: fit for a file name, a label, a terminal.
#[must_use]
pub fn name_is_valid(name: &str) -> bool {
    let bytes = name.as_bytes();
    matches!(bytes.first(), Some(first) if first.is_ascii_alphanumeric() || *first == b'_')
        && bytes.len() <= NAME_BYTES_MAX
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Logical block that sizes are multiples of.
const BLOCK_BYTES: u64 = 512;

/// Whole blocks, at least one, within the bounds.
pub(crate) fn size_is_valid(size_bytes: u64) -> bool {
    size_bytes > 0 && size_bytes <= SIZE_BYTES_MAX && size_bytes.is_multiple_of(BLOCK_BYTES)
}

/// A power of two within the bounds.
pub(crate) fn page_bytes_are_valid(page_bytes: u32) -> bool {
    page_bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes)
}
