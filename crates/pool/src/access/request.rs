//! Requests to a pool, and its replies.

use crate::access::pieces::Pieces;
use crate::place::GroupId;
use crate::volume::VolumeId;

/// The caller's identifier of a request, repeated in every reply. Unique among the requests in
/// progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Identifies the access of an [`Outcome::Ready`] until [`crate::Pool::handle_moved`].
#[derive(Debug, PartialEq, Eq)]
pub struct Access(pub(crate) usize);

/// A range of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// Offset of the first byte.
    pub offset_bytes: u64,
    /// Length, bytes.
    pub length_bytes: u64,
}

/// A request. Ranges lie within the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Locates data for reading. Answered `Ready` at once, even while the pool is read-only.
    Read {
        /// The volume.
        volume: VolumeId,
        /// Offset of the first byte.
        offset_bytes: u64,
        /// Length, bytes, at least 1.
        length_bytes: u32,
    },
    /// Locates space for writing. Answered `Ready`, perhaps after pages were copied or freed. Also
    /// used for a WRITE SAME that does not deallocate: the caller fills the pieces.
    Write {
        /// The volume.
        volume: VolumeId,
        /// Offset of the first byte.
        offset_bytes: u64,
        /// Length, bytes, at least 1.
        length_bytes: u32,
        /// Forced unit access: after `handle_moved` a second reply, `Done` or `Failed`, follows
        /// once the data is on stable storage.
        fua: bool,
    },
    /// Unmaps ranges: they read as zeros from now on, and whole pages are deallocated. Used for
    /// UNMAP, and for WRITE SAME of zeros with the UNMAP bit. Answered `Done`.
    Unmap {
        /// The volume.
        volume: VolumeId,
        /// Ranges in any order; they may touch and overlap.
        ranges: Vec<Range>,
        /// Delay the reply until the change is on stable storage.
        fua: bool,
    },
    /// Flushes the entire pool, for SYNCHRONIZE CACHE. Once it is answered `Done`, all data
    /// transferred before the request is on stable storage.
    Flush,
    /// Adds the pages of a group after [`crate::Pool::prepare_group`] has created its file.
    /// Answered `Grown`, durable; the pages are available at once.
    AddGroup {
        /// Name, unique among the groups.
        name: String,
        /// Size of its file, bytes; rounded down to whole pages, the first of which is the
        /// header's.
        size_bytes: u64,
    },
    /// Creates a volume that reads as zeros. Answered `Created`, durable.
    Create {
        /// Name, unique among the volumes.
        name: String,
        /// Virtual size, 512 bytes to [`crate::SIZE_BYTES_MAX`], a multiple of 512. May exceed the
        /// pool.
        size_bytes: u64,
        /// Quota: maximum bytes of pages mapped by the volume.
        quota_bytes: Option<u64>,
    },
    /// Copies a volume in its state after the writes in flight have ended. Answered `Created`,
    /// durable. No data is copied now; a page is copied at the first write of either side.
    Snapshot {
        /// The volume to copy.
        volume: VolumeId,
        /// Name of the copy, unique among the volumes.
        name: String,
        /// Creates a read-only snapshot (true) or a writable clone (false).
        read_only: bool,
        /// Quota: maximum bytes of pages mapped by the copy.
        quota_bytes: Option<u64>,
    },
    /// Extends a volume. Answered `Done`, durable.
    Resize {
        /// The volume.
        volume: VolumeId,
        /// New size, bytes, not below the present size.
        size_bytes: u64,
    },
    /// Sets or removes a quota. Answered `Done`, durable. A volume above its new quota keeps its
    /// pages.
    SetQuota {
        /// The volume.
        volume: VolumeId,
        /// Quota: maximum bytes of pages mapped by the volume.
        quota_bytes: Option<u64>,
    },
    /// Deletes a volume once the writes in flight to it have ended. Answered `Done`, durable.
    Delete {
        /// The volume.
        volume: VolumeId,
    },
}

/// A reply.
#[derive(Debug)]
pub struct Reply {
    /// The request.
    pub id: RequestId,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a request.
#[derive(Debug)]
pub enum Outcome {
    /// Transfer the data between these pieces and the initiator, then call
    /// [`crate::Pool::handle_moved`]. This ends the request, except that a `fua` write is answered
    /// once more.
    Ready {
        /// Identifier for `handle_moved`.
        access: Access,
        /// Location of the data.
        pieces: Pieces,
    },
    /// The request is complete.
    Done,
    /// The volume was created.
    Created(VolumeId),
    /// The group was added to the pool.
    Grown(GroupId),
    /// The request failed without effect, or (after `handle_moved`) its data did not reach stable
    /// storage.
    Failed(Failure),
}

/// Reason why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The pool has no page left, even after all freed pages become available. DATA PROTECT, SPACE
    /// ALLOCATION FAILED WRITE PROTECT (07h/27h/07h).
    #[error("the pool is full")]
    Full,
    /// The volume has reached its quota and may not map more pages. DATA PROTECT, SPACE ALLOCATION
    /// FAILED WRITE PROTECT (07h/27h/07h).
    #[error("the volume has reached its quota")]
    Quota,
    /// A sync or a commit has failed; the pool refuses changes until it is opened again.
    #[error("the pool is read-only because a sync or a commit failed")]
    ReadOnly,
    /// The volume is a snapshot.
    #[error("the volume is a read-only snapshot")]
    Snapshot,
    /// The volume does not exist, or no longer exists.
    #[error("there is no such volume")]
    NoVolume,
    /// The range exceeds the volume, or is empty.
    #[error("the range is not within the volume")]
    OutOfRange,
    /// Copying or zeroing a page failed.
    #[error("a page could not be copied or zeroed")]
    Io,
    /// The name is in use.
    #[error("the name is taken")]
    NameTaken,
    /// The name contains characters other than letters, digits, `.`, `_` and `-`, starts with `.`
    /// or `-`, is empty or too long.
    #[error(
        "a name is 1 to 64 letters, digits, '.', '_' and '-', and does not start with '.' or '-'"
    )]
    NameInvalid,
    /// The size is 0, not a multiple of 512, above the limit, below the present size, or (group)
    /// too small for one page.
    #[error("the size is out of bounds")]
    SizeInvalid,
    /// The pool has the maximum number of groups or volumes.
    #[error("the pool has the maximum number of groups or volumes")]
    TooMany,
}
