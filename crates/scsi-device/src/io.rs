//! Accesses that are asked of the storage, and their results.
//!
//! The target never touches an LU's bytes. It queues an [`Io`]; the shell (or `world`) does it when
//! and how it likes, and hands back an [`IoResult`] under the same [`IoId`].

use hakaru_send_queue::Key;

/// Names one [`Io`] until it is answered. An answer under an id that is no longer known is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoId(pub Key);

impl IoId {
    /// A small number no other unanswered `Io` has: good for indexing a table. Bounded by the most
    /// commands that were ever in flight at once.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.index as usize
    }

    /// The id as one number, unique over the life of the target (until 2^32 reuses of one slot).
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        ((self.0.generation as u64) << 32) | self.0.index as u64
    }
}

/// One access to an LU. The range has been checked: it lies within the LU and on logical blocks.
#[derive(Debug, PartialEq, Eq)]
pub struct Io {
    /// Answer under this id, exactly once.
    pub id: IoId,
    /// Logical unit number.
    pub lun: u8,
    /// The access.
    pub op: IoOp,
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
        /// `ReadInPlace` may be answered. Not so when a digest must be computed over the data.
        in_place: bool,
    },
    /// Write blocks. Answer [`IoResult::Written`] with the buffer.
    Write {
        /// First byte, a multiple of the LU's block length.
        offset_bytes: u64,
        /// The bytes: whole blocks, at least one.
        data: Vec<u8>,
        /// Force unit access: on stable storage before it is answered.
        fua: bool,
    },
    /// Put what was written on stable storage. Answer [`IoResult::Flushed`].
    Flush,
    /// Give these ranges back: whole blocks, in any order. From then on they read as zeros. Answer
    /// [`IoResult::Done`].
    Unmap {
        /// Ranges of the LU, each of at least one block.
        ranges: Vec<Extent>,
    },
    /// Write one block over and over. Answer [`IoResult::Done`].
    WriteSame {
        /// The range, at least one block.
        range: Extent,
        /// One block of the LU.
        block: Vec<u8>,
        /// The range may be given back instead, if the block is all zeros.
        unmap: bool,
        /// Whether the data must be on stable storage before the answer.
        fua: bool,
    },
    /// Report which blocks take space. Answer [`IoResult::Provisioned`].
    Status {
        /// The range that is asked about.
        range: Extent,
        /// Extents that are wanted at most, at least one.
        extents_max: usize,
    },
    /// Keep the LU's reservations over a restart, in place of those kept before. Answer
    /// [`IoResult::Done`] once they are on stable storage.
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

/// How an access ended.
#[derive(Debug, PartialEq, Eq)]
pub enum IoResult {
    /// The bytes are in the LU's memory; the connection's [`crate::Transmit`] will name the range.
    ReadInPlace,
    /// The bytes, exactly as many as were asked. Take the buffer from
    /// [`crate::Target::take_buffer`] to avoid an allocation.
    ReadData(Vec<u8>),
    /// Written. Gives the buffer back.
    Written(Vec<u8>),
    /// Flushed.
    Flushed,
    /// An [`IoOp::Unmap`], [`IoOp::WriteSame`] or [`IoOp::Keep`] is done.
    Done,
    /// Extents that follow one another from the beginning of the range asked about, each with
    /// whether it takes space. Neighbours differ.
    Provisioned(Vec<(Extent, bool)>),
    /// It could not be done; nothing that was read may be used.
    Failed(IoFailure),
}

/// Why an access failed; the target chooses the sense data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoFailure {
    /// The medium cannot be read: MEDIUM ERROR, UNRECOVERED READ ERROR.
    Read,
    /// The medium cannot be written: MEDIUM ERROR, WRITE ERROR.
    Write,
    /// No space is left behind a thin LU: DATA PROTECT, SPACE ALLOCATION FAILED WRITE PROTECT.
    Space,
    /// Writes are refused for now, whatever they need: DATA PROTECT, WRITE PROTECTED.
    Protected,
    /// Something else inside: HARDWARE ERROR, INTERNAL TARGET FAILURE.
    Internal,
}

/// A range of an LU's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Logical unit number.
    pub lun: u8,
    /// First byte.
    pub offset_bytes: u64,
    /// How many.
    pub length_bytes: u64,
}

/// How memory comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// The initiator has what was read.
    Read(Lent),
    /// The connection has ended; the kernel or the initiator may still use the memory, and its
    /// release is not reported.
    Abandoned(Lent),
}
