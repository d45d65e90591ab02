//! Assembly of one connection's PDUs into commands.
//!
//! All PDUs of a command pass through one connection (connection allegiance, RFC 7143 section
//! 4.2.2.1), so each connection is examined separately. If a session has several connections, each
//! is one entry of the report.
use std::collections::BTreeMap;

use hakaru_wire::iscsi::{
    Bhs, DataIn, DataInStatus, DataOut, Itt, LoginRequest, LoginResponse, LoginStatus, Opcode, R2t,
    ScsiCommand, ScsiResponse, Stage,
};
use hakaru_wire::scsi::Sense;

use crate::Sender;
use crate::clock::Stamp;
use crate::command::{Command, Ending};
use crate::digests::DigestKnowledge;
use crate::habits::Habits;
use crate::login::Login;
use crate::numbers::Numbers;
use crate::tally::Tally;

/// Maximum number of commands in flight tracked per connection; further commands are only counted.
const COMMANDS_MAX: usize = 1 << 16;
/// Maximum number of ended commands that wait for a confirmation. Beyond it, those without one are
/// counted as not whole.
const ENDED_MAX: usize = 1 << 12;
/// Maximum number of bytes of sense data examined, including the length field before them.
const SENSE_BYTES_MAX: usize = 2 + 252;

/// Phase of the connection (RFC 7143 section 4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginPhase {
    /// The capture begins later than the connection, and no PDU was seen yet.
    Unknown,
    /// Before the last login response.
    Login,
    /// After the last login response.
    FullFeature,
}

/// State of a connection as far as the capture shows it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) tally: Tally,
    pub(crate) login: Option<Login>,
    pub(crate) names: Option<(LoginRequest, Option<LoginStatus>)>,
    pub(crate) habits: Habits,
    pub(crate) digests: DigestKnowledge,
    from_start: bool,
    phase: LoginPhase,
    numbers: Numbers,
    commands: BTreeMap<Itt, Command>,
    /// Commands that ended by a header that was assumed. Each is kept until later headers confirm
    /// the assumption, or its tag is reused. A PDU for it before then shows that the assumption was
    /// wrong.
    ended: BTreeMap<Itt, Command>,
    /// Number of assumed statuses from the target that no later header has confirmed.
    assumed_statuses: u32,
    /// Whether headers were assumed after the last one that was seen, by direction.
    has_assumed: [bool; 2],
    /// PDU that is being read or was read last, by direction.
    last: [Option<Pdu>; 2],
    /// Whether the direction is out of step.
    lost: [bool; 2],
    /// Sense data of the response being read.
    sense: Vec<u8>,
    /// Whether a part of it is missing.
    sense_missing: bool,
}

/// A PDU of the capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pdu {
    pub(crate) bhs: Bhs,
    pub(crate) kind: PduKind,
    assumed: bool,
}

/// The fields of a PDU that concern a command or a login.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PduKind {
    Command(ScsiCommand),
    DataOut(DataOut),
    DataIn(DataIn),
    R2t(R2t),
    Response(ScsiResponse),
    LoginRequest(LoginRequest),
    LoginResponse(LoginResponse),
    Other,
    /// The header violates RFC 7143.
    Malformed,
}

impl PduKind {
    fn of(bhs: &Bhs) -> PduKind {
        let kind = match bhs.opcode() {
            Some(Opcode::ScsiCommand) => ScsiCommand::parse(bhs).map(PduKind::Command),
            Some(Opcode::DataOut) => DataOut::parse(bhs).map(PduKind::DataOut),
            Some(Opcode::DataIn) => DataIn::parse(bhs).map(PduKind::DataIn),
            Some(Opcode::R2t) => R2t::parse(bhs).map(PduKind::R2t),
            Some(Opcode::ScsiResponse) => ScsiResponse::parse(bhs).map(PduKind::Response),
            Some(Opcode::LoginRequest) => LoginRequest::parse(bhs).map(PduKind::LoginRequest),
            Some(Opcode::LoginResponse) => LoginResponse::parse(bhs).map(PduKind::LoginResponse),
            _ => Ok(PduKind::Other),
        };
        kind.unwrap_or(PduKind::Malformed)
    }
}

/// Returns whether a PDU belongs to a login.
pub(crate) fn is_login(bhs: &Bhs) -> bool {
    matches!(
        bhs.opcode(),
        Some(Opcode::LoginRequest | Opcode::LoginResponse)
    )
}

