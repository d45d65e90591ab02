//! Requests to a pool, and its replies.

use crate::access::pieces::Pieces;
use crate::place::GroupId;
use crate::volume::VolumeId;

/// The caller's name for a request; every reply to it carries it. Unique among the requests that
/// are not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names the access of a [`Outcome::Ready`] until [`crate::Pool::handle_moved`].
#[derive(Debug, PartialEq, Eq)]
pub struct Access(pub(crate) usize);

/// A range of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// First byte.
    pub offset_bytes: u64,
    /// Bytes.
    pub length_bytes: u64,
}

/// A request. Ranges lie within the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Where are these bytes? Answered `Ready` at once, also while the pool is read-only.
    Read {
        /// Of which volume.
        volume: VolumeId,
        /// First byte.
        offset_bytes: u64,
        /// Bytes, at least 1.
        length_bytes: u32,
    },
    /// Where may these bytes go? Answered `Ready`, perhaps after pages were copied or freed pages
    /// came back. Also for WRITE SAME with a block that is not given back: the caller fills the
    /// pieces.
    Write {
        /// Of which volume.
        volume: VolumeId,
        /// First byte.
        offset_bytes: u64,
        /// Bytes, at least 1.
        length_bytes: u32,
        /// After `handle_moved` a second reply, `Done` or `Failed`, follows when it is on stable
        /// storage.
        fua: bool,
    },
    /// From now on these ranges read as zeros; whole pages are given back. UNMAP, and WRITE SAME of
    /// zeros with UNMAP. Answered `Done`.
    Unmap {
        /// Of which volume.
        volume: VolumeId,
        /// In any order; they may touch and overlap.
        ranges: Vec<Range>,
        /// `Done` only when it is on stable storage.
        fua: bool,
    },
    /// Everything that was moved before is on stable storage when this is answered `Done`.
    /// SYNCHRONIZE CACHE. Pool-wide.
    Flush,
    /// Adds the pages of a group whose file [`crate::Pool::prepare_group`] has made. Answered
    /// `Grown`, durable; may be used at once.
    AddGroup {
        /// Its name, unique among the groups.
        name: String,
        /// Size of its file; cut down to whole pages, the first of which is the header's.
        size_bytes: u64,
    },
    /// Makes a volume that reads as zeros. Answered `Created`, durable.
    Create {
        /// Its name, unique among the volumes.
        name: String,
        /// Virtual size, 512 bytes to [`crate::SIZE_BYTES_MAX`], a multiple of 512. May exceed the
        /// pool.
        size_bytes: u64,
        /// Most bytes of pages that it may map itself.
        quota_bytes: Option<u64>,
    },
    /// Makes a copy of a volume as it is once the writes in flight to it have ended. Answered
    /// `Created`, durable. No data are copied now; a page is copied when one side first writes to
    /// it.
    Snapshot {
        /// Of which volume.
        volume: VolumeId,
        /// The copy's name, unique among the volumes.
        name: String,
        /// A snapshot (true) takes no writes; a clone (false) does.
        read_only: bool,
        /// Most bytes of pages that the copy may map.
        quota_bytes: Option<u64>,
    },
    /// Makes a volume larger. Answered `Done`, durable.
    Resize {
        /// The volume.
        volume: VolumeId,
        /// New size, not below the present one.
        size_bytes: u64,
    },
    /// Sets or lifts a quota. Answered `Done`, durable. A volume above its new quota keeps what it
    /// has.
    SetQuota {
        /// The volume.
        volume: VolumeId,
        /// Most bytes of pages that it may map itself.
        quota_bytes: Option<u64>,
    },
    /// Forgets a volume once the writes in flight to it have ended. Answered `Done`, durable.
    Delete {
        /// The volume.
        volume: VolumeId,
    },
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// To which request.
    pub id: RequestId,
    /// How it went.
    pub outcome: Outcome,
}

/// How a request went.
#[derive(Debug)]
pub enum Outcome {
    /// Move the data between these pieces and the initiator, then call
    /// [`crate::Pool::handle_moved`]. That ends the request, except that a `fua` write is answered
    /// once more.
    Ready {
        /// For `handle_moved`.
        access: Access,
        /// Where the data are or go.
        pieces: Pieces,
    },
    /// Done; over.
    Done,
    /// The volume exists; over.
    Created(VolumeId),
    /// The group is part of the pool; over.
    Grown(GroupId),
    /// Nothing was done, or (after `handle_moved`) it did not reach stable storage; over.
    Failed(Failure),
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The pool has no page left, nor will have when all that was freed has come back. 07h/27h/07h.
    #[error("the pool is full")]
    Full,
    /// The volume may not map more pages. 07h/27h/07h.
    #[error("the volume has reached its quota")]
    Quota,
    /// A sync or a commit has failed before; the pool takes no changes until it is opened again.
    #[error("the pool is read-only since a sync or a commit failed")]
    ReadOnly,
    /// The volume is a snapshot.
    #[error("the volume is a read-only snapshot")]
    Snapshot,
    /// There is no such volume (any more).
    #[error("there is no such volume")]
    NoVolume,
    /// The range does not lie within the volume, or is empty.
    #[error("the range is not within the volume")]
    OutOfRange,
    /// Copying or zeroing a page failed.
    #[error("a page could not be copied or zeroed")]
    Io,
    /// The name is taken.
    #[error("the name is taken")]
    NameTaken,
    /// The name has characters other than letters, digits, `.`, `_` and `-`, begins with `.` or
    /// `-`, is empty or too long.
    #[error(
        "a name is 1 to 64 letters, digits, '.', '_' and '-', and does not begin with '.' or '-'"
    )]
    NameInvalid,
    /// The size is 0, no multiple of 512, above the limit, below the present size, or (group) too
    /// small for one page.
    #[error("the size is out of bounds")]
    SizeInvalid,
    /// The pool has as many groups or volumes as it may have.
    #[error("the pool has as many groups or volumes as it may have")]
    TooMany,
}
