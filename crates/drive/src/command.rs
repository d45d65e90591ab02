//! Commands that a group sends to its drives.
use crate::request::Op;

/// A command to a drive. It is never a flush: data that a drive has acknowledged survives a power
/// cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// Stage of the group that is notified when the command ends.
    pub(crate) stage: usize,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}
