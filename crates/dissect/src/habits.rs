//! Lengths and habits of both sides of a connection, used to assume headers that were not captured.
use hakaru_wire::iscsi::keys::Key;
use hakaru_wire::iscsi::{DATA_SEGMENT_LENGTH_MAX, DataIn};

use crate::Sender;
use crate::command::Command;
use crate::login::Login;

/// Lengths and habits of both sides, as far as the capture shows them.
#[derive(Debug)]
pub(crate) struct Habits {
    /// Length of the longest Data-Out and Data-In that were seen, bytes, by sender.
    data_length_max: [u32; 2],
    /// Whether the target sends the status of a read in its last Data-In.
    pub(crate) status_in_data: bool,
}

impl Habits {
    pub(crate) fn new() -> Habits {
        Habits {
            data_length_max: [0; 2],
            status_in_data: true,
        }
    }

    pub(crate) fn note_data_length(&mut self, sender: Sender, length: u32) {
        let longest = &mut self.data_length_max[sender as usize];
        *longest = (*longest).max(length);
    }

    /// Records a Data-In whose header was seen.
    pub(crate) fn note_data_in(&mut self, data: &DataIn, command: &Command) {
        if data.is_final && data.buffer_offset + data.data_segment_length == command.expected {
            self.status_in_data = data.status.is_some();
        }
    }

    /// Returns the length of the next data segment to `receiver`, unless its burst ends earlier.
    /// This is the length of the last PDU that did not end its burst (`last`), otherwise the
    /// longest one seen, otherwise the length that the receiver declared.
    pub(crate) fn data_segment_max(
        &self,
        login: Option<&Login>,
        receiver: Sender,
        last: Option<u32>,
    ) -> Option<u32> {
        let seen = self.data_length_max[receiver.other() as usize];
        let declared = || login?.declared_number(Key::MaxRecvDataSegmentLength, receiver);
        let length = last
            .or(Some(seen).filter(|&seen| seen > 0))
            .or_else(declared)?;
        Some(length.min(DATA_SEGMENT_LENGTH_MAX)).filter(|&length| length > 0)
    }
}
