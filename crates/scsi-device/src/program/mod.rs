//! Programs of commands with several accesses. A program receives the answer to its last access and
//! returns the next one.
//!
//! A program is independent of sessions, PDUs and other commands. The transport runs it: the
//! transport collects the initiator's data, keeps other writes out of the program's range, passes
//! its accesses to the storage, and ends the task.

mod compare;
mod copy;
mod fill;
mod tape;
mod unmap;

use hakaru_wire::scsi::{LbaStatus, ProvisioningStatus, Sense, Status};

pub use compare::{Compare, CompareAndWrite, OrWrite};
pub use copy::{Copy, Segment};
pub use fill::Fill;
pub use tape::{Moving, TapeRead, TapeWrite};
pub use unmap::Unmap;

use crate::background::SHORT_BYTES;
use crate::buffers::Buffers;
use crate::io::{Extent, IoOp};
use crate::verdict::Verdict;

/// Maximum bytes of one access of a program. Several commands of a session may read at once, and
/// accesses of other initiators are executed in between.
pub const CHUNK_BYTES: u64 = 256 << 10;

/// A program and the requirements of its command.
#[derive(Debug)]
pub struct Job {
    /// LU of the command.
    pub lu: u8,
    /// Bytes that the initiator sends first, until an access has counted them.
    pub data_out_bytes: u32,
    /// The consequence if the initiator announces another number of bytes.
    pub length_mismatch: LengthMismatch,
    /// Maximum bytes that the program reads at a time. They count towards the session's limit while
    /// it runs.
    pub reads_bytes: u32,
    /// Whether its accesses take turns with those of other long commands ([`crate::Background`]).
    pub long: bool,
    /// Range that no other command may write from the first access of the program to its last.
    pub exclusive: Option<Extent>,
    /// The accesses.
    pub program: Program,
    /// LU of the access in flight.
    pub accessing: Option<u8>,
    /// Bytes that the access in flight reads.
    pub reading_bytes: u32,
    /// LU and range that the access in flight writes, if it writes.
    pub writing: Option<(u8, Extent)>,
    /// An access that waits until another program releases its range.
    pub pending: Option<(u8, IoOp)>,
    /// Work of the access in flight, as [`crate::Background`] counts it; 0 if the access is not in
    /// the background.
    pub background_bytes: u64,
}

/// The consequence for a command whose EXPECTED DATA TRANSFER LENGTH differs from the data that it
/// takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthMismatch {
    /// The length is ignored, because the command takes no data.
    Ignore,
    /// The command is refused.
    Refuse,
    /// The whole blocks that are sent are used, as by WRITE. Excess data is ignored.
    Cut,
}

