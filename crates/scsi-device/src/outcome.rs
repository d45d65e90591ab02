//! What a command comes to.

use hakaru_wire::scsi::{Sense, Status};

use crate::nexus::Nexus;
use crate::program::Job;
use crate::verdict::Verdict;

/// What a command comes to.
#[derive(Debug)]
pub enum Outcome {
    /// It ends at once and moves no data.
    End(Verdict),
    /// It answers with the parameter data in [`crate::Device::out`], cut to the allocation length.
    Data,
    /// It reads these bytes; `length_bytes` may be 0.
    Read {
        lu: u8,
        offset_bytes: u64,
        length_bytes: u32,
    },
    /// It writes these bytes; `length_bytes` may be 0.
    Write {
        lu: u8,
        offset_bytes: u64,
        length_bytes: u32,
        fua: bool,
    },
    /// It empties the volatile cache.
    Flush { lu: u8 },
    /// It is settled by a parameter list of so many bytes, which [`crate::execute_with_list`] takes.
    Parameters { lu: u8, length_bytes: u32 },
    /// The LU's reservations are kept, as the record in [`crate::Device::out`].
    Keep,
    /// It takes several accesses, after data of the initiator perhaps.
    Program(Box<Job>),
    /// It begins what then goes on by itself; `immediate`: and is answered at once.
    Operation { job: Box<Job>, immediate: bool },
}

impl Outcome {
    /// The session is gone; nobody will see this.
    pub const NOTHING: Outcome = Outcome::GOOD;
    pub(crate) const GOOD: Outcome = Outcome::End(Verdict::Status(Status::GOOD));

    pub(crate) fn check(sense: Sense) -> Outcome {
        Outcome::End(Verdict::Check(sense))
    }

    pub(crate) fn program(job: Job) -> Outcome {
        Outcome::Program(Box::new(job))
    }
}

/// What a command means to other initiators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A unit attention condition for one.
    Attention { nexus: Nexus, lu: u8, sense: Sense },
    /// A unit attention condition for all but the command's own.
    Others { lu: u8, sense: Sense },
    /// The end of one's tasks on an LU.
    Abort { nexus: Nexus, lu: u8 },
}

/// The initiator and the command do not agree on the direction of the data: INVALID FIELD IN COMMAND INFORMATION UNIT (SPC-4 annex F).
pub const WRONG_DIRECTION: Sense =
    Sense::new(hakaru_wire::scsi::SenseKey::IllegalRequest, 0x0e, 0x03);
