//! Outcomes of commands.

use hakaru_wire::scsi::{Sense, Status};

use crate::nexus::Nexus;
use crate::program::Job;
use crate::verdict::Verdict;

/// The outcome of a command.
#[derive(Debug)]
pub enum Outcome {
    /// It ends at once and moves no data.
    End(Verdict),
    /// It answers with the parameter data in [`crate::Device::out`], cut to the allocation length.
    Data,
    /// It reads these bytes; `length_bytes` may be 0.
    Read {
        /// Logical unit number.
        lu: u8,
        /// First byte.
        offset_bytes: u64,
        /// Bytes.
        length_bytes: u32,
    },
    /// It writes these bytes; `length_bytes` may be 0.
    Write {
        /// Logical unit number.
        lu: u8,
        /// First byte.
        offset_bytes: u64,
        /// Bytes.
        length_bytes: u32,
        /// Force unit access.
        fua: bool,
    },
    /// It empties the volatile cache.
    Flush {
        /// Logical unit number.
        lu: u8,
    },
    /// It takes a parameter list, which [`crate::execute_with_list`] gets.
    Parameters {
        /// Logical unit number.
        lu: u8,
        /// Bytes of the list.
        length_bytes: u32,
    },
    /// The LU's reservations are kept, as the record in [`crate::Device::out`].
    Keep,
    /// It takes several accesses, perhaps after data of the initiator.
    Program(Box<Job>),
    /// It begins an operation that continues after it.
    Operation {
        /// The accesses of the operation.
        job: Box<Job>,
        /// The command is answered at once.
        immediate: bool,
    },
}

impl Outcome {
    pub(crate) const GOOD: Outcome = Outcome::End(Verdict::Status(Status::GOOD));

    pub(crate) fn check(sense: Sense) -> Outcome {
        Outcome::End(Verdict::Check(sense))
    }

    pub(crate) fn program(job: Job) -> Outcome {
        Outcome::Program(Box::new(job))
    }
}

/// Consequences of a command for other initiators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A unit attention condition for one nexus.
    Attention {
        /// The nexus that gets it.
        nexus: Nexus,
        /// Logical unit number.
        lu: u8,
        /// The condition.
        sense: Sense,
    },
    /// A unit attention condition for every nexus but the command's own.
    Others {
        /// Logical unit number.
        lu: u8,
        /// The condition.
        sense: Sense,
    },
    /// The end of a nexus' tasks on an LU.
    Abort {
        /// The nexus whose tasks end.
        nexus: Nexus,
        /// Logical unit number.
        lu: u8,
    },
}

/// The initiator and the command do not agree on the direction of the data: INVALID FIELD IN
/// COMMAND INFORMATION UNIT (SPC-4 annex F).
pub const WRONG_DIRECTION: Sense =
    Sense::new(hakaru_wire::scsi::SenseKey::IllegalRequest, 0x0e, 0x03);
