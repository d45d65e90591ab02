//! What one connection's PDUs and commands add up to.
use std::collections::BTreeMap;

use hakaru_stats::Histogram;

use crate::Sender;
use crate::command::{Command, Kind};
use crate::report::{CommandReport, PhaseReport, Spread};

/// Reads or writes that ended and of which nothing was missed.
#[derive(Debug, Default)]
pub(crate) struct Timed {
    pub(crate) commands: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
    pub(crate) r2ts: u64,
    pub(crate) r2ts_max: u32,
    pub(crate) latency_ns: u64,
    pub(crate) phases_ns: [u64; 4],
    histograms: Option<Box<[Histogram; 5]>>,
}

impl Timed {
    fn add(&mut self, command: &Command, latency_ns: u64, status: u8) {
        debug_assert_eq!(command.phases.iter().sum::<u64>(), latency_ns);
        self.commands += 1;
        self.failed += u64::from(status != 0);
        self.bytes += command.moved;
        self.r2ts += u64::from(command.r2ts);
        self.r2ts_max = self.r2ts_max.max(command.r2ts);
        self.latency_ns = self.latency_ns.saturating_add(latency_ns);
        let histograms = self.histograms.get_or_insert_default();
        histograms[4].record_ns(latency_ns);
        for (phase, &ns) in command.phases.iter().enumerate() {
            self.phases_ns[phase] = self.phases_ns[phase].saturating_add(ns);
            histograms[phase].record_ns(ns);
        }
    }

    fn report(&self, names: [Option<&'static str>; 4], turn: &Histogram) -> CommandReport {
        let histograms = self.histograms.as_deref();
        let spread = |at: usize| Spread::of(histograms.map(|all| &all[at]));
        let phases = names.into_iter().enumerate().filter_map(|(at, name)| {
            let phase = PhaseReport {
                sum_ns: self.phases_ns[at],
                spread: spread(at),
            };
            Some((name?.to_owned(), phase))
        });
        CommandReport {
            commands: self.commands,
            failed: self.failed,
            bytes: self.bytes,
            latency_sum_ns: self.latency_ns,
            latency: spread(4),
            phases: phases.collect(),
            r2ts: self.r2ts,
            r2ts_per_command_max: self.r2ts_max,
            r2t_wait: Spread::of(Some(turn)),
        }
    }
}

/// One connection's sums.
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
    pub(crate) reads: Timed,
    pub(crate) writes: Timed,
    pub(crate) others: Timed,
    turn: Option<Box<Histogram>>,
}

impl Tally {
    pub(crate) fn count_pdu(&mut self, sender: Sender, opcode: u8) {
        *self.pdus.entry((sender as u8, opcode)).or_default() += 1;
    }

    /// PDUs whose headers were seen.
    pub(crate) fn pdus(&self) -> u64 {
        self.pdus.values().sum()
    }

    /// By sender and opcode.
    pub(crate) fn pdus_by_opcode(&self) -> impl Iterator<Item = (u8, u8, u64)> {
        self.pdus
            .iter()
            .map(|(&(sender, opcode), &count)| (sender, opcode, count))
    }

    /// An R2T came this long after nothing could be sent any more.
    pub(crate) fn turn(&mut self, waited_ns: u64) {
        self.turn.get_or_insert_default().record_ns(waited_ns);
    }

    pub(crate) fn end_command(&mut self, command: &Command, latency_ns: u64, status: u8) {
        if !command.whole {
            self.commands_not_whole += 1;
            return;
        }
        match command.kind {
            Kind::Read => self.reads.add(command, latency_ns, status),
            Kind::Write => self.writes.add(command, latency_ns, status),
            Kind::Other => self.others.add(command, latency_ns, status),
        }
    }

    pub(crate) fn report_reads(&self) -> CommandReport {
        let names = [
            None,
            Some("command_to_data"),
            Some("data_transfer"),
            Some("data_to_response"),
        ];
        self.reads.report(names, &Histogram::new())
    }

    pub(crate) fn report_writes(&self) -> CommandReport {
        let names = [
            Some("wait_r2t"),
            Some("r2t_to_data"),
            Some("data_transfer"),
            Some("data_to_response"),
        ];
        let turn = self.turn.as_deref().cloned().unwrap_or_default();
        self.writes.report(names, &turn)
    }

    pub(crate) fn report_others(&self) -> CommandReport {
        self.others.report([None; 4], &Histogram::new())
    }
}
