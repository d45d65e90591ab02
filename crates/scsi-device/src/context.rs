//! The context in which a command is executed.

use crate::nexus::NexusState;
use crate::outcome::{Notice, Outcome};
use crate::port::TargetPorts;
use crate::unit::LogicalUnits;

/// The state that a command may read and change.
pub(crate) struct Device<'a> {
    /// The logical units.
    pub units: &'a mut LogicalUnits,
    /// The nexus that sent the command.
    pub nexus: &'a mut NexusState,
    /// Longest transfer of one command, bytes.
    pub transfer_bytes_max: u32,
    /// Relative identifier of the port that received the command, from 1.
    pub relative_port: u16,
    /// The target ports. Position 0 is relative port 1.
    pub ports: &'a mut TargetPorts,
    /// IMPLICIT TRANSITION TIME, seconds; 0 if changes have always taken effect at once.
    pub transition_seconds: u8,
    /// Destination of parameter data, initially empty.
    pub out: &'a mut Vec<u8>,
    /// Destination of the consequences for other initiators.
    pub notices: &'a mut Vec<Notice>,
}

impl Device<'_> {
    /// Whether the LU exists and the access list shows it to this session. A hidden LU answers like
    /// one that does not exist.
    pub(crate) fn sees(&self, lu: u8) -> bool {
        self.nexus.rights.sees(lu) && self.units.get(lu).is_some()
    }

    /// Answers with parameter data, truncated to the allocation length.
    pub(crate) fn answer(&mut self, data: &[u8], allocation_length: u32) -> Outcome {
        self.out
            .extend_from_slice(hakaru_wire::scsi::truncated(data, allocation_length));
        if self.out.is_empty() {
            Outcome::GOOD
        } else {
            Outcome::Data
        }
    }
}
