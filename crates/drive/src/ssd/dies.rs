//! The dies of a flash drive and the channels that connect them.
use std::collections::VecDeque;

use hakaru_units::Time;

use super::line::Line;
use hakaru_contract::drive::Ssd;

/// Maximum number of consecutive reads that a die serves while other work waits.
const CONSECUTIVE_READS_MAX: u32 = 8;

/// Work of a die.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// Reads a page into the die's register. If `outward`, `bytes` of it are then transferred to
    /// the host.
    Read {
        command: usize,
        bytes: u32,
        outward: bool,
    },
    /// Programs a page of all planes, from the buffer or from `command`, which waits for it.
    Program { command: Option<usize> },
    /// Collects garbage: reads `reads` pages to fill one page, transfers that page to the
    /// controller for error correction and back, and programs it. The transfers take the die's
    /// time, but do not occupy the channel.
    Move { reads: f64 },
    /// Erases a block of all planes.
    Erase,
}

#[derive(Clone, Debug, Default)]
struct Die {
    reads: VecDeque<Work>,
    others: VecDeque<Work>,
    consecutive_reads: u32,
    /// Work in service, and its end.
    in_service: Option<(Work, Time)>,
}

/// All dies. Dies with consecutive numbers are on different channels.
#[derive(Clone, Debug)]
pub(super) struct Dies {
    dies: Vec<Die>,
    channels: Vec<Line>,
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    channel_ns_per_byte: f64,
    page_bytes: u64,
    /// Sum over all dies of the time of work that has started, including its rest.
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

    /// Submits work to a die. Returns its end if it starts at once.
    pub(super) fn submit(&mut self, now: Time, die: u32, work: Work) -> Option<Time> {
        let state = &mut self.dies[die as usize];
        match work {
            Work::Read { .. } => state.reads.push_back(work),
            _ => state.others.push_back(work),
        }
        match state.in_service {
            Some(_) => None,
            None => self.start_next(now, die),
        }
    }

    /// Ends a die's work. Returns it, and the end of the next work if any is queued. Must be called
    /// exactly at the end.
    pub(super) fn end(&mut self, now: Time, die: u32) -> (Work, Option<Time>) {
        let (work, ends) = self.dies[die as usize]
            .in_service
            .take()
            .expect("only work in service ends");
        debug_assert_eq!(ends, now);
        (work, self.start_next(now, die))
    }

    /// Queues a transfer over a die's channel. Returns its end.
    pub(super) fn transfer(&mut self, now: Time, die: u32, bytes: u64) -> Time {
        let ns = (bytes as f64 * self.channel_ns_per_byte) as u64;
        let channel = die as usize % self.channels.len();
        self.channels[channel].serve(now, ns)
    }

    /// Returns the mean busy time of the dies until `now`, ns.
    pub(super) fn busy_until(&self, now: Time) -> u64 {
        let ahead = |(_, ends): &(Work, Time)| ends.ns_since(now);
        let ahead: u64 = self
            .dies
            .iter()
            .filter_map(|d| d.in_service.as_ref())
            .map(ahead)
            .sum();
        (self.busy_ns - ahead) / self.dies.len() as u64
    }

    /// Returns the mean busy time of the channels until `now`, ns.
    pub(super) fn channels_busy_until(&self, now: Time) -> u64 {
        let busy: u64 = self.channels.iter().map(|c| c.busy_until(now)).sum();
        busy / self.channels.len() as u64
    }

    fn start_next(&mut self, now: Time, die: u32) -> Option<Time> {
        let state = &mut self.dies[die as usize];
        let must_serve_others =
            state.consecutive_reads >= CONSECUTIVE_READS_MAX && !state.others.is_empty();
        let work = if must_serve_others || state.reads.is_empty() {
            state.consecutive_reads = 0;
            state.others.pop_front()?
        } else {
            state.consecutive_reads += 1;
            state.reads.pop_front()?
        };
        let ends = match work {
            Work::Read { .. } => Time(now.0 + self.read_ns),
            Work::Program { .. } => {
                Time(self.transfer(now, die, self.page_bytes).0 + self.program_ns)
            }
            Work::Move { reads } => {
                let read_ns = (self.read_ns as f64 * reads) as u64;
                let transfers_ns = (2.0 * self.page_bytes as f64 * self.channel_ns_per_byte) as u64;
                Time(now.0 + read_ns + transfers_ns + self.program_ns)
            }
            Work::Erase => Time(now.0 + self.erase_ns),
        };
        let service_ns = ends.ns_since(now);
        self.busy_ns += service_ns;
        if matches!(work, Work::Move { .. } | Work::Erase) {
            self.gc_ns += service_ns;
        }
        self.dies[die as usize].in_service = Some((work, ends));
        Some(ends)
    }
}
