//! Everything that a command works on while it is carried out.

use crate::nexus::NexusState;
use crate::outcome::{Notice, Outcome};
use crate::port::Port;
use crate::unit::LogicalUnits;

/// Everything that a command works on.
pub(crate) struct Device<'a> {
    /// The logical units.
    pub units: &'a mut LogicalUnits,
    /// The nexus that sent the command.
    pub nexus: &'a mut NexusState,
    /// Longest transfer of one command, bytes.
    pub transfer_bytes_max: u32,
    /// The port it came in by, from 1.
    pub relative_port: u16,
    /// The target ports, from 1.
    pub ports: &'a [Port],
    /// Parameter data goes here; empty at first.
    pub out: &'a mut Vec<u8>,
    /// Consequences for other initiators go here.
    pub notices: &'a mut Vec<Notice>,
}

impl Device<'_> {
    /// There is such an LU, and the access list shows it to this session. What it does not show
    /// answers as what is not there.
    pub(crate) fn sees(&self, lu: u8) -> bool {
        self.nexus.rights.sees(lu) && self.units.get(lu).is_some()
    }

    /// Takes parameter data, as much of it as the allocation length lets through.
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
