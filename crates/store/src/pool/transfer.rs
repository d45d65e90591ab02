//! An access to a volume in flight.
use hakaru_pool::{Access, Pieces, VolumeId};
use hakaru_scsi_device::{Extent, IoId, IoResult};

/// A request that the pool has not finished.
#[derive(Debug)]
pub(super) struct PoolAccess {
    pub(super) requester: Requester,
    /// The initiator's data; moved into the file request while a piece is transferred.
    pub(super) bytes: Vec<u8>,
    pub(super) moving: Option<Moving>,
}

/// Recipient of the pool's answer to a request.
#[derive(Debug)]
pub(super) enum Requester {
    Read {
        io: IoId,
        /// As [`hakaru_scsi_device::Io::received_bytes`].
        received_bytes: Option<u64>,
    },
    Write {
        io: IoId,
        fua: bool,
        /// As [`hakaru_scsi_device::Io::received_bytes`].
        received_bytes: Option<u64>,
    },
    /// One step of a WRITE SAME.
    WriteSame(WriteSame),
    /// An access without data, and its answer.
    Plain(IoId, IoResult),
    /// The operator, by the number of the management request.
    Operator(u64),
}

/// A WRITE SAME and its remaining range.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteSame {
    pub(super) io: IoId,
    pub(super) volume: VolumeId,
    pub(super) left: Extent,
    pub(super) fua: bool,
}

/// A transfer of data in progress, piece by piece.
#[derive(Debug)]
pub(super) struct Moving {
    pub(super) access: Access,
    pub(super) pieces: Pieces,
    /// Index of the next piece.
    pub(super) next: usize,
    /// Offset of the next piece in the data, bytes.
    pub(super) at: usize,
    pub(super) writes: bool,
}

impl Requester {
    /// Returns the initiator's access, unless the operator is the requester.
    pub(super) fn io(&self) -> Option<IoId> {
        match self {
            Requester::Read { io, .. }
            | Requester::Write { io, .. }
            | Requester::WriteSame(WriteSame { io, .. })
            | Requester::Plain(io, _) => Some(*io),
            Requester::Operator(_) => None,
        }
    }
}
