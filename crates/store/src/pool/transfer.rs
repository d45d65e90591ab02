//! An access to a volume that is under way.
use hakaru_pool::{Access, Pieces, VolumeId};
use hakaru_scsi_device::{Extent, IoId, IoResult};

/// A request that the pool has not finished.
#[derive(Debug)]
pub(super) struct PoolAccess {
    pub(super) requester: Requester,
    /// The initiator's data; in a request to a file while a piece moves.
    pub(super) bytes: Vec<u8>,
    pub(super) moving: Option<Moving>,
}

/// Who a request of the pool is answered to.
#[derive(Debug)]
pub(super) enum Requester {
    Read(IoId),
    Write {
        io: IoId,
        fua: bool,
    },
    /// One step of a WRITE SAME.
    WriteSame(WriteSame),
    /// An access without data, and its answer.
    Plain(IoId, IoResult),
    /// The operator, by the number of the order.
    Operator(u64),
}

/// A WRITE SAME and what is left of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteSame {
    pub(super) io: IoId,
    pub(super) volume: VolumeId,
    pub(super) left: Extent,
    pub(super) fua: bool,
}

/// Data on their way.
#[derive(Debug)]
pub(super) struct Moving {
    pub(super) access: Access,
    pub(super) pieces: Pieces,
    /// The next piece, and where it begins in the data.
    pub(super) next: usize,
    pub(super) at: usize,
    pub(super) writes: bool,
}

impl Requester {
    /// The initiator's access, unless the operator asked.
    pub(super) fn io(&self) -> Option<IoId> {
        match self {
            Requester::Read(io)
            | Requester::Write { io, .. }
            | Requester::WriteSame(WriteSame { io, .. })
            | Requester::Plain(io, _) => Some(*io),
            Requester::Operator(_) => None,
        }
    }
}
