//! Commands that take several accesses: small programs. A program gets the answer to its last
//! access and returns the next one.
//!
//! A program is independent of sessions, PDUs and other commands. The transport runs it: collects the
//! initiator's data, keeps other writes out of its range, passes its accesses to the storage, and
//! ends the task.

mod compare;
mod copy;
mod fill;
mod unmap;

use hakaru_wire::scsi::{LbaStatus, ProvisioningStatus, Sense, Status};

pub use compare::{Compare, CompareAndWrite, OrWrite};
pub use copy::{Copy, Segment};
pub use fill::Fill;
pub use unmap::Unmap;

use crate::background::SHORT_BYTES;
use crate::buffers::Buffers;
use crate::io::{Extent, IoOp};
use crate::verdict::Verdict;

/// Bytes that a program reads at a time, at most. Several commands of a session may read
/// at once, and other initiators' accesses pass between.
pub const CHUNK_BYTES: u64 = 256 << 10;

/// A program with what its command needs besides.
#[derive(Debug)]
pub struct Job {
    /// LU of the command.
    pub lu: u8,
    /// Bytes that the initiator sends first.
    pub data_out_bytes: u32,
    /// The consequence if the initiator says it will send another number of bytes.
    pub other_length: OtherLength,
    /// Bytes it reads at a time at most: held against the session's limit while it runs.
    pub reads_bytes: u32,
    /// Its accesses take turns with those of other long commands ([`crate::Background`]).
    pub long: bool,
    /// Nothing else may write here from its first access to its last.
    pub exclusive: Option<Extent>,
    /// The accesses.
    pub program: Program,
    /// The LU that its access under way is to.
    pub accessing: Option<u8>,
    /// Bytes that its access under way reads.
    pub reading_bytes: u32,
    /// The range that its access under way writes, if it writes.
    pub writing: Option<(u8, Extent)>,
    /// An access that waits until another program releases its range.
    pub pending: Option<(u8, IoOp)>,
    /// Work of its access under way, as [`crate::Background`] counts it; 0 if that is not in the
    /// background.
    pub background_bytes: u64,
}

/// The consequence for a command whose EXPECTED DATA TRANSFER LENGTH is not what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherLength {
    /// The length is ignored, because the command takes no data.
    Ignore,
    /// The command is refused.
    Refuse,
    /// Whole blocks that are sent are used, as by WRITE; excess data is ignored.
    Cut,
}

impl Job {
    /// A program that takes no data, reads none and needs no range for itself.
    pub fn new(lu: u8, program: Program) -> Self {
        Self {
            lu,
            data_out_bytes: 0,
            other_length: OtherLength::Ignore,
            reads_bytes: 0,
            long: program.total_bytes() > SHORT_BYTES,
            exclusive: None,
            program,
            accessing: None,
            reading_bytes: 0,
            writing: None,
            pending: None,
            background_bytes: 0,
        }
    }
}

/// The accesses of a command.
#[derive(Debug)]
pub enum Program {
    /// VERIFY, WRITE AND VERIFY, PRE-FETCH.
    Compare(Compare),
    /// COMPARE AND WRITE.
    CompareAndWrite(CompareAndWrite),
    /// ORWRITE.
    OrWrite(OrWrite),
    /// WRITE SAME, SANITIZE.
    Fill(Fill),
    /// UNMAP, SANITIZE.
    Unmap(Unmap),
    /// GET LBA STATUS.
    Status {
        /// Length of a block.
        block_bytes: u32,
        /// Bytes that the answer may have.
        allocation_length: u32,
        /// The question; `None` once it is asked.
        op: Option<IoOp>,
    },
    /// EXTENDED COPY.
    Copy(Copy),
}

/// The answer to the last access of a program.
#[derive(Debug)]
pub enum Answer {
    /// There was none: the initiator's data is complete, and the program begins.
    Begin,
    /// The data that it requested.
    Read(Vec<u8>),
    /// The requested write is done; its buffer.
    Written(Vec<u8>),
    /// Another access is done.
    Done,
    /// Ranges, and whether they are provisioned.
    Provisioned(Vec<(Extent, bool)>),
}

