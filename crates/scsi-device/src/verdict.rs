//! Status and sense data of a command.

use hakaru_wire::scsi::{Sense, Status};

/// Format of an LU's sense data: D_SENSE of its control mode page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenseFormat {
    /// Fixed format (SPC-4 section 4.5.3).
    Fixed,
    /// Descriptor format (SPC-4 section 4.5.2).
    Descriptor,
}

/// The status that ends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A status without sense data.
    Status(Status),
    /// CHECK CONDITION with this sense data.
    Check(Sense),
}