impl Job {
    /// Creates the job of a program that takes no data, reads none and needs no exclusive range.
    pub fn new(lu: u8, program: Program) -> Self {
        Self {
            lu,
            data_out_bytes: 0,
            length_mismatch: LengthMismatch::Ignore,
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

    /// Returns [`crate::Io::received_bytes`] of the next access. The first one counts all data that
    /// the initiator has sent. The program compares, copies or repeats it inside the array.
    pub fn take_received_bytes(&mut self) -> Option<u64> {
        match self.program {
            // The drive's blocks come from the initiator or go to it.
            Program::TapeRead(_) | Program::TapeWrite(_) => None,
            _ => Some(core::mem::take(&mut self.data_out_bytes).into()),
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
        /// Length of a block, bytes.
        block_bytes: u32,
        /// Maximum length of the answer, bytes.
        allocation_length: u32,
        /// The access; `None` once it is requested.
        op: Option<IoOp>,
    },
    /// EXTENDED COPY.
    Copy(Copy),
    /// READ of a tape drive.
    TapeRead(Box<TapeRead>),
    /// WRITE of a tape drive, and commands that synchronise.
    TapeWrite(TapeWrite),
}

/// The answer to the last access of a program.
#[derive(Debug)]
pub enum Answer {
    /// No access precedes: the initiator's data is complete, and the program begins.
    Begin,
    /// The data of a read.
    Read(Vec<u8>),
    /// The buffer of a write that has ended.
    Written(Vec<u8>),
    /// Another access has ended.
    Done,
    /// Extents, each with whether it occupies space.
    Provisioned(Vec<(Extent, bool)>),
}

/// The next step of a program.
#[derive(Debug)]
pub enum Step {
    /// An access to an LU.
    Access(u8, IoOp),
    /// The end of the program.
    End(Verdict),
    /// The end of the program and of its command. A job without a command continues.
    Continue(Verdict, Box<Job>),
    /// The end of the program, with parameter data.
    Data(Vec<u8>),
    /// The end of the program, with data and CHECK CONDITION.
    DataAndCheck(Vec<u8>, Sense),
}

impl Step {
    /// The end of the program with GOOD.
    pub const GOOD: Step = Step::End(Verdict::Status(Status::GOOD));

    /// Returns the end of the program with CHECK CONDITION.
    pub fn check(sense: Sense) -> Step {
        Step::End(Verdict::Check(sense))
    }
}

/// Data and buffers of a program.
pub struct StepContext<'a> {
    /// LU of the command.
    pub lu: u8,
    /// The initiator's data.
    pub data: &'a mut Vec<u8>,
    /// Pool that buffers are taken from and returned to.
    pub buffers: &'a mut Buffers,
}

impl Program {
    /// Returns the step that follows `answer`.
    pub fn step(&mut self, context: &mut StepContext<'_>, answer: Answer) -> Step {
        match self {
            Program::Compare(program) => program.step(context, answer),
            Program::CompareAndWrite(program) => program.step(context, answer),
            Program::OrWrite(program) => program.step(context, answer),
            Program::Fill(program) => program.step(context, answer),
            Program::Unmap(program) => program.step(context, answer),
            Program::Status {
                block_bytes,
                allocation_length,
                op,
            } => match (op.take(), answer) {
                (Some(op), _) => Step::Access(context.lu, op),
                (None, Answer::Provisioned(extents)) => {
                    let mut data = lba_status(*block_bytes, &extents);
                    data.truncate(*allocation_length as usize);
                    Step::Data(data)
                }
                _ => Step::check(Sense::INTERNAL_TARGET_FAILURE),
            },
            Program::Copy(program) => program.step(context, answer),
            Program::TapeRead(program) => program.step(context, answer),
            Program::TapeWrite(program) => program.step(context, answer),
        }
    }

    /// Notes that the access in flight has failed with `sense`. Returns the sense data with which
    /// the program ends.
    #[must_use]
    pub fn failure(&self, sense: Sense) -> Sense {
        match self {
            Program::TapeRead(program) => {
                program.fail();
                sense
            }
            Program::TapeWrite(program) => program.failure(sense),
            _ => sense,
        }
    }

    /// Ends the access in flight, which has failed after the command was aborted. A later command
    /// reports it if it concerns data of earlier commands.
    pub fn lose(&self) {
        if let Program::TapeWrite(program) = self {
            program.lose();
        }
    }

    /// Returns the bytes that the program moves, fills or deallocates in total.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        match self {
            Program::Compare(program) => program.total_bytes(),
            Program::CompareAndWrite(_) | Program::TapeRead(_) | Program::TapeWrite(_) => 0,
            Program::OrWrite(program) => program.total_bytes(),
            Program::Fill(program) => program.progress().1,
            Program::Unmap(program) => program.progress().1,
            // The storage may have to search the entire LU.
            Program::Status { .. } => u64::MAX,
            Program::Copy(program) => program.total_bytes(),
        }
    }

    /// Returns the progress in units of 1/65 536 (PROGRESS INDICATION).
    pub fn progress(&self) -> u16 {
        let (done, total) = match self {
            Program::Fill(program) => program.progress(),
            Program::Unmap(program) => program.progress(),
            _ => (0, 1),
        };
        (u128::from(done) * 65_536 / u128::from(total.max(1))).min(65_535) as u16
    }
}

/// Returns the parameter data of GET LBA STATUS. An extent that is too long for a descriptor ends
/// the list, because the blocks that follow have the same status.
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

/// Removes and returns the first part of a range, at most `length_max` bytes. Returns `None` if the
/// range is empty.
fn take_front(range: &mut Extent, length_max: u64) -> Option<Extent> {
    if range.length_bytes == 0 {
        return None;
    }
    let part = Extent {
        offset_bytes: range.offset_bytes,
        length_bytes: range.length_bytes.min(length_max),
    };
    range.offset_bytes += part.length_bytes;
    range.length_bytes -= part.length_bytes;
    Some(part)
}

/// Returns a read of a part of at most [`CHUNK_BYTES`].
fn read(part: Extent) -> IoOp {
    IoOp::Read {
        offset_bytes: part.offset_bytes,
        length_bytes: part.length_bytes as u32,
        in_place: false,
    }
}
