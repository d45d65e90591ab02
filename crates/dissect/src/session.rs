//! One connection's PDUs put together to commands, with what was counted on the way.
//!
//! All PDUs of a command pass through one connection (connection allegiance, RFC 7143 section 4.2.2.1), so that each connection is looked at for itself: where a
//! session has several, each is one line of the report.
use std::collections::BTreeMap;

use hakaru_units::Time;
use hakaru_wire::iscsi::keys::Key;
use hakaru_wire::iscsi::{
    BHS_LENGTH, Bhs, DATA_SEGMENT_LENGTH_MAX, DataIn, DataInStatus, DataOut, Itt, LoginRequest,
    LoginResponse, LoginStatus, Opcode, R2t, ScsiCommand, ScsiResponse, Stage, Ttt,
};

use crate::Sender;
use crate::command::Command;
use crate::login::{Digests, Login};
use crate::tally::Tally;

/// Commands under way on one connection; more are not followed, but counted.
const COMMANDS_MAX: usize = 1 << 16;

/// What is known of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) tally: Tally,
    pub(crate) login: Option<Login>,
    pub(crate) names: Option<(LoginRequest, Option<LoginStatus>)>,
    /// The beginning was captured: nothing comes before a login.
    from_start: bool,
    full_feature: bool,
    agreed: Option<Digests>,
    guessed: Option<Digests>,
    commands: BTreeMap<Itt, Command>,
    /// The PDU of each direction that is being read, or was last.
    last: [Option<Last>; 2],
    lost: [bool; 2],
    /// Longest Data-Out and Data-In that was seen, bytes.
    data_length_max: [u32; 2],
    /// The target says the status of a read in its last Data-In.
    status_in_data: bool,
}

/// A PDU.
#[derive(Clone, Copy, Debug)]
struct Last {
    bhs: Bhs,
    kind: Pdu,
}

/// What of a PDU matters to a command.
#[derive(Clone, Copy, Debug)]
enum Pdu {
    Command(ScsiCommand),
    DataOut(DataOut),
    DataIn(DataIn),
    R2t(R2t),
    Response(ScsiResponse),
    LoginRequest(LoginRequest),
    LoginResponse(LoginResponse),
    Other,
    /// Its header has what the RFC forbids.
    Malformed,
}

impl Pdu {
    fn of(bhs: &Bhs) -> Pdu {
        let pdu = match bhs.opcode() {
            Some(Opcode::ScsiCommand) => ScsiCommand::parse(bhs).map(Pdu::Command),
            Some(Opcode::DataOut) => DataOut::parse(bhs).map(Pdu::DataOut),
            Some(Opcode::DataIn) => DataIn::parse(bhs).map(Pdu::DataIn),
            Some(Opcode::R2t) => R2t::parse(bhs).map(Pdu::R2t),
            Some(Opcode::ScsiResponse) => ScsiResponse::parse(bhs).map(Pdu::Response),
            Some(Opcode::LoginRequest) => LoginRequest::parse(bhs).map(Pdu::LoginRequest),
            Some(Opcode::LoginResponse) => LoginResponse::parse(bhs).map(Pdu::LoginResponse),
            _ => Ok(Pdu::Other),
        };
        pdu.unwrap_or(Pdu::Malformed)
    }
}

impl Session {
    pub(crate) fn new(from_start: bool) -> Session {
        Session {
            tally: Tally::default(),
            login: None,
            names: None,
            from_start,
            full_feature: false,
            agreed: None,
            guessed: None,
            commands: BTreeMap::new(),
            last: [None; 2],
            lost: [!from_start; 2],
            data_length_max: [0; 2],
            status_in_data: true,
        }
    }

    /// The capture has the connection's beginning.
    pub(crate) fn is_from_start(&self) -> bool {
        self.from_start
    }

    /// The digests in use, if that is known.
    pub(crate) fn digests(&self) -> Option<Digests> {
        self.agreed.or(self.guessed)
    }

    /// There was a login, and a part of what it said is missing.
    pub(crate) fn must_guess_digests(&self) -> bool {
        self.full_feature
            && self.agreed.is_none()
            && self
                .login
                .as_ref()
                .is_some_and(|login| !login.is_complete())
    }

    /// One direction has found out.
    pub(crate) fn guess_digests(&mut self, digests: Digests) {
        self.guessed = Some(digests);
    }

    /// Digests are to be found out anew, unless they were agreed on.
    pub(crate) fn forget_guess(&mut self) -> bool {
        self.guessed = None;
        self.agreed.is_none() && (self.full_feature || !self.from_start)
    }

    /// A connection begins with a login.
    pub(crate) fn may_come(&self, bhs: &Bhs) -> bool {
        !self.from_start
            || self.names.is_some()
            || matches!(
                bhs.opcode(),
                Some(Opcode::LoginRequest | Opcode::LoginResponse)
            )
    }

