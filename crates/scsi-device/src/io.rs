//! Accesses requested from the storage, and their results.
//!
//! The target never touches an LU's bytes. It queues an [`Io`]. The shell (or `world`) executes it
//! at any later time and returns an [`IoResult`] with the same [`IoId`].

use hakaru_send_queue::Key;
use hakaru_tape::timing::Motion;

/// Identifies one [`Io`] until it is answered. An answer with an unknown id is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoId(pub Key);

impl IoId {
    /// An id that no access of a target has, for accesses of the shell itself.
    pub const SHELL: IoId = IoId(Key {
        index: u32::MAX,
        generation: u32::MAX,
    });

    /// Returns a small number that is unique among unanswered accesses, for use as a table index.
    /// It is bounded by the largest number of commands that were ever in flight at once.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.index as usize
    }

    /// Returns the id as one number, which is unique during the life of the target (up to 2^32
    /// reuses of one slot).
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        ((self.0.generation as u64) << 32) | self.0.index as u64
    }
}

/// One access to an LU. Its range was checked: it lies within the LU and begins and ends on block
/// boundaries.
#[derive(Debug, PartialEq, Eq)]
pub struct Io {
    /// Id of the access. Answer it exactly once.
    pub id: IoId,
    /// Logical unit number.
    pub lun: u8,
    /// The access.
    pub op: IoOp,
    /// Data that the initiator sends for the access, bytes, if the data of the access itself does
    /// not cross the port. `None`: it does, from the initiator for a write and to it for a read.
    pub received_bytes: Option<u64>,
}

/// The access.
#[derive(Debug, PartialEq, Eq)]
pub enum IoOp {
    /// Read blocks. Answer [`IoResult::ReadInPlace`] or [`IoResult::ReadData`].
    Read {
        /// First byte, a multiple of the LU's block length.
        offset_bytes: u64,
        /// Bytes, at least one block.
        length_bytes: u32,
        /// Whether the answer may be `ReadInPlace`. It may not if a digest must be computed over
        /// the data.
        in_place: bool,
    },
    /// Write blocks. Answer [`IoResult::Written`] with the buffer.
    Write {
        /// First byte, a multiple of the LU's block length.
        offset_bytes: u64,
        /// The bytes: whole blocks, at least one.
        data: Vec<u8>,
        /// Force unit access: the data must be on stable storage before the answer.
        fua: bool,
    },
    /// Put all written data on stable storage. Answer [`IoResult::Flushed`].
    Flush,
    /// As `Flush`, but only data in one part of the LU, if its store has parts: the cartridges of a
    /// tape library.
    FlushPart {
        /// Any byte of the part.
        offset_bytes: u64,
    },
    /// Let a motion of a tape drive take its time. Answer [`IoResult::Done`].
    Tape {
        /// Number of the drive, from 0.
        drive: u8,
        /// The motion.
        motion: Motion,
    },
    /// Deallocate these ranges of whole blocks, in any order. They read as zeros afterwards. Answer
    /// [`IoResult::Done`].
    Unmap {
        /// Ranges of the LU, each of at least one block.
        ranges: Vec<Extent>,
    },
    /// Fill a range with one block. Answer [`IoResult::Done`].
    WriteSame {
        /// The range, at least one block.
        range: Extent,
        /// One block of the LU.
        block: Vec<u8>,
        /// Whether the range may be deallocated instead if the block is all zeros.
        unmap: bool,
        /// Whether the data must be on stable storage before the answer.
        fua: bool,
    },
    /// Report which blocks occupy space. Answer [`IoResult::Provisioned`].
    Status {
        /// The range to report.
        range: Extent,
        /// Maximum number of extents to return, at least 1.
        extents_max: usize,
    },
    /// Store the LU's reservations in place of the previous record, so that they survive a restart.
    /// Answer [`IoResult::Done`] once they are on stable storage.
    Keep {
        /// Value of [`crate::LuDescription::reservations`] after a restart.
        record: Vec<u8>,
    },
}

/// A range of an LU: whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset_bytes: u64,
    /// Bytes.
    pub length_bytes: u64,
}

/// The result of an access.
#[derive(Debug, PartialEq, Eq)]
pub enum IoResult {
    /// The bytes are in the LU's memory. The transport sends them from there.
    ReadInPlace,
    /// The bytes, exactly as many as were requested. Take the buffer from [`crate::Buffers::take`]
    /// to avoid an allocation.
    ReadData(Vec<u8>),
    /// The data was written. Contains its buffer.
    Written(Vec<u8>),
    /// All written data is on stable storage.
    Flushed,
    /// An [`IoOp::Unmap`], [`IoOp::WriteSame`] or [`IoOp::Keep`] is done.
    Done,
    /// Contiguous extents from the beginning of the requested range, each with whether it occupies
    /// space. Adjacent extents differ.
    Provisioned(Vec<(Extent, bool)>),
    /// The access failed. Data that was read must not be used.
    Failed(IoFailure),
}

/// The reason why an access failed. The target chooses the sense data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoFailure {
    /// The medium cannot be read: MEDIUM ERROR, UNRECOVERED READ ERROR.
    Read,
    /// The medium cannot be written: MEDIUM ERROR, WRITE ERROR.
    Write,
    /// A thin LU has no space left: DATA PROTECT, SPACE ALLOCATION FAILED WRITE PROTECT.
    Space,
    /// The storage refuses all writes for now: DATA PROTECT, WRITE PROTECTED.
    Protected,
    /// Any other internal failure: HARDWARE ERROR, INTERNAL TARGET FAILURE.
    Internal,
}

/// A range of an LU's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Logical unit number.
    pub lun: u8,
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u64,
}

/// The reason why lent memory returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// The initiator has received the data.
    Read(Lent),
    /// The connection has ended; the kernel or the initiator may still use the memory, and its
    /// release is not reported.
    Abandoned(Lent),
}