/// The next step of a program.
#[derive(Debug)]
pub enum Step {
    /// An access.
    Ask(u8, IoOp),
    /// The end.
    End(Verdict),
    /// The end, with parameter data.
    Data(Vec<u8>),
}

impl Step {
    /// The end, with GOOD.
    pub const GOOD: Step = Step::End(Verdict::Status(Status::GOOD));

    /// The end, with CHECK CONDITION.
    pub fn check(sense: Sense) -> Step {
        Step::End(Verdict::Check(sense))
    }
}

/// Data and buffers of a program.
pub struct Workplace<'a> {
    /// LU of the command.
    pub lu: u8,
    /// The initiator's data.
    pub data: &'a mut Vec<u8>,
    /// Pool that buffers are taken from and returned to.
    pub buffers: &'a mut Buffers,
}

impl Program {
    /// The step after `answer`.
    pub fn step(&mut self, at: &mut Workplace<'_>, answer: Answer) -> Step {
        match self {
            Program::Compare(program) => program.step(at, answer),
            Program::CompareAndWrite(program) => program.step(at, answer),
            Program::OrWrite(program) => program.step(at, answer),
            Program::Fill(program) => program.step(at, answer),
            Program::Unmap(program) => program.step(at, answer),
            Program::Status {
                block_bytes,
                allocation_length,
                op,
            } => match (op.take(), answer) {
                (Some(op), _) => Step::Ask(at.lu, op),
                (None, Answer::Provisioned(extents)) => {
                    let mut data = lba_status(*block_bytes, &extents);
                    data.truncate(*allocation_length as usize);
                    Step::Data(data)
                }
                _ => Step::check(Sense::INTERNAL_TARGET_FAILURE),
            },
            Program::Copy(program) => program.step(at, answer),
        }
    }

    /// Bytes that it moves, fills or gives back in all.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        match self {
            Program::Compare(program) => program.total_bytes(),
            Program::CompareAndWrite(_) => 0,
            Program::OrWrite(program) => program.total_bytes(),
            Program::Fill(program) => program.progress().1,
            Program::Unmap(program) => program.progress().1,
            // The storage looks for the blocks in the whole LU.
            Program::Status { .. } => u64::MAX,
            Program::Copy(program) => program.total_bytes(),
        }
    }

    /// Progress, of 65 536 (PROGRESS INDICATION).
    pub fn progress(&self) -> u16 {
        let (done, total) = match self {
            Program::Fill(program) => program.progress(),
            Program::Unmap(program) => program.progress(),
            _ => (0, 1),
        };
        (u128::from(done) * 65_536 / u128::from(total.max(1))).min(65_535) as u16
    }
}

/// The answer to GET LBA STATUS. An extent longer than a descriptor can say ends the list: what
/// follows has the same status.
fn lba_status(block_bytes: u32, extents: &[(Extent, bool)]) -> Vec<u8> {
    let mut descriptors = Vec::with_capacity(extents.len());
    for (extent, mapped) in extents {
        let blocks = extent.length_bytes / u64::from(block_bytes);
        let status = if *mapped {
            ProvisioningStatus::Mapped
        } else {
            ProvisioningStatus::Deallocated
        };
        descriptors.push(LbaStatus {
            range: hakaru_wire::scsi::Blocks {
                lba: extent.offset_bytes / u64::from(block_bytes),
                blocks: blocks.min(u64::from(u32::MAX)) as u32,
            },
            status,
        });
        if blocks > u64::from(u32::MAX) {
            break;
        }
    }
    hakaru_wire::scsi::emit_lba_status(&descriptors)
}

/// The next part of a range: at most `most` bytes of it, taken off its front.
fn take_front(range: &mut Extent, most: u64) -> Option<Extent> {
    if range.length_bytes == 0 {
        return None;
    }
    let part = Extent {
        offset_bytes: range.offset_bytes,
        length_bytes: range.length_bytes.min(most),
    };
    range.offset_bytes += part.length_bytes;
    range.length_bytes -= part.length_bytes;
    Some(part)
}

/// A read of a part, which [`CHUNK_BYTES`] bounds.
fn read(part: Extent) -> IoOp {
    IoOp::Read {
        offset_bytes: part.offset_bytes,
        length_bytes: part.length_bytes as u32,
        in_place: false,
    }
}