    /// A direction fell out of step: what is under way may miss something.
    pub(crate) fn handle_lost(&mut self, sender: Sender) {
        self.lost[sender as usize] = true;
        self.last[sender as usize] = None;
        for command in self.commands.values_mut() {
            command.whole = false;
        }
    }

    /// It is in step again.
    pub(crate) fn handle_found(&mut self, sender: Sender) {
        self.lost[sender as usize] = false;
    }

    /// A PDU begins. `assumed`: its header was not seen.
    pub(crate) fn handle_header(&mut self, now: Time, sender: Sender, bhs: &Bhs, assumed: bool) {
        let kind = Pdu::of(bhs);
        self.last[sender as usize] = Some(Last { bhs: *bhs, kind });
        if assumed {
            self.tally.assumed_pdus += 1;
        } else {
            self.tally.count_pdu(sender, bhs.opcode_code());
        }
        match kind {
            Pdu::Command(command) => self.begin_command(now, &command),
            Pdu::DataOut(data) => {
                self.note_data_length(sender, data.data_segment_length);
                if let Some(command) = self.commands.get_mut(&data.itt) {
                    command.handle_data_out(now, &data);
                }
            }
            Pdu::DataIn(data) => {
                self.note_data_length(sender, data.data_segment_length);
                if let Some(command) = self.commands.get_mut(&data.itt) {
                    command.handle_data_in(now);
                    let all = data.buffer_offset + data.data_segment_length == command.expected;
                    if data.is_final && all && !assumed {
                        self.status_in_data = data.status.is_some();
                    }
                }
            }
            Pdu::LoginRequest(request) => self.begin_login(&request),
            Pdu::LoginResponse(_) => {
                if let Some(login) = &mut self.login {
                    login.begin_pdu(sender);
                }
            }
            Pdu::Malformed => self.tally.malformed_pdus += 1,
            Pdu::R2t(_) | Pdu::Response(_) | Pdu::Other => {}
        }
    }

    fn begin_login(&mut self, request: &LoginRequest) {
        if self.names.is_none() {
            self.names = Some((*request, None));
        }
        if !self.full_feature {
            self.login
                .get_or_insert_default()
                .begin_pdu(Sender::Initiator);
        }
    }

    fn note_data_length(&mut self, sender: Sender, length: u32) {
        let longest = &mut self.data_length_max[sender as usize];
        *longest = (*longest).max(length);
    }

    fn begin_command(&mut self, now: Time, command: &ScsiCommand) {
        let whole = !self.lost[Sender::Target as usize];
        if self.commands.len() >= COMMANDS_MAX && !self.commands.contains_key(&command.itt) {
            self.tally.commands_not_followed += 1;
            return;
        }
        self.tally.commands += 1;
        let command = (command.itt, Command::new(now, command, whole));
        // Its tag is free again: it was aborted, or its response is not in the capture.
        if self.commands.insert(command.0, command.1).is_some() {
            self.tally.commands_without_response += 1;
        }
    }

    /// Data of the PDU being read.
    pub(crate) fn handle_data(&mut self, sender: Sender, bytes: &[u8]) {
        if self.is_login_pdu(sender)
            && let Some(login) = &mut self.login
        {
            login.text(sender, bytes);
        }
    }

    /// Data of the PDU being read that is not in the capture.
    pub(crate) fn handle_data_missing(&mut self, sender: Sender) {
        if self.is_login_pdu(sender)
            && let Some(login) = &mut self.login
        {
            login.text_missing();
        }
    }

    fn is_login_pdu(&self, sender: Sender) -> bool {
        !self.full_feature
            && self.last[sender as usize].is_some_and(|last| {
                matches!(last.kind, Pdu::LoginRequest(_) | Pdu::LoginResponse(_))
            })
    }

    /// The PDU being read has ended.
    pub(crate) fn handle_end(&mut self, now: Time, sender: Sender) {
        let Some(Last { kind, .. }) = self.last[sender as usize] else {
            return;
        };
        match kind {
            Pdu::Command(command) => {
                if let Some(known) = self.commands.get_mut(&command.itt) {
                    known.handle_command_end(now, command.data_segment_length);
                }
            }
            Pdu::DataOut(data) => {
                if let Some(command) = self.commands.get_mut(&data.itt) {
                    command.handle_data_out_end(now, &data);
                } else {
                    self.tally.pdus_without_command += 1;
                }
            }
            Pdu::DataIn(data) => self.end_data_in(now, &data),
            Pdu::R2t(r2t) => match self.commands.get_mut(&r2t.itt) {
                Some(command) => {
                    let (whole, waited) = (command.whole, command.handle_r2t(now, &r2t));
                    if let (true, Some(waited)) = (whole, waited) {
                        self.tally.turn(waited);
                    }
                }
                None => self.tally.pdus_without_command += 1,
            },
            Pdu::Response(response) => self.end_command(now, response.itt, response.status),
            Pdu::LoginRequest(request) => self.end_login_text(sender, request.more),
            Pdu::LoginResponse(response) => self.end_login_response(&response),
            Pdu::Other | Pdu::Malformed => {}
        }
    }

