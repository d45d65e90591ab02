//! Limits of commands that are reported to initiators.

use hakaru_wire::scsi::CopyLimits;

/// Bounds of EXTENDED COPY.
pub(crate) const COPY: CopyLimits = CopyLimits {
    devices_max: 8,
    segments_max: 32,
    list_bytes_max: 8 * 32 + 32 * 28,
    // The largest number of 512-byte blocks that a segment descriptor can specify.
    segment_bytes_max: 65_535 * 512,
    copies_max: 32,
};

/// Maximum length of COMPARE AND WRITE, bytes. It is executed as one read and one write.
pub(crate) const COMPARE_AND_WRITE_BYTES_MAX: u32 = 64 << 10;

/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
pub(crate) const UNMAP_DESCRIPTORS_MAX: u32 = 256;

/// MAXIMUM WRITE SAME LENGTH, blocks: the maximum of the ten-byte form.
pub(crate) const WRITE_SAME_BLOCKS_MAX: u32 = 0xffff;
