//! One command, and where its time went.
//!
//! Every instant from the command's header to the end of its response belongs to one phase, so that the phases sum to the latency to the nanosecond:
//!
//! ```text
//! write   data_transfer   wait_r2t    r2t_to_data  data_transfer  wait_r2t …   data_to_response
//!         |- unsolicited -|- R2T comes -|- data begin -|- burst ends -|     all out -|- response
//! read    command_to_data          data_transfer                  data_to_response
//!         |- first Data-In begins -|- last Data-In ends -|- response
//! ```
//!
//! A command that is neither READ nor WRITE has a latency and no phases.
use hakaru_units::Time;
use hakaru_wire::iscsi::{DataIn, DataOut, R2t, ScsiCommand, Ttt};

/// R2Ts of one command that are open at once; beyond that they are counted and not told apart.
const OPEN_R2TS_MAX: usize = 64;

/// What a command does with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// READ (6, 10, 12, 16).
    Read,
    /// WRITE or WRITE AND VERIFY (6, 10, 12, 16).
    Write,
    /// All others.
    Other,
}

impl Kind {
    fn of(command: &ScsiCommand) -> Kind {
        match command.cdb[0] {
            0x08 | 0x28 | 0xa8 | 0x88 if command.read && !command.write => Kind::Read,
            0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e if command.write && !command.read => {
                Kind::Write
            }
            _ => Kind::Other,
        }
    }
}

/// A phase; the number is its place in [`Command::phases`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Write: nothing may be sent before an R2T comes.
    WaitR2t = 0,
    /// Write: an R2T is here, its first data not yet out. Read: no data has come.
    BeforeData = 1,
    /// Data is going out, or coming in.
    Transfer = 2,
    /// All data is there, the response is not.
    BeforeResponse = 3,
}

/// An R2T that is not yet answered in full.
#[derive(Clone, Copy, Debug)]
struct Open {
    ttt: Ttt,
    end: u32,
    begun: bool,
}

/// A command under way, or just ended.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) kind: Kind,
    /// ExpectedDataTransferLength.
    pub(crate) expected: u32,
    /// Data that was seen to move, bytes.
    pub(crate) moved: u64,
    pub(crate) start: Time,
    /// Nothing of it can have been missed.
    pub(crate) whole: bool,
    /// Nanoseconds of each [`Phase`].
    pub(crate) phases: [u64; 4],
    pub(crate) r2ts: u32,
    phase: Phase,
    since: Time,
    open: Vec<Open>,
    /// The command's own burst goes on in Data-Out PDUs.
    unsolicited: bool,
    data_ended: bool,
}

impl Command {
    pub(crate) fn new(now: Time, command: &ScsiCommand, whole: bool) -> Command {
        let kind = Kind::of(command);
        let phase = match kind {
            Kind::Write if command.data_segment_length > 0 || !command.is_final => Phase::Transfer,
            Kind::Write if command.expected_data_transfer_length > 0 => Phase::WaitR2t,
            Kind::Write => Phase::BeforeResponse,
            Kind::Read | Kind::Other => Phase::BeforeData,
        };
        Command {
            kind,
            expected: command.expected_data_transfer_length,
            moved: 0,
            start: now,
            whole,
            phases: [0; 4],
            r2ts: 0,
            phase,
            since: now,
            open: Vec::new(),
            unsolicited: !command.is_final,
            data_ended: false,
        }
    }

    /// The command's PDU has ended, with this much immediate data.
    pub(crate) fn handle_command_end(&mut self, now: Time, immediate: u32) {
        self.moved += u64::from(immediate);
        if self.kind == Kind::Write && !self.unsolicited && self.phase == Phase::Transfer {
            self.end_burst(now);
        }
    }

    /// An R2T has come. How long nothing could be sent before it, ns, if so.
    pub(crate) fn handle_r2t(&mut self, now: Time, r2t: &R2t) -> Option<u64> {
        self.r2ts += 1;
        if self.open.len() < OPEN_R2TS_MAX {
            self.open.push(Open {
                ttt: r2t.ttt,
                end: r2t
                    .buffer_offset
                    .saturating_add(r2t.desired_data_transfer_length),
                begun: false,
            });
        }
        if self.kind != Kind::Write || self.phase != Phase::WaitR2t {
            return None;
        }
        let waited = now.0.saturating_sub(self.since.0);
        self.enter(now, Phase::BeforeData);
        Some(waited)
    }

    /// The header of a Data-Out.
    pub(crate) fn handle_data_out(&mut self, now: Time, data: &DataOut) {
        if let Some(open) = self.open.iter_mut().find(|open| open.ttt == data.ttt) {
            open.begun = true;
        }
        if self.kind == Kind::Write {
            self.enter(now, Phase::Transfer);
        }
    }

    /// The end of a Data-Out.
    pub(crate) fn handle_data_out_end(&mut self, now: Time, data: &DataOut) {
        self.moved += u64::from(data.data_segment_length);
        if data.is_final {
            self.open.retain(|open| open.ttt != data.ttt);
            self.unsolicited &= data.ttt != Ttt::RESERVED;
            if self.kind == Kind::Write {
                self.end_burst(now);
            }
        }
    }

    /// The header of a Data-In.
    pub(crate) fn handle_data_in(&mut self, now: Time) {
        if self.kind == Kind::Read {
            self.enter(now, Phase::Transfer);
        }
    }

    /// The end of a Data-In.
    pub(crate) fn handle_data_in_end(&mut self, now: Time, data: &DataIn) {
        self.moved += u64::from(data.data_segment_length);
        if self.kind == Kind::Read {
            self.enter(now, Phase::Transfer);
            self.data_ended = true;
        }
    }

    /// The end of its response: what has not been put down yet is, and the latency returned, ns.
    pub(crate) fn handle_response(&mut self, now: Time) -> u64 {
        if self.kind == Kind::Read && self.data_ended {
            self.phase = Phase::BeforeResponse;
        }
        self.enter(now, Phase::BeforeResponse);
        now.0.saturating_sub(self.start.0)
    }

    /// Where the burst ends to which a Data-Out of this transfer belongs, if an R2T said so.
    pub(crate) fn burst_end(&self, ttt: Ttt) -> Option<u32> {
        self.open
            .iter()
            .find(|open| open.ttt == ttt)
            .map(|open| open.end)
    }

    fn end_burst(&mut self, now: Time) {
        let next = if self.moved >= u64::from(self.expected) {
            Phase::BeforeResponse
        } else if self.open.iter().any(|open| !open.begun) {
            Phase::BeforeData
        } else {
            Phase::WaitR2t
        };
        self.enter(now, next);
    }

    fn enter(&mut self, now: Time, next: Phase) {
        self.phases[self.phase as usize] += now.0.saturating_sub(self.since.0);
        (self.phase, self.since) = (next, self.since.max(now));
    }
}
