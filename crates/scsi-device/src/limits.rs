//! Limits of commands that are reported to initiators.

use hakaru_wire::scsi::CopyLimits;

/// Bounds of EXTENDED COPY.
pub(crate) const COPY: CopyLimits = CopyLimits {
    devices_max: 8,
    segments_max: 32,
    list_bytes_max: 8 * 32 + 32 * 28,
    // The most blocks of 512 bytes that a segment descriptor can name.
    segment_bytes_max: 65_535 * 512,
    copies_max: 32,
};

/// COMPARE AND WRITE compares and writes this much at most: it is one read and one write.
pub(crate) const COMPARE_AND_WRITE_BYTES_MAX: u32 = 64 << 10;

/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
pub(crate) const UNMAP_DESCRIPTORS_MAX: u32 = 256;

/// MAXIMUM WRITE SAME LENGTH, blocks: as many as the ten-byte form can say.
pub(crate) const WRITE_SAME_BLOCKS_MAX: u32 = 0xffff;
