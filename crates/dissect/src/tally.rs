//! Sums over the PDUs and commands of one connection.
use std::collections::BTreeMap;

use hakaru_stats::Histogram;

use crate::Sender;
use crate::command::{Command, Kind};
use crate::report::{
    CommandReport, LunReport, PhaseReport, Phases, SlowCommand, Spread, StatusReport,
};

/// Maximum number of logical units, and of statuses, counted individually per connection; further
/// ones are omitted.
const GROUPS_MAX: usize = 256;
const READ_PHASES: [Option<&str>; 4] = [
    None,
    Some("command_to_data"),
    Some("data_transfer"),
    Some("data_to_response"),
];
const WRITE_PHASES: [Option<&str>; 4] = [
    Some("wait_r2t"),
    Some("r2t_to_data"),
    Some("data_transfer"),
    Some("data_to_response"),
];

/// Maximum number of durations kept in a list. Beyond it they move to a histogram, whose memory
/// does not grow with their number. A connection has about twenty kinds of durations. A capture has
/// up to a thousand connections, most of them with few commands.
const LISTED_MAX: usize = 512;

/// Sum and distribution of durations.
#[derive(Debug, Default)]
struct Durations {
    sum_ns: u64,
    max_ns: u64,
    /// Unsorted durations; empty once `histogram` exists.
    listed: Vec<u64>,
    histogram: Option<CountedDurations>,
}

/// Durations in a histogram, which keeps three significant digits.
#[derive(Debug, Default)]
struct CountedDurations {
    histogram: Histogram,
    /// Number of durations of 0, which the histogram counts as 1 ns.
    zeros: u64,
}

impl CountedDurations {
    fn add(&mut self, ns: u64) {
        self.histogram.record_ns(ns);
        self.zeros += u64::from(ns == 0);
    }

    fn quantile_ns(&self, share: f64) -> u64 {
        let rank = (self.histogram.count() as f64 * share).ceil() as u64;
        if rank <= self.zeros {
            0
        } else {
            self.histogram.quantile_ns(share)
        }
    }
}

impl Durations {
    fn add(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        if let Some(counted) = &mut self.histogram {
            counted.add(ns);
        } else if self.listed.len() < LISTED_MAX {
            self.listed.push(ns);
        } else {
            let counted = self.histogram.get_or_insert_default();
            counted.add(ns);
            std::mem::take(&mut self.listed)
                .into_iter()
                .for_each(|ns| counted.add(ns));
        }
    }

    fn spread(&self) -> Spread {
        let count = match &self.histogram {
            Some(counted) => counted.histogram.count(),
            None => self.listed.len() as u64,
        };
        let mut sorted = self.listed.clone();
        sorted.sort_unstable();
        let quantile = |share: f64| match &self.histogram {
            Some(counted) => counted.quantile_ns(share).min(self.max_ns),
            None => {
                let rank = (sorted.len() as f64 * share).ceil() as usize;
                sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
            }
        };
        Spread {
            count,
            mean_ns: self.sum_ns.checked_div(count).unwrap_or(0),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            max_ns: self.max_ns,
        }
    }
}

/// Commands of one kind that ended and were captured completely.
#[derive(Debug, Default)]
struct Timed {
    commands: u64,
    failed: u64,
    bytes: u64,
    r2ts: u64,
    r2ts_max: u32,
    latency: Durations,
    phases: [Durations; 4],
    r2t_waits: Durations,
}

impl Timed {
    fn add(&mut self, command: &Command) {
        self.commands += 1;
        self.failed += u64::from(command.status != 0);
        self.bytes += command.moved;
        self.r2ts += u64::from(command.r2ts);
        self.r2ts_max = self.r2ts_max.max(command.r2ts);
        self.latency.add(command.latency_ns());
        for (phase, &ns) in self.phases.iter_mut().zip(&command.phases) {
            phase.add(ns);
        }
        for &ns in &command.r2t_waits {
            self.r2t_waits.add(ns);
        }
    }

