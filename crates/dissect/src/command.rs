//! One command and its phases.
//!
//! Every instant from the command's header to the end of its response belongs to one phase, so that
//! the phases sum to the latency to the nanosecond:
//!
//! ```text
//! write   data_transfer   wait_r2t    r2t_to_data  data_transfer  wait_r2t …   data_to_response
//!         |- unsolicited -|- R2T comes -|- data begin -|- burst ends -|     all out -|- response
//! read    command_to_data          data_transfer                  data_to_response
//!         |- first Data-In begins -|- last Data-In ends -|- response
//! ```
//!
//! A command that is neither READ nor WRITE has a latency and no phases. A command is timed only if
//! each boundary of its phases was seen at an exact instant.
use hakaru_wire::iscsi::{DataIn, DataOut, Itt, Lun, R2t, Residual, ScsiCommand, Ttt};

use crate::Sender;
use crate::clock::Stamp;

/// Maximum number of open R2Ts tracked per command; further R2Ts are only counted.
const OPEN_R2TS_MAX: usize = 64;
/// Maximum number of waits for an R2T that are recorded per command.
const WAITS_MAX: usize = 4096;

/// Direction of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// READ (6, 10, 12, 16).
    Read,
    /// WRITE or WRITE AND VERIFY (6, 10, 12, 16).
    Write,
    /// Every other command.
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

/// A phase; the number is its index in [`Command::phases`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Write: nothing may be sent before an R2T arrives.
    WaitR2t = 0,
    /// Write: an R2T has arrived, and its first data has not been sent. Read: no data has arrived.
    BeforeData = 1,
    /// Data is being sent or received.
    Transfer = 2,
    /// All data has been transferred, and the response has not arrived.
    BeforeResponse = 3,
}

/// An R2T that is not yet fully answered.
#[derive(Clone, Copy, Debug)]
struct OpenR2t {
    ttt: Ttt,
    end: u32,
    begun: bool,
}

/// The status of a command that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) status: u8,
    pub(crate) residual: Residual,
}

/// A command in flight or just ended.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) kind: Kind,
    pub(crate) itt: Itt,
    pub(crate) lun: Lun,
    /// First byte of the CDB.
    pub(crate) operation: u8,
    /// ExpectedDataTransferLength.
    pub(crate) expected: u32,
    /// Data transferred so far, bytes.
    pub(crate) moved: u64,
    /// Stamp of the command's header.
    pub(crate) start: Stamp,
    /// Stamp of the newest event.
    pub(crate) last: Stamp,
    /// Whether no part of the command can be missing and every boundary of its phases has an exact
    /// instant.
    pub(crate) whole: bool,
    /// Whether one of the command's headers was assumed in a direction and not yet confirmed by a
    /// later header.
    pub(crate) unconfirmed: [bool; 2],
    /// Whether one of the command's headers was assumed.
    pub(crate) assumed: bool,
    /// Duration of each [`Phase`], ns.
    pub(crate) phases: [u64; 4],
    pub(crate) r2ts: u32,
    /// Each wait for an R2T in which nothing could be sent, ns.
    pub(crate) r2t_waits: Vec<u64>,
    pub(crate) status: u8,
    phase: Phase,
    since: Stamp,
    open: Vec<OpenR2t>,
    /// The unsolicited burst continues in Data-Out PDUs.
    unsolicited: bool,
    data_ended: bool,
}

impl Command {
    pub(crate) fn new(now: Stamp, command: &ScsiCommand, whole: bool) -> Command {
        let kind = Kind::of(command);
        let phase = match kind {
            Kind::Write if command.data_segment_length > 0 || !command.is_final => Phase::Transfer,
            Kind::Write if command.expected_data_transfer_length > 0 => Phase::WaitR2t,
            Kind::Write => Phase::BeforeResponse,
            Kind::Read | Kind::Other => Phase::BeforeData,
        };
        Command {
            kind,
            itt: command.itt,
            lun: command.lun,
            operation: command.cdb[0],
            expected: command.expected_data_transfer_length,
            moved: 0,
            start: now,
            last: now,
            whole: whole && now.exact,
            unconfirmed: [false; 2],
            assumed: false,
            phases: [0; 4],
            r2ts: 0,
            r2t_waits: Vec::new(),
            status: 0,
            phase,
            since: now,
            open: Vec::new(),
            unsolicited: !command.is_final,
            data_ended: false,
        }
    }

    /// Returns the time from the header to the newest event, ns.
    pub(crate) fn latency_ns(&self) -> u64 {
        self.phases.iter().sum()
    }

    /// Records that one of the command's headers was not captured and is assumed to be the expected
    /// one.
    pub(crate) fn assume_header(&mut self, sender: Sender) {
        self.assumed = true;
        self.unconfirmed[sender as usize] = true;
    }