impl Session {
    /// Creates the state of a connection. `from_start`: the capture contains the connection's
    /// beginning. `slowest_max`: maximum number of slowest commands reported individually.
    pub(crate) fn new(from_start: bool, slowest_max: usize) -> Session {
        Session {
            tally: Tally::new(slowest_max),
            login: None,
            names: None,
            habits: Habits::new(),
            digests: DigestKnowledge::default(),
            from_start,
            phase: if from_start {
                LoginPhase::Login
            } else {
                LoginPhase::Unknown
            },
            numbers: Numbers::default(),
            commands: BTreeMap::new(),
            ended: BTreeMap::new(),
            assumed_statuses: 0,
            has_assumed: [false; 2],
            last: [None; 2],
            lost: [!from_start; 2],
            sense: Vec::new(),
            sense_missing: false,
        }
    }

    /// Returns whether the capture contains the connection's beginning.
    pub(crate) fn is_from_start(&self) -> bool {
        self.from_start
    }

    /// Returns whether the login is in progress. Digests are in use only after it, from the full
    /// feature phase on (RFC 7143 section 13.1).
    pub(crate) fn is_in_login(&self) -> bool {
        self.phase == LoginPhase::Login
    }

    /// Returns whether a PDU of this kind may arrive now. A login comes first, and only once.
    pub(crate) fn is_allowed_now(&self, bhs: &Bhs) -> bool {
        match self.phase {
            LoginPhase::Unknown => true,
            LoginPhase::Login => is_login(bhs),
            LoginPhase::FullFeature => !is_login(bhs),
        }
    }

    /// Returns whether the sequence numbers of a header continue those before it; `None` if they
    /// cannot be compared.
    pub(crate) fn numbers_fit(&self, bhs: &Bhs, sender: Sender) -> Option<bool> {
        self.numbers.are_continued_by(bhs, sender)
    }

    pub(crate) fn command(&self, itt: Itt) -> Option<&Command> {
        self.commands.get(&itt)
    }

    pub(crate) fn last_pdu(&self, sender: Sender) -> Option<&Pdu> {
        self.last[sender as usize].as_ref()
    }

    /// Handles a direction that fell out of step: commands in flight may be incomplete, and assumed
    /// headers were wrong.
    pub(crate) fn handle_lost(&mut self, sender: Sender) {
        self.lost[sender as usize] = true;
        self.last[sender as usize] = None;
        self.assumed_statuses = 0;
        self.has_assumed[sender as usize] = false;
        if self.phase == LoginPhase::Login {
            self.login.get_or_insert_default().text_missing();
        }
        for command in self.commands.values_mut() {
            command.whole = false;
        }
        for command in self.ended.values_mut() {
            command.whole &= !command.unconfirmed[sender as usize];
        }
    }

    /// Handles a direction that is in step again, as the header `bhs` shows.
    pub(crate) fn handle_recovered(&mut self, sender: Sender, bhs: &Bhs) {
        self.lost[sender as usize] = false;
        match (is_login(bhs), self.phase) {
            (false, _) => {
                if self.phase == LoginPhase::Login {
                    // The last login response is missing.
                    self.login.get_or_insert_default().text_missing();
                }
                self.phase = LoginPhase::FullFeature;
            }
            (true, LoginPhase::Unknown) => self.phase = LoginPhase::Login,
            _ => {}
        }
    }

    /// Marks the time of packet `packet`, the newest so far, as wrong.
    pub(crate) fn distrust(&mut self, packet: u64) {
        self.tally.distrust(packet);
        for command in self.commands.values_mut().chain(self.ended.values_mut()) {
            command.whole &= command.last.packet != packet;
        }
    }

    /// Confirms assumed headers by a later header that was seen in its place.
    fn confirm(&mut self, sender: Sender, bhs: &Bhs) {
        let statuses = self.numbers.handle_header(bhs, sender);
        if !self.has_assumed[sender as usize] {
            return;
        }
        let assumption_holds = match (sender, statuses) {
            (Sender::Target, Some(between)) => between == self.assumed_statuses,
            // A header without a status confirms nothing about assumed statuses.
            (Sender::Target, None) if self.assumed_statuses > 0 => return,
            _ => true,
        };
        if sender == Sender::Target {
            self.assumed_statuses = 0;
        }
        self.has_assumed[sender as usize] = false;
        for command in self.ended.values_mut().chain(self.commands.values_mut()) {
            if command.unconfirmed[sender as usize] {
                command.unconfirmed[sender as usize] = false;
                command.whole &= assumption_holds;
            }
        }
        let is_confirmed = |command: &Command| command.unconfirmed == [false; 2];
        let confirmed = self.ended.iter().filter(|(_, each)| is_confirmed(each));
        let confirmed: Vec<Itt> = confirmed.map(|(itt, _)| *itt).collect();
        for command in confirmed.iter().filter_map(|itt| self.ended.remove(itt)) {
            self.tally.end_command(command);
        }
    }