    fn report(&self, names: [Option<&'static str>; 4]) -> CommandReport {
        let phases = names
            .into_iter()
            .zip(&self.phases)
            .filter_map(|(name, phase)| {
                let report = PhaseReport {
                    sum_ns: phase.sum_ns,
                    spread: phase.spread(),
                };
                Some((name?, report))
            });
        CommandReport {
            commands: self.commands,
            failed: self.failed,
            bytes: self.bytes,
            latency_sum_ns: self.latency.sum_ns,
            latency: self.latency.spread(),
            phases: Phases(phases.collect()),
            r2ts: self.r2ts,
            r2ts_per_command_max: self.r2ts_max,
            r2t_wait: self.r2t_waits.spread(),
        }
    }
}

/// Sums over one connection.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pdus: BTreeMap<(u8, u8), u64>,
    pub(crate) assumed_pdus: u64,
    pub(crate) malformed_pdus: u64,
    pub(crate) pdus_without_command: u64,
    pub(crate) commands: u64,
    pub(crate) commands_not_followed: u64,
    pub(crate) commands_without_response: u64,
    pub(crate) commands_unfinished: u64,
    pub(crate) commands_not_whole: u64,
    /// Commands that ended in the newest packet. The next packet may prove the time of that packet
    /// wrong.
    fresh: Vec<Command>,
    slowest_max: usize,
    slowest: Vec<SlowCommand>,
    reads: Box<Timed>,
    writes: Box<Timed>,
    others: Box<Timed>,
    luns: BTreeMap<u64, (u64, u64, Durations)>,
    statuses: BTreeMap<(u8, Option<[u8; 3]>), u64>,
}

impl Tally {
    /// Creates empty sums. `slowest_max`: maximum number of slowest commands reported individually.
    pub(crate) fn new(slowest_max: usize) -> Tally {
        Tally {
            slowest_max,
            ..Tally::default()
        }
    }

    pub(crate) fn count_pdu(&mut self, sender: Sender, opcode: u8) {
        *self.pdus.entry((sender as u8, opcode)).or_default() += 1;
    }

    /// Returns the number of PDUs whose headers were seen.
    pub(crate) fn pdus(&self) -> u64 {
        self.pdus.values().sum()
    }

    /// Returns sender, opcode and number of PDUs, in this order.
    pub(crate) fn pdus_by_opcode(&self) -> impl Iterator<Item = (u8, u8, u64)> {
        self.pdus
            .iter()
            .map(|(&(sender, opcode), &count)| (sender, opcode, count))
    }

    /// Counts a command that ended. Its times count once the next packet has confirmed them.
    pub(crate) fn end_command(&mut self, command: Command) {
        self.settle(command.last.packet);
        self.fresh.push(command);
    }

    /// Counts the status of a command, with its sense key, ASC and ASCQ, if present.
    pub(crate) fn count_status(&mut self, status: u8, sense: Option<[u8; 3]>) {
        if self.statuses.len() < GROUPS_MAX || self.statuses.contains_key(&(status, sense)) {
            *self.statuses.entry((status, sense)).or_default() += 1;
        }
    }

    /// Marks the time of packet `packet`, the newest so far, as wrong.
    pub(crate) fn distrust(&mut self, packet: u64) {
        for command in &mut self.fresh {
            command.whole &= command.last.packet != packet;
        }
    }

    /// Adds the commands that ended before packet `packet`.
    pub(crate) fn settle(&mut self, packet: u64) {
        for command in std::mem::take(&mut self.fresh) {
            if command.last.packet < packet {
                self.add(&command);
            } else {
                self.fresh.push(command);
            }
        }
    }

    fn add(&mut self, command: &Command) {
        if !command.whole {
            self.commands_not_whole += 1;
            return;
        }
        match command.kind {
            Kind::Read => self.reads.add(command),
            Kind::Write => self.writes.add(command),
            Kind::Other => self.others.add(command),
        }
        if self.luns.len() < GROUPS_MAX || self.luns.contains_key(&command.lun.0) {
            let (failed, bytes, latency) = self.luns.entry(command.lun.0).or_default();
            *failed += u64::from(command.status != 0);
            *bytes += command.moved;
            latency.add(command.latency_ns());
        }
        self.note_slow(command);
    }

    fn note_slow(&mut self, command: &Command) {
        self.slowest.push(slow_command(command));
        if self.slowest.len() > 2 * self.slowest_max {
            self.sort_slowest();
        }
    }