    fn end_data_in(&mut self, now: Time, data: &DataIn) {
        match self.commands.get_mut(&data.itt) {
            Some(command) => command.handle_data_in_end(now, data),
            None => self.tally.pdus_without_command += 1,
        }
        if let Some(DataInStatus { status, .. }) = data.status {
            self.end_command(now, data.itt, status);
        }
    }

    fn end_command(&mut self, now: Time, itt: Itt, status: u8) {
        let Some(mut command) = self.commands.remove(&itt) else {
            self.tally.pdus_without_command += 1;
            return;
        };
        let latency = command.handle_response(now);
        self.tally.end_command(&command, latency, status);
    }

    fn end_login_text(&mut self, sender: Sender, more: bool) {
        if let Some(login) = &mut self.login
            && !more
            && !self.full_feature
        {
            login.end_text(sender);
        }
    }

    fn end_login_response(&mut self, response: &LoginResponse) {
        self.end_login_text(Sender::Target, response.more);
        if let Some((_, status)) = &mut self.names {
            *status = Some(response.status);
        }
        let done = response.status == LoginStatus::SUCCESS
            && response.next_stage == Some(Stage::FullFeaturePhase);
        if done && !self.full_feature {
            self.full_feature = true;
            self.agreed = self.login.as_ref().and_then(Login::digests);
        }
    }

    /// What the next header of this direction must be, if that is certain enough: the next part of a burst, or the response to a read whose data is
    /// complete. A header that is seen later proves it, or the reader falls out of step.
    pub(crate) fn expected_header(&self, sender: Sender) -> Option<[u8; BHS_LENGTH]> {
        let last = self.last[sender as usize]?;
        let mut header = [0; BHS_LENGTH];
        match last.kind {
            Pdu::Command(command) if !command.is_final => {
                let data = DataOut {
                    ttt: Ttt::RESERVED,
                    lun: last.bhs.lun(),
                    itt: command.itt,
                    exp_stat_sn: command.exp_stat_sn,
                    ..DataOut::default()
                };
                self.next_data_out(&data, command.data_segment_length, true)?
                    .emit(&mut header);
            }
            Pdu::DataOut(data) if !data.is_final => self
                .next_data_out(&data, data.buffer_offset + data.data_segment_length, false)?
                .emit(&mut header),
            Pdu::DataIn(data) if data.status.is_none() => {
                let offset = data.buffer_offset + data.data_segment_length;
                let expected = self.commands.get(&data.itt)?.expected;
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

    fn next_data_out(&self, last: &DataOut, offset: u32, begins: bool) -> Option<DataOut> {
        let command = self.commands.get(&last.itt)?;
        let end = match command.burst_end(last.ttt) {
            Some(end) => end,
            None if last.ttt == Ttt::RESERVED => self
                .login
                .as_ref()?
                .number(Key::FirstBurstLength)?
                .min(command.expected),
            None => return None,
        };
        let before = (!begins).then_some(last.data_segment_length);
        let longest = self.data_segment_max(Sender::Target, before)?;
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
        let longest = self
            .data_segment_max(
                Sender::Initiator,
                (!last.is_final).then_some(last.data_segment_length),
            )
            .unwrap_or(1);
        let burst = self
            .login
            .as_ref()
            .and_then(|login| login.number(Key::MaxBurstLength))
            .filter(|&burst| burst > 0)
            .unwrap_or(u32::MAX);
        let to_burst_end = burst - offset % burst;
        let length = longest.min(expected - offset).min(to_burst_end);
        let all = offset + length == expected;
        DataIn {
            is_final: all || length == to_burst_end,
            status: (all && self.status_in_data).then(DataInStatus::default),
            numbers: last.numbers,
            data_sn: last.data_sn.wrapping_add(1),
            buffer_offset: offset,
            data_segment_length: length,
            ..*last
        }
    }

    /// How long the next data segment to `receiver` is, where a burst goes on for so long. A PDU that did not end its burst (`last`) was as long as its sender makes
    /// them; else the longest one seen was, else what the receiver declared.
    fn data_segment_max(&self, receiver: Sender, last: Option<u32>) -> Option<u32> {
        let seen = self.data_length_max[receiver.other() as usize];
        let declared = || {
            let login = self.login.as_ref()?;
            login.declared(Key::MaxRecvDataSegmentLength, receiver)
        };
        let length = last
            .or(Some(seen).filter(|&seen| seen > 0))
            .or_else(declared)?;
        Some(length.min(DATA_SEGMENT_LENGTH_MAX)).filter(|&length| length > 0)
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self) {
        self.tally.commands_unfinished += self.commands.len() as u64;
        self.commands.clear();
    }

    /// Anything that was decoded.
    pub(crate) fn has_pdus(&self) -> bool {
        self.tally.pdus() > 0
    }
}