    /// Handles the header of a PDU. `assumed`: the header was not seen.
    pub(crate) fn handle_header(&mut self, now: Stamp, sender: Sender, bhs: &Bhs, assumed: bool) {
        let kind = PduKind::of(bhs);
        self.last[sender as usize] = Some(Pdu {
            bhs: *bhs,
            kind,
            assumed,
        });
        if assumed {
            self.tally.assumed_pdus += 1;
            self.has_assumed[sender as usize] = true;
        } else {
            self.tally.count_pdu(sender, bhs.opcode_code());
            self.confirm(sender, bhs);
        }
        if sender == Sender::Target {
            self.sense.clear();
            self.sense_missing = false;
        }
        if let Some(itt) = itt_of(&kind) {
            self.note_tag(itt, sender, assumed);
        }
        match kind {
            PduKind::Command(command) => self.begin_command(now, &command),
            PduKind::DataOut(data) => {
                self.habits
                    .note_data_length(sender, data.data_segment_length);
                if let Some(command) = self.commands.get_mut(&data.itt) {
                    command.handle_data_out(now, &data);
                }
            }
            PduKind::DataIn(data) => {
                self.habits
                    .note_data_length(sender, data.data_segment_length);
                if let Some(command) = self.commands.get_mut(&data.itt) {
                    command.handle_data_in(now);
                    if !assumed {
                        self.habits.note_data_in(&data, command);
                    }
                }
            }
            PduKind::LoginRequest(request) => self.begin_login(&request),
            PduKind::LoginResponse(_) => {
                self.phase = LoginPhase::Login;
                if let Some(login) = &mut self.login {
                    login.begin_pdu(sender);
                }
            }
            PduKind::Malformed => self.tally.malformed_pdus += 1,
            PduKind::R2t(_) | PduKind::Response(_) | PduKind::Other => {}
        }
    }

    /// Records a PDU of a command. If the PDU is assumed, the command is marked. If the command had
    /// ended, its assumed end was wrong.
    fn note_tag(&mut self, itt: Itt, sender: Sender, assumed: bool) {
        match self.commands.get_mut(&itt) {
            Some(command) if assumed => command.assume_header(sender),
            Some(_) => {}
            None => {
                if let Some(command) = self.ended.get_mut(&itt) {
                    command.whole = false;
                }
            }
        }
    }

    fn begin_login(&mut self, request: &LoginRequest) {
        self.phase = LoginPhase::Login;
        if self.names.is_none() {
            self.names = Some((*request, None));
        }
        let login = self.login.get_or_insert_default();
        login.begin_pdu(Sender::Initiator);
        if !self.from_start {
            login.text_missing();
        }
    }

    fn begin_command(&mut self, now: Stamp, command: &ScsiCommand) {
        let whole = !self.lost[Sender::Target as usize];
        if self.commands.len() >= COMMANDS_MAX && !self.commands.contains_key(&command.itt) {
            self.tally.commands_not_followed += 1;
            return;
        }
        self.tally.commands += 1;
        if let Some(ended) = self.ended.remove(&command.itt) {
            self.count_assumed_end(ended);
        }
        let command = (command.itt, Command::new(now, command, whole));
        // The tag is reused: the previous command was aborted, or its response is not in the
        // capture.
        if self.commands.insert(command.0, command.1).is_some() {
            self.tally.commands_without_response += 1;
        }
    }

    fn count_assumed_ends(&mut self) {
        for command in std::mem::take(&mut self.ended).into_values() {
            self.count_assumed_end(command);
        }
    }

    fn count_assumed_end(&mut self, mut command: Command) {
        command.whole &= command.unconfirmed == [false; 2];
        self.tally.end_command(command);
    }

