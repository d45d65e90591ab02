//! Outcomes of commands.

use hakaru_wire::scsi::{Sense, Status};

use crate::nexus::Nexus;
use crate::program::Job;
use crate::verdict::Verdict;

/// The outcome of a command.
#[derive(Debug)]
pub enum Outcome {
    /// The command ends at once and moves no data.
    End(Verdict),
    /// The command answers with the parameter data in [`crate::DeviceServer::out`], which is
    /// truncated to the allocation length.
    Data,
    /// The command reads these bytes; `length_bytes` may be 0.
    Read {
        /// Logical unit number.
        lu: u8,
        /// First byte.
        offset_bytes: u64,
        /// Bytes.
        length_bytes: u32,
    },
    /// The command writes these bytes; `length_bytes` may be 0.
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
    /// The command flushes the volatile cache.
    Flush {
        /// Logical unit number.
        lu: u8,
    },
    /// The command takes a parameter list. Pass it to [`crate::DeviceServer::execute_with_list`].
    Parameters {
        /// Logical unit number.
        lu: u8,
        /// Bytes of the list.
        length_bytes: u32,
    },
    /// The LU's reservations must be stored. Their record is in [`crate::DeviceServer::out`].
    Keep,
    /// The command takes several accesses, possibly after data from the initiator.
    Program(Box<Job>),
    /// The command begins an operation that continues after the command.
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

/// The initiator's direction of data does not match the command: INVALID FIELD IN COMMAND
/// INFORMATION UNIT (SPC-4 annex F).
pub const WRONG_DIRECTION: Sense =
    Sense::new(hakaru_wire::scsi::SenseKey::IllegalRequest, 0x0e, 0x03);