    fn sort_slowest(&mut self) {
        self.slowest
            .sort_by_key(|command| (std::cmp::Reverse(command.latency_ns), command.first_packet));
        self.slowest.truncate(self.slowest_max);
    }

    /// Handles the end of the capture.
    pub(crate) fn finish(&mut self) {
        self.settle(u64::MAX);
        self.sort_slowest();
    }

    pub(crate) fn report_reads(&self) -> CommandReport {
        self.reads.report(READ_PHASES)
    }

    pub(crate) fn report_writes(&self) -> CommandReport {
        self.writes.report(WRITE_PHASES)
    }

    pub(crate) fn report_others(&self) -> CommandReport {
        self.others.report([None; 4])
    }

    pub(crate) fn report_slowest(&self) -> Vec<SlowCommand> {
        self.slowest.clone()
    }

    pub(crate) fn report_luns(&self) -> Vec<LunReport> {
        let report = |(&lun, (failed, bytes, latency)): (&u64, &(u64, u64, Durations))| LunReport {
            lun: lun_name(lun),
            failed: *failed,
            bytes: *bytes,
            latency: latency.spread(),
        };
        self.luns.iter().map(report).collect()
    }

    pub(crate) fn report_statuses(&self) -> Vec<StatusReport> {
        let report = |(&(status, sense), &commands): (&(u8, Option<[u8; 3]>), &u64)| StatusReport {
            status,
            sense,
            commands,
        };
        self.statuses.iter().map(report).collect()
    }
}

/// Formats a LUN: as a number if it has the form of a number below 16384 (SAM-5 section 4.7),
/// otherwise as all of its 64 bits.
fn lun_name(lun: u64) -> String {
    match (lun >> 62, lun & 0x0000_ffff_ffff_ffff) {
        (0 | 1, 0) => ((lun >> 48) & 0x3fff).to_string(),
        _ => format!("{lun:#018x}"),
    }
}

fn slow_command(command: &Command) -> SlowCommand {
    let (kind, names) = match command.kind {
        Kind::Read => ("read", READ_PHASES),
        Kind::Write => ("write", WRITE_PHASES),
        Kind::Other => ("other", [None; 4]),
    };
    let phases = names.into_iter().zip(command.phases);
    SlowCommand {
        kind,
        operation: command.operation,
        lun: lun_name(command.lun.0),
        itt: command.itt.0,
        status: command.status,
        bytes: command.moved,
        r2ts: command.r2ts,
        latency_ns: command.latency_ns(),
        phases: Phases(phases.filter_map(|(name, ns)| Some((name?, ns))).collect()),
        begin_ns: command.start.at.0,
        first_packet: command.start.packet,
        last_packet: command.last.packet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_before_and_after_durations_move_to_a_histogram() {
        let mut durations = Durations::default();
        let values = (0..LISTED_MAX as u64).map(|n| n * 7919 % 512 * 1000);
        values.for_each(|ns| durations.add(ns));
        let listed = durations.spread();
        assert_eq!(durations.histogram.as_ref().map(|_| ()), None);
        assert_eq!(listed.count, LISTED_MAX as u64);
        assert_eq!((listed.p50_ns, listed.p99_ns), (255_000, 506_000));
        durations.add(255_000);
        let counted = durations.spread();
        assert!(durations.listed.is_empty() && durations.histogram.is_some());
        assert_eq!((counted.count, counted.max_ns), (listed.count + 1, 511_000));
        assert!(counted.p50_ns.abs_diff(listed.p50_ns) < 256);
        assert!(counted.p99_ns.abs_diff(listed.p99_ns) < 512);
        assert_eq!(counted.mean_ns, (listed.mean_ns * 512 + 255_000) / 513);
    }

    #[test]
    fn half_of_the_durations_being_zero_is_reported_as_zero() {
        for count in [10, 4 * LISTED_MAX as u64] {
            let mut durations = Durations::default();
            (0..count).for_each(|n| durations.add(n % 2));
            assert_eq!(
                (durations.spread().p50_ns, durations.spread().p99_ns),
                (0, 1)
            );
        }
    }
}