    /// Handles data of the PDU being read.
    pub(crate) fn handle_data(&mut self, sender: Sender, bytes: &[u8]) {
        match self.last[sender as usize].map(|last| last.kind) {
            Some(PduKind::LoginRequest(_) | PduKind::LoginResponse(_)) => {
                if let Some(login) = &mut self.login {
                    login.text(sender, bytes);
                }
            }
            Some(PduKind::Response(_)) => {
                let room = SENSE_BYTES_MAX - self.sense.len();
                self.sense
                    .extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            _ => {}
        }
    }

    /// Handles data of the PDU being read that is not in the capture.
    pub(crate) fn handle_data_missing(&mut self, sender: Sender) {
        self.sense_missing |= sender == Sender::Target;
        if matches!(
            self.last[sender as usize].map(|last| last.kind),
            Some(PduKind::LoginRequest(_) | PduKind::LoginResponse(_))
        ) && let Some(login) = &mut self.login
        {
            login.text_missing();
        }
    }

    /// Handles the end of the PDU being read.
    pub(crate) fn handle_end(&mut self, now: Stamp, sender: Sender) {
        let Some(Pdu { kind, assumed, .. }) = self.last[sender as usize] else {
            return;
        };
        match kind {
            PduKind::Command(command) => {
                if let Some(known) = self.commands.get_mut(&command.itt) {
                    known.handle_command_end(now, command.data_segment_length);
                }
            }
            PduKind::DataOut(data) => match self.commands.get_mut(&data.itt) {
                Some(command) => command.handle_data_out_end(now, &data),
                None => self.tally.pdus_without_command += 1,
            },
            PduKind::DataIn(data) => self.end_data_in(now, &data, assumed),
            PduKind::R2t(r2t) => match self.commands.get_mut(&r2t.itt) {
                Some(command) => command.handle_r2t(now, &r2t),
                None => self.tally.pdus_without_command += 1,
            },
            PduKind::Response(response) => {
                let (status, residual) = (response.status, response.residual);
                self.end_command(now, response.itt, Ending { status, residual }, assumed);
            }
            PduKind::LoginRequest(request) => self.end_login_text(sender, request.more),
            PduKind::LoginResponse(response) => self.end_login_response(&response),
            PduKind::Other | PduKind::Malformed => {}
        }
    }

    fn end_data_in(&mut self, now: Stamp, data: &DataIn, assumed: bool) {
        match self.commands.get_mut(&data.itt) {
            Some(command) => command.handle_data_in_end(now, data),
            None => self.tally.pdus_without_command += 1,
        }
        if let Some(DataInStatus { status, residual }) = data.status {
            self.end_command(now, data.itt, Ending { status, residual }, assumed);
        }
    }

    fn end_command(&mut self, now: Stamp, itt: Itt, ending: Ending, assumed: bool) {
        self.assumed_statuses += u32::from(assumed);
        let Some(mut command) = self.commands.remove(&itt) else {
            self.tally.pdus_without_command += 1;
            return;
        };
        command.handle_response(now, ending);
        if !assumed {
            let whole = (!self.sense_missing).then_some(&self.sense);
            let sense = whole.and_then(|data| Sense::parse_response_data(data));
            let sense = sense.map(|sense| {
                [
                    sense.key as u8,
                    sense.additional.code,
                    sense.additional.qualifier,
                ]
            });
            self.tally.count_status(ending.status, sense);
        }
        if command.assumed {
            if self.ended.len() >= ENDED_MAX {
                self.count_assumed_ends();
            }
            self.ended.insert(itt, command);
        } else {
            self.tally.end_command(command);
        }
    }

    fn end_login_text(&mut self, sender: Sender, more: bool) {
        if let Some(login) = &mut self.login
            && !more
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
        if done {
            self.phase = LoginPhase::FullFeature;
            if let Some(digests) = self.login.as_ref().and_then(Login::digests) {
                self.digests.agree(digests);
            }
        }
    }

    /// Handles the end of the capture.
    pub(crate) fn finish(&mut self) {
        self.count_assumed_ends();
        self.tally.commands_unfinished += self.commands.len() as u64;
        self.commands.clear();
        self.tally.finish();
    }

    /// Returns whether any PDU was decoded.
    pub(crate) fn has_pdus(&self) -> bool {
        self.tally.pdus() > 0
    }
}

/// Returns the tag of the command to which a PDU belongs, unless the PDU is that command.
fn itt_of(kind: &PduKind) -> Option<Itt> {
    match kind {
        PduKind::DataOut(data) => Some(data.itt),
        PduKind::DataIn(data) => Some(data.itt),
        PduKind::R2t(r2t) => Some(r2t.itt),
        PduKind::Response(response) => Some(response.itt),
        _ => None,
    }
}
