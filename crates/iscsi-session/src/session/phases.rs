//! Phases of a command: every instant from its submission to its end belongs to one phase.
//!
//! ```text
//!   write: waiting → target_wait → r2t_pending → transfer → target_wait → … → response → end
//!   read:  waiting → target_wait → transfer → response → end
//! ```
//!
//! | phase | begins when |
//! |---|---|
//! | `waiting` | the command is submitted |
//! | `target_wait` | the command was sent, or a burst of a write was sent and data remains |
//! | `r2t_pending` | an R2T is received |
//! | `transfer` | the first data of a burst was sent, or the first Data-In is received |
//! | `response` | all data was sent or received |
//!
//! "Sent" means that the bytes left the host, or that they were passed to the kernel if they had to
//! wait there ([`crate::Departure`]). Unsolicited data, in the
//! command or after it, is in phase `transfer` from the command's first byte. With several R2Ts,
//! the phase is `transfer` while data is being sent, otherwise `r2t_pending`.
use hakaru_units::Time;
use hakaru_wire::iscsi::Itt;

use crate::departure::Departure;

/// Time that a command spent in each phase. The sum is the time from its submission to its end,
/// without `leaving_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Time before the first byte was sent: command window, earlier data in the send queue, pauses
    /// after BUSY.
    pub waiting_ns: u64,
    /// Write: time with nothing to send until the next R2T. Read: time from the command to its
    /// first data.
    pub target_wait_ns: u64,
    /// Write: time between an R2T and the first data for it.
    pub r2t_pending_ns: u64,
    /// Time spent sending or receiving data.
    pub transfer_ns: u64,
    /// Time from the last data to the status.
    pub response_ns: u64,
    /// Time from the begin of the call that passed the command to the kernel until it left the host;
    /// 0 if it did not leave within that call. It belongs to no phase.
    pub leaving_ns: u64,
    /// R2Ts received.
    pub r2ts: u32,
}

/// A position in the sent bytes at which the phase of a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(super) itt: Itt,
    kind: MarkKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkKind {
    /// The command's first byte.
    Command,
    /// The first byte of the data for an R2T.
    BurstBegins,
    /// The last byte of a burst of this many bytes, for an R2T or unsolicited.
    BurstEnded(u32),
}

impl Mark {
    pub(crate) fn command(itt: Itt) -> Mark {
        Mark {
            itt,
            kind: MarkKind::Command,
        }
    }

    pub(super) fn burst_begins(itt: Itt) -> Mark {
        Mark {
            itt,
            kind: MarkKind::BurstBegins,
        }
    }

    pub(crate) fn is_command(&self) -> bool {
        self.kind == MarkKind::Command
    }

    pub(crate) fn burst_ended(itt: Itt, bytes: u32) -> Mark {
        Mark {
            itt,
            kind: MarkKind::BurstEnded(bytes),
        }
    }
}

/// Phase of a command. The discriminant is the index into [`Clock::spent_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    TargetWait,
    R2tPending,
    Transfer,
    Response,
}

/// Time accounting of one command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    phase: Phase,
    since: Time,
    /// Time spent in each phase, complete until `since`.
    spent_ns: [u64; 5],
    /// See [`Phases::leaving_ns`].
    leaving_ns: u64,
    /// R2Ts received.
    r2ts: u32,
    /// Total bytes that the command sends; 0 for a read or a command without data.
    length: u32,
    /// Unsolicited bytes among them.
    unsolicited: u32,
    /// Bytes of data sent so far.
    sent: u32,
    /// Number of R2Ts for which no data was sent yet.
    pending_r2ts: u32,
    /// Whether a burst is partly sent.
    sending: bool,
}

impl Clock {
    /// Creates the clock of a command that was just submitted and sends `length` bytes.
    pub(super) fn new(now: Time, length: u32) -> Clock {
        Clock {
            phase: Phase::Waiting,
            since: now,
            spent_ns: [0; 5],
            leaving_ns: 0,
            r2ts: 0,
            length,
            unsolicited: 0,
            sent: 0,
            pending_r2ts: 0,
            sending: false,
        }
    }

