//! Requests to an array and their completions.
use hakaru_units::Time;

/// Operation of a request. Drives receive only reads, writes and, if they are SSDs, unmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read data.
    Read,
    /// Write data.
    Write,
    /// Discard the data of the range (UNMAP, TRIM). With hard disks, it costs only the controller's
    /// time.
    Unmap,
    /// Put earlier writes to the range on drives, unless the cache survives a power failure.
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
    /// First byte, as an offset in the group's usable space.
    pub offset_bytes: u64,
    /// Length of the range, bytes; that of a flush is written to the medium. With 0 the request costs
    /// only the controller's time.
    pub length_bytes: u64,
    /// Force unit access: a write completes only when it survives a power failure.
    pub fua: bool,
    /// Data that crosses the port. `None`: that of the range, sent for a read and received for a
    /// write. `Some`: the array has or makes the data of the range itself, as for a copy inside it, and
    /// receives so many bytes, such as the one block of WRITE SAME.
    pub received_bytes: Option<u64>,
    /// A read of a range that no drive has, such as an unmapped range of a thin LU. It costs the
    /// controller and the port as any read, and neither cache nor drives. The position is ignored.
    pub unmapped: bool,
}

impl Request {
    /// Returns the direction and the length of the data that crosses the port, received for a write
    /// and sent for a read. `None`: nothing crosses it.
    pub(crate) fn port_data(&self) -> Option<(Op, u64)> {
        match (self.received_bytes, self.op) {
            (Some(0), _) => None,
            (Some(bytes), _) => Some((Op::Write, bytes)),
            (None, Op::Read | Op::Write) => Some((self.op, self.length_bytes)),
            (None, Op::Unmap | Op::Flush) => None,
        }
    }
}

/// Result of dropping the data of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emptied {
    /// Data that was dropped, bytes.
    pub dropped_bytes: u64,
    /// Size of the segments that stay, because the drives lack some of their data, bytes.
    pub write_pending_bytes: u64,
}

/// The completion of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Id of the request.
    pub id: u64,
    /// Instant of completion, never later than the `now` of the last call.
    pub at: Time,
}