    /// Handles the end of the command's PDU, with `immediate` bytes of immediate data.
    pub(crate) fn handle_command_end(&mut self, now: Stamp, immediate: u32) {
        self.moved += u64::from(immediate);
        if self.kind == Kind::Write && !self.unsolicited && self.phase == Phase::Transfer {
            self.end_burst(now);
        }
    }

    /// Handles an R2T.
    pub(crate) fn handle_r2t(&mut self, now: Stamp, r2t: &R2t) {
        self.r2ts += 1;
        self.touch(now);
        if self.open.len() < OPEN_R2TS_MAX {
            self.open.push(OpenR2t {
                ttt: r2t.ttt,
                end: r2t
                    .buffer_offset
                    .saturating_add(r2t.desired_data_transfer_length),
                begun: false,
            });
        }
        if self.kind != Kind::Write || self.phase != Phase::WaitR2t {
            return;
        }
        if let Some(waited) = now.ns_since(self.since)
            && self.r2t_waits.len() < WAITS_MAX
        {
            self.r2t_waits.push(waited);
        }
        self.enter(now, Phase::BeforeData);
    }

    /// Handles the header of a Data-Out.
    pub(crate) fn handle_data_out(&mut self, now: Stamp, data: &DataOut) {
        match self.open.iter_mut().find(|open| open.ttt == data.ttt) {
            Some(open) => open.begun = true,
            // The R2T is missing, or was not tracked because of the limit.
            None => self.whole &= data.ttt == Ttt::RESERVED || self.open.len() == OPEN_R2TS_MAX,
        }
        if self.kind == Kind::Write && self.phase != Phase::Transfer {
            self.enter(now, Phase::Transfer);
        }
    }

    /// Handles the end of a Data-Out.
    pub(crate) fn handle_data_out_end(&mut self, now: Stamp, data: &DataOut) {
        self.moved += u64::from(data.data_segment_length);
        self.touch(now);
        if data.is_final {
            self.open.retain(|open| open.ttt != data.ttt);
            self.unsolicited &= data.ttt != Ttt::RESERVED;
            if self.kind == Kind::Write {
                self.end_burst(now);
            }
        }
    }

    /// Handles the header of a Data-In.
    pub(crate) fn handle_data_in(&mut self, now: Stamp) {
        if self.kind == Kind::Read && self.phase != Phase::Transfer {
            self.enter(now, Phase::Transfer);
        }
    }

    /// Handles the end of a Data-In.
    pub(crate) fn handle_data_in_end(&mut self, now: Stamp, data: &DataIn) {
        self.moved += u64::from(data.data_segment_length);
        self.touch(now);
        if self.kind == Kind::Read {
            // Only the end of the last Data-In bounds a phase. The ends of earlier ones need not be
            // exact.
            self.add_to_phase(now);
            self.since = now;
            self.data_ended = true;
        }
    }

    /// Handles the end of the response, which ends the last phase.
    pub(crate) fn handle_response(&mut self, now: Stamp, ending: Ending) {
        self.whole &= self.since.exact;
        if self.kind == Kind::Read && self.data_ended {
            self.phase = Phase::BeforeResponse;
        }
        self.enter(now, Phase::BeforeResponse);
        self.status = ending.status;
        self.whole &= self.has_all_data(ending);
    }

    /// Returns whether all data that the command must transfer was seen. A command that failed, or
    /// is neither READ nor WRITE, passes.
    fn has_all_data(&self, ending: Ending) -> bool {
        let short = match ending.residual {
            Residual::Underflow(bytes) => bytes,
            Residual::None | Residual::Overflow(_) => 0,
        };
        let expected = u64::from(self.expected.saturating_sub(short));
        ending.status != 0 || self.kind == Kind::Other || self.moved == expected
    }

    /// Returns the end of the burst to which a Data-Out of this transfer belongs, if an R2T set it.
    pub(crate) fn burst_end(&self, ttt: Ttt) -> Option<u32> {
        self.open
            .iter()
            .find(|open| open.ttt == ttt)
            .map(|open| open.end)
    }

    fn end_burst(&mut self, now: Stamp) {
        let next = if self.moved >= u64::from(self.expected) {
            Phase::BeforeResponse
        } else if self.open.iter().any(|open| !open.begun) {
            Phase::BeforeData
        } else {
            Phase::WaitR2t
        };
        self.enter(now, next);
    }

    /// Enters a phase. The instant must be exact for the command to stay whole.
    fn enter(&mut self, now: Stamp, next: Phase) {
        self.touch(now);
        self.whole &= now.exact;
        self.add_to_phase(now);
        (self.phase, self.since) = (next, now);
    }

    fn add_to_phase(&mut self, now: Stamp) {
        match now.at.0.checked_sub(self.since.at.0) {
            Some(ns) => self.phases[self.phase as usize] += ns,
            None => self.whole = false,
        }
    }

    /// Records an event. The events of one command must be in order and of one clock epoch.
    fn touch(&mut self, now: Stamp) {
        self.whole &= now.at >= self.last.at && now.epoch == self.start.epoch;
        self.last = now;
    }
}