    /// Records that the command was queued with `unsolicited` bytes of data.
    pub(super) fn queue(&mut self, unsolicited: u32) {
        self.unsolicited = unsolicited;
    }

    /// Returns to phase `waiting` because the command is sent again. The time spent is kept.
    pub(super) fn rewind(&mut self, now: Time) {
        self.enter(now, Phase::Waiting);
        (self.sent, self.pending_r2ts, self.sending) = (0, 0, false);
    }

    /// Records that the bytes up to `mark` were passed to the kernel.
    #[inline]
    pub(super) fn pass(&mut self, departure: Departure, mark: Mark) {
        match mark.kind {
            MarkKind::Command => {
                self.sending = self.unsolicited > 0;
                self.leaving_ns += departure.left.ns_since(departure.passed);
                self.enter(departure.passed, self.phase);
                self.since = self.since.max(departure.left);
            }
            MarkKind::BurstBegins => {
                self.pending_r2ts = self.pending_r2ts.saturating_sub(1);
                self.sending = true;
            }
            MarkKind::BurstEnded(bytes) => {
                self.sent = self.sent.saturating_add(bytes);
                self.sending = false;
            }
        }
        self.update_phase(departure.left);
    }

    /// Records that an R2T was received.
    pub(super) fn receive_r2t(&mut self, now: Time) {
        self.pending_r2ts += 1;
        self.r2ts += 1;
        self.update_phase(now);
    }

    /// Records that data is being received.
    #[inline]
    pub(super) fn receive_data(&mut self, now: Time) {
        if self.phase != Phase::Transfer {
            self.enter(now, Phase::Transfer);
        }
    }

    /// Records that all data was received.
    pub(super) fn end_data(&mut self, now: Time) {
        self.enter(now, Phase::Response);
    }

    /// Records the end of the command.
    #[inline]
    pub(super) fn end(&mut self, now: Time) {
        self.enter(now, self.phase);
    }

    /// Returns the start of the current phase; of a command that ended, its end.
    #[inline]
    pub(super) fn since(&self) -> Time {
        self.since
    }

    /// Returns the time spent in each phase until the command ended.
    #[inline]
    pub(super) fn phases(&self) -> Phases {
        let [
            waiting_ns,
            target_wait_ns,
            r2t_pending_ns,
            transfer_ns,
            response_ns,
        ] = self.spent_ns;
        Phases {
            waiting_ns,
            target_wait_ns,
            r2t_pending_ns,
            transfer_ns,
            response_ns,
            leaving_ns: self.leaving_ns,
            r2ts: self.r2ts,
        }
    }

    /// Enters the phase that follows from the state of the transfer.
    fn update_phase(&mut self, now: Time) {
        let phase = if self.sending {
            Phase::Transfer
        } else if self.pending_r2ts > 0 {
            Phase::R2tPending
        } else if self.length > 0 && self.sent >= self.length {
            Phase::Response
        } else {
            Phase::TargetWait
        };
        self.enter(now, phase);
    }

    #[inline]
    fn enter(&mut self, now: Time, phase: Phase) {
        self.spent_ns[self.phase as usize] += now.ns_since(self.since);
        self.since = self.since.max(now);
        self.phase = phase;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_until_a_command_leaves_belongs_to_no_phase() {
        let mut clock = Clock::new(Time(100), 0);
        let departure = Departure {
            passed: Time(110),
            left: Time(115),
        };
        clock.pass(departure, Mark::command(Itt(1)));
        clock.receive_data(Time(140));
        clock.end(Time(150));
        let phases = Phases {
            waiting_ns: 10,
            target_wait_ns: 25,
            transfer_ns: 10,
            leaving_ns: 5,
            ..Phases::default()
        };
        assert_eq!(clock.phases(), phases);
    }
}
