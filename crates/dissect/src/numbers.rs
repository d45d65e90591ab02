//! Sequence numbers of one connection. They verify headers whose place is not certain.
//!
//! StatSN, CmdSN and their acknowledgements (RFC 7143 section 4.2.2) grow by one per PDU. Bytes
//! that are not a header almost never continue them.
use hakaru_wire::iscsi::{Bhs, Itt, Opcode};

use crate::Sender;

/// Largest distance from the last known number at which a number is accepted.
const DISTANCE_MAX: u32 = 1 << 16;

/// Last numbers that were seen.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    stat_sn: Option<u32>,
    exp_cmd_sn: Option<u32>,
    cmd_sn: Option<u32>,
    exp_stat_sn: Option<u32>,
}

impl Numbers {
    /// Returns whether a header continues the known numbers; `None` if none of its numbers is
    /// known.
    pub(crate) fn are_continued_by(&self, bhs: &Bhs, sender: Sender) -> Option<bool> {
        let checks = match sender {
            Sender::Initiator => [
                distance(self.exp_stat_sn.or(self.stat_sn), bhs.u32_at(28)),
                carries_cmd_sn(bhs)
                    .then(|| distance(self.cmd_sn, bhs.u32_at(24)))
                    .flatten(),
            ],
            Sender::Target => [
                distance(self.exp_cmd_sn, bhs.u32_at(28)),
                carries_status(bhs)
                    .then(|| distance(self.stat_sn.or(self.exp_stat_sn), bhs.u32_at(24)))
                    .flatten(),
            ],
        };
        let mut known = checks.into_iter().flatten().peekable();
        known.peek()?;
        Some(known.all(|distance| distance <= DISTANCE_MAX))
    }

    /// Records a header that was seen. For a header with a status, returns the number of statuses
    /// between it and the previous one, if known.
    pub(crate) fn handle_header(&mut self, bhs: &Bhs, sender: Sender) -> Option<u32> {
        match sender {
            Sender::Initiator => {
                if carries_cmd_sn(bhs) {
                    self.cmd_sn = Some(bhs.u32_at(24));
                }
                self.exp_stat_sn = Some(bhs.u32_at(28));
                None
            }
            Sender::Target => {
                self.exp_cmd_sn = Some(bhs.u32_at(28));
                if !carries_status(bhs) {
                    return None;
                }
                let number = bhs.u32_at(24);
                let before = self.stat_sn.replace(number)?;
                Some(number.wrapping_sub(before).wrapping_sub(1))
            }
        }
    }
}

/// Returns the distance between two numbers, in either direction.
fn distance(known: Option<u32>, number: u32) -> Option<u32> {
    let ahead = number.wrapping_sub(known?);
    Some(ahead.min(ahead.wrapping_neg()))
}

fn carries_cmd_sn(bhs: &Bhs) -> bool {
    !matches!(bhs.opcode(), Some(Opcode::DataOut | Opcode::Snack) | None)
}

/// Returns whether the PDU consumes a StatSN.
fn carries_status(bhs: &Bhs) -> bool {
    match bhs.opcode() {
        Some(Opcode::DataIn) => bhs.flags() & 1 != 0,
        Some(Opcode::R2t) | None => false,
        Some(Opcode::NopIn) => bhs.itt() != Itt::RESERVED,
        Some(_) => true,
    }
}
