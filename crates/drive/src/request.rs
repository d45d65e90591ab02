//! Requests to an array and their completions.
use hakaru_units::Time;

/// Operation of a request. Drives see reads, writes and, if they are SSDs, unmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Data comes from the drives.
    Read,
    /// Data goes to the drives.
    Write,
    /// The data of the range is no longer needed (UNMAP, TRIM). Hard disks ignore it: only the
    /// controller's cost applies.
    Unmap,
    /// Earlier writes to the range must be on drives, or in a cache that survives a power failure.
    Flush,
}

/// A request to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the caller and returned in [`Completion`]. The model does not need it to be
    /// unique.
    pub id: u64,
    /// RAID group, counted from 0.
    pub group: u32,
    /// Operation.
    pub op: Op,
    /// First byte of the group's usable space.
    pub offset_bytes: u64,
    /// Bytes; 0 costs only the controller's time. For a flush, the range to put on stable storage.
    pub length_bytes: u64,
    /// Force unit access: a write is complete only when it survives a power cut.
    pub fua: bool,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Id of the request.
    pub id: u64,
    /// Instant of completion, never later than the `now` of the call that reported it.
    pub at: Time,
}
