//! Commands that a group sends to its drives.
use crate::request::Op;

/// A command to a drive. It is never a flush, because data that a drive has acknowledged survives a
/// power failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// Key of the group's stage that the command belongs to.
    pub(crate) stage: usize,
    pub(crate) op: Op,
    /// First byte on the drive.
    pub(crate) offset: u64,
    /// Length, bytes.
    pub(crate) length: u64,
}
