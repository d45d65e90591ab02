//! Where a command is, and how long it has been there: every instant from its submission to its end
//! belongs to one phase.
//!
//! ```text
//!            out                R2T here            its data begins          its data is out       all data is out      status
//!   waiting ────→ turn ────────────────→ asked ────────────────→ transfer ──────────────→ turn …  ────────→ response ────→ end
//!   waiting ────→ turn ───────────── first Data-In ────────────→ transfer ─────────── last data ──────────→ response ────→ end     (reads)
//! ```
//! "Out" is what was handed to the network ([`crate::Transmit::advance`]). Data that goes unasked,
//! with the command or after it, is `transfer` from the command's first byte on. While several
//! bursts are asked for, what is going out says `transfer`, else what is asked for says `asked`.
use hakaru_units::Time;
use hakaru_wire::iscsi::Itt;

/// How long a command was where, nanoseconds. All of them together are the time from its submission
/// to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Submitted, and its first byte not yet out: the command window, what goes out before it,
    /// pauses after BUSY.
    pub waiting_ns: u64,
    /// Of a write: out, or a burst is out, and nothing may be sent until the next R2T. Of a read:
    /// until its first data.
    pub turn_ns: u64,
    /// Of a write: an R2T is here, and the first data of it not yet out.
    pub asked_ns: u64,
    /// Data is going out, or coming in.
    pub transfer_ns: u64,
    /// All data is out, or in, and the status is not here.
    pub response_ns: u64,
    /// R2Ts received.
    pub r2ts: u32,
}

/// A place in what is sent that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(super) itt: Itt,
    passage: Passage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    /// The command's first byte.
    Command,
    /// The first byte of what an R2T has asked for.
    BurstBegins,
    /// The last byte of so much data, asked for or not.
    BurstEnded(u32),
}

impl Mark {
    pub(super) fn command(itt: Itt) -> Mark {
        Mark {
            itt,
            passage: Passage::Command,
        }
    }

    pub(super) fn burst_begins(itt: Itt) -> Mark {
        Mark {
            itt,
            passage: Passage::BurstBegins,
        }
    }

    pub(crate) fn burst_ended(itt: Itt, bytes: u32) -> Mark {
        Mark {
            itt,
            passage: Passage::BurstEnded(bytes),
        }
    }
}

/// Its number is its place in [`Clock::spent_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Turn,
    Asked,
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
    /// R2Ts received.
    r2ts: u32,
    /// Total bytes that the command sends; 0 for a read or a command without data.
    length: u32,
    /// Unsolicited bytes among them.
    unasked: u32,
    /// Bytes of data sent so far.
    out: u32,
    /// Bursts requested by R2Ts that have not begun.
    asked: u32,
    /// Data is going out.
    sending: bool,
}

impl Clock {
    /// Of a command that was just submitted and sends `length` bytes.
    pub(super) fn new(now: Time, length: u32) -> Clock {
        Clock {
            phase: Phase::Waiting,
            since: now,
            spent_ns: [0; 5],
            r2ts: 0,
            length,
            unasked: 0,
            out: 0,
            asked: 0,
            sending: false,
        }
    }

    /// Notes that the command was queued with `unasked` bytes of unsolicited data.
    pub(super) fn queue(&mut self, unasked: u32) {
        self.unasked = unasked;
    }

    /// Resets the accounting because the command is sent again.
    pub(super) fn rewind(&mut self, now: Time) {
        self.enter(now, Phase::Waiting);
        (self.out, self.asked, self.sending) = (0, 0, false);
    }

    /// Notes that the kernel accepted the bytes up to `mark`.
    #[inline]
    pub(super) fn pass(&mut self, at: Time, mark: Mark) {
        match mark.passage {
            Passage::Command => self.sending = self.unasked > 0,
            Passage::BurstBegins => {
                self.asked = self.asked.saturating_sub(1);
                self.sending = true;
            }
            Passage::BurstEnded(bytes) => {
                self.out = self.out.saturating_add(bytes);
                self.sending = false;
            }
        }
        self.settle(at);
    }

    /// An R2T is here.
    pub(super) fn ask(&mut self, now: Time) {
        self.asked += 1;
        self.r2ts += 1;
        self.settle(now);
    }

    /// Data comes in.
    #[inline]
    pub(super) fn receive(&mut self, now: Time) {
        if self.phase != Phase::Transfer {
            self.enter(now, Phase::Transfer);
        }
    }

    /// All data is in.
    pub(super) fn received(&mut self, now: Time) {
        self.enter(now, Phase::Response);
    }

    /// The command has ended.
    #[inline]
    pub(super) fn end(&mut self, now: Time) {
        self.enter(now, self.phase);
    }

    /// How long the command was where, until it ended.
    #[inline]
    pub(super) fn phases(&self) -> Phases {
        let [waiting_ns, turn_ns, asked_ns, transfer_ns, response_ns] = self.spent_ns;
        Phases {
            waiting_ns,
            turn_ns,
            asked_ns,
            transfer_ns,
            response_ns,
            r2ts: self.r2ts,
        }
    }

    fn settle(&mut self, now: Time) {
        let phase = if self.sending {
            Phase::Transfer
        } else if self.asked > 0 {
            Phase::Asked
        } else if self.length > 0 && self.out >= self.length {
            Phase::Response
        } else {
            Phase::Turn
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
