//! Prediction of the next header in one direction, if a burst or a read determines it.
//!
//! The prediction replaces a header that was not captured. Either a header that is seen later
//! confirms it, or the reader falls out of step.
use hakaru_wire::iscsi::keys::Key;
use hakaru_wire::iscsi::{BHS_LENGTH, DataIn, DataInStatus, DataOut, ScsiResponse, Ttt};

use crate::Sender;
use crate::session::{PduKind, Session};

impl Session {
    /// Returns the next header of this direction, if it is certain enough: the next part of a
    /// burst, or the response to a read whose data is complete.
    pub(crate) fn expected_header(&self, sender: Sender) -> Option<[u8; BHS_LENGTH]> {
        let last = self.last_pdu(sender)?;
        let mut header = [0; BHS_LENGTH];
        match last.kind {
            PduKind::Command(command) if !command.is_final => {
                let data = DataOut {
                    ttt: Ttt::RESERVED,
                    lun: last.bhs.lun(),
                    itt: command.itt,
                    exp_stat_sn: command.exp_stat_sn,
                    // Wraps to 0, the number of the first PDU of the sequence.
                    data_sn: u32::MAX,
                    ..DataOut::default()
                };
                self.next_data_out(&data, command.data_segment_length, true)?
                    .emit(&mut header);
            }
            PduKind::DataOut(data) if !data.is_final => self
                .next_data_out(&data, data.buffer_offset + data.data_segment_length, false)?
                .emit(&mut header),
            PduKind::DataIn(data) if data.status.is_none() => {
                let offset = data.buffer_offset + data.data_segment_length;
                let expected = self.command(data.itt)?.expected;
                if offset < expected {
                    self.next_data_in(&data, offset, expected).emit(&mut header);
                } else {
                    ScsiResponse {
                        itt: data.itt,
                        numbers: data.numbers,
                        ..ScsiResponse::default()
                    }
                    .emit(&mut header);
                }
            }
            _ => return None,
        }
        Some(header)
    }

    fn next_data_out(&self, last: &DataOut, offset: u32, is_first: bool) -> Option<DataOut> {
        let command = self.command(last.itt)?;
        let login = self.login.as_ref();
        let end = match command.burst_end(last.ttt) {
            Some(end) => end,
            None if last.ttt == Ttt::RESERVED => {
                login?.number(Key::FirstBurstLength)?.min(command.expected)
            }
            None => return None,
        };
        let last_length = (!is_first).then_some(last.data_segment_length);
        let longest = self
            .habits
            .data_segment_max(login, Sender::Target, last_length)?;
        let length = end.checked_sub(offset)?.min(longest);
        Some(DataOut {
            is_final: offset + length == end,
            data_sn: last.data_sn.wrapping_add(1),
            buffer_offset: offset,
            data_segment_length: length,
            ..*last
        })
        .filter(|data| data.data_segment_length > 0)
    }

    fn next_data_in(&self, last: &DataIn, offset: u32, expected: u32) -> DataIn {
        let login = self.login.as_ref();
        let last_length = (!last.is_final).then_some(last.data_segment_length);
        let longest = self
            .habits
            .data_segment_max(login, Sender::Initiator, last_length);
        let burst = login
            .and_then(|login| login.number(Key::MaxBurstLength))
            .filter(|&burst| burst > 0)
            .unwrap_or(u32::MAX);
        let to_burst_end = burst - offset % burst;
        let length = longest
            .unwrap_or(1)
            .min(expected - offset)
            .min(to_burst_end);
        let is_last = offset + length == expected;
        DataIn {
            is_final: is_last || length == to_burst_end,
            status: (is_last && self.habits.status_in_data).then(DataInStatus::default),
            numbers: last.numbers,
            data_sn: last.data_sn.wrapping_add(1),
            buffer_offset: offset,
            data_segment_length: length,
            ..*last
        }
    }
}
