//! The dies of a flash drive and the channels that lead to them.
use std::collections::VecDeque;

use hakaru_units::Time;

use super::line::Line;
use hakaru_contract::drive::Ssd;

/// Number of reads that a die serves in a row while other work waits.
const READS_IN_A_ROW: u32 = 8;

/// Work of a die.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// Reads a page into the register; `outward`: it is then transferred to the host.
    Read {
        command: usize,
        bytes: u32,
        outward: bool,
    },
    /// Programs a page of all planes, from the buffer or from a command that waits for it.
    Program { command: Option<usize> },
    /// Garbage collection: `reads` pages are read to fill one page, transferred for the check and
    /// back, and that page is programmed. The transfer costs the die time, but does not occupy the
    /// channel.
    Move { reads: f64 },
    /// Erases a block of all planes.
    Erase,
}

#[derive(Clone, Debug, Default)]
struct Die {
    reads: VecDeque<Work>,
    others: VecDeque<Work>,
    reads_in_a_row: u32,
    now: Option<(Work, Time)>,
}

/// All dies, numbered so that neighbours are on different channels.
#[derive(Clone, Debug)]
pub(super) struct Dies {
    dies: Vec<Die>,
    channels: Vec<Line>,
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    channel_ns_per_byte: f64,
    page_bytes: u64,
    /// Time that all dies spent on work that has started.
    busy_ns: u64,
    /// Part of that time spent on garbage collection.
    pub(super) gc_ns: u64,
}

impl Dies {
    pub(super) fn new(ssd: &Ssd) -> Dies {
        Dies {
            dies: vec![Die::default(); (ssd.channels * ssd.dies_per_channel) as usize],
            channels: vec![Line::default(); ssd.channels as usize],
            read_ns: (ssd.read_us * 1e3) as u64,
            program_ns: (ssd.program_us * 1e3) as u64,
            erase_ns: (ssd.erase_us * 1e3) as u64,
            channel_ns_per_byte: 1e9 / ssd.channel_bytes_per_s,
            page_bytes: u64::from(ssd.page_bytes) * u64::from(ssd.planes),
            busy_ns: 0,
            gc_ns: 0,
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.dies.len() as u32
    }

    /// Submits work to a die. Returns its end if it can start at once.
    pub(super) fn submit(&mut self, now: Time, die: u32, work: Work) -> Option<Time> {
        let state = &mut self.dies[die as usize];
        match work {
            Work::Read { .. } => state.reads.push_back(work),
            _ => state.others.push_back(work),
        }
        match state.now {
            Some(_) => None,
            None => self.start_next(now, die),
        }
    }

    /// Ends a die's work at its instant. Returns it, and the end of the next queued work.
    pub(super) fn end(&mut self, now: Time, die: u32) -> (Work, Option<Time>) {
        let (work, ends) = self.dies[die as usize]
            .now
            .take()
            .expect("an end follows a start");
        debug_assert_eq!(ends, now);
        (work, self.start_next(now, die))
    }

    /// Sends bytes over a die's channel. Returns the end of the transfer.
    pub(super) fn transfer(&mut self, now: Time, die: u32, bytes: u64) -> Time {
        let ns = (bytes as f64 * self.channel_ns_per_byte) as u64;
        let channel = die as usize % self.channels.len();
        self.channels[channel].serve(now, ns)
    }

    /// Returns the mean busy time of the dies until `now`, or of the channels if that is longer.
    pub(super) fn busy_until(&self, now: Time) -> u64 {
        let ahead = |(_, ends): &(Work, Time)| ends.ns_since(now);
        let ahead: u64 = self
            .dies
            .iter()
            .filter_map(|d| d.now.as_ref())
            .map(ahead)
            .sum();
        let dies = (self.busy_ns - ahead) / self.dies.len() as u64;
        let channels: u64 = self.channels.iter().map(|c| c.busy_until(now)).sum();
        dies.max(channels / self.channels.len() as u64)
    }

    fn start_next(&mut self, now: Time, die: u32) -> Option<Time> {
        let state = &mut self.dies[die as usize];
        let must_serve_others = state.reads_in_a_row >= READS_IN_A_ROW && !state.others.is_empty();
        let work = if must_serve_others || state.reads.is_empty() {
            state.reads_in_a_row = 0;
            state.others.pop_front()?
        } else {
            state.reads_in_a_row += 1;
            state.reads.pop_front()?
        };
        let ends = match work {
            Work::Read { .. } => Time(now.0 + self.read_ns),
            Work::Program { .. } => {
                Time(self.transfer(now, die, self.page_bytes).0 + self.program_ns)
            }
            Work::Move { reads } => {
                let read_ns = (self.read_ns as f64 * reads) as u64;
                let across_ns = (2.0 * self.page_bytes as f64 * self.channel_ns_per_byte) as u64;
                Time(now.0 + read_ns + across_ns + self.program_ns)
            }
            Work::Erase => Time(now.0 + self.erase_ns),
        };
        let service_ns = ends.ns_since(now);
        self.busy_ns += service_ns;
        if matches!(work, Work::Move { .. } | Work::Erase) {
            self.gc_ns += service_ns;
        }
        self.dies[die as usize].now = Some((work, ends));
        Some(ends)
    }
}
