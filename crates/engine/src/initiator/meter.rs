//! Counters and histograms of all VMs, as the contract defines them.
use std::collections::{BTreeMap, HashMap};

use hakaru_contract::NamedHistogram;
use hakaru_contract::initiator::{InitiatorConfig, Vm};
use hakaru_load::Counters;
use hakaru_stats::{Histogram, Latencies, Latency};
use hakaru_units::Time;

use super::files::Files;
use super::phases::Phase;
use super::sessions::Sessions;
use crate::control::Control;

/// Maximum number of VMs that appear individually in every sample. With more VMs, each appears in
/// the last sample only, to keep samples small.
const VMS_SAMPLED_MAX: usize = 256;
/// Entity of all VMs together.
const ALL: &str = "vms";

/// Samples the VMs and keeps the totals of the measuring phase.
pub struct Meter {
    /// Names of the entities of the groups.
    groups: Vec<String>,
    /// Group of each VM that belongs to one, by the name of the VM.
    group_of: HashMap<String, usize>,
    /// Whether each VM appears in every sample.
    samples_vms: bool,
    phase: Option<Phase>,
    /// Sums at the last sample. A sample is taken at every change of phase.
    now: Counters,
    /// Instant and sums at the start of the measuring phase.
    begin: (Time, Counters),
    /// Instant and sums at the end of the measuring phase, or at the last sample so far.
    end: (Time, Counters),
}

impl Meter {
    pub fn new(config: &InitiatorConfig) -> Meter {
        let nothing = (Time::ZERO, Counters::default());
        let of_vm = |vm: &Vm| Some((vm.name.clone(), usize::from(vm.group?)));
        Meter {
            groups: config
                .groups
                .iter()
                .map(|name| format!("{ALL}/{name}"))
                .collect(),
            group_of: config.vms.iter().filter_map(of_vm).collect(),
            samples_vms: config.vms.len() <= VMS_SAMPLED_MAX,
            phase: None,
            now: Counters::default(),
            begin: nothing,
            end: nothing,
        }
    }

    /// Begins a phase at the instant of the sample that was just taken.
    pub fn enter(&mut self, phase: Phase, now: Time) {
        self.phase = Some(phase);
        match phase {
            Phase::Measure => self.begin = (now, self.now),
            Phase::Drain if self.begin.0 > Time::ZERO => self.end = (now, self.now),
            _ => {}
        }
    }

    /// Takes and sends a sample: the sums, each VM (always in the `last` sample), and the
    /// histograms of the interval.
    pub fn sample(
        &mut self,
        at: Time,
        last: bool,
        sessions: &mut Sessions<'_>,
        files: &mut Files,
        latencies: &mut Latencies,
        control: &Control,
    ) {
        let (mut sum, mut each) = (Counters::default(), Vec::new());
        let samples_vms = self.samples_vms || last;
        let mut group_sums = vec![Counters::default(); self.groups.len()];
        let mut add = |name: &str, of_vm: Counters| {
            sum.add(&of_vm);
            if let Some(group) = self.group_of.get(name) {
                group_sums[*group].add(&of_vm);
            }
            if samples_vms {
                each.push((format!("vm/{name}"), of_vm));
            }
        };
        sessions.visit_counters(at, &mut add);
        files.visit_counters(at, &mut add);
        each.push((ALL.to_owned(), sum));
        each.extend(self.groups.iter().cloned().zip(group_sums));
        let mut connections = Vec::new();
        sessions.visit_tcp(&mut |entity, counters| connections.push((entity, counters)));
        if samples_vms {
            let mut add_paths = |entity, counters| connections.push((entity, counters));
            sessions.visit_paths(at, &mut add_paths);
            files.visit_paths(at, &mut add_paths);
        }
        let measured = self.phase == Some(Phase::Measure);
        let take = |latency: &mut Latency| latency.take_interval(measured, Histogram::clone);
        let mut intervals = vec![(
            ALL.to_owned(),
            take(&mut latencies.read),
            take(&mut latencies.write),
        )];
        for (group, entity) in self.groups.iter().enumerate() {
            let latencies = latencies.group_mut(group as u8);
            let (read, write) = (take(&mut latencies.read), take(&mut latencies.write));
            intervals.push((entity.clone(), read, write));
        }
        self.now = sum;
        if measured {
            self.end = (at, sum);
        }
        control.sample_later(at, move || {
            let counters = each
                .iter()
                .map(|(entity, counters)| (entity.clone(), named(counters)))
                .chain(connections.iter().cloned())
                .collect();
            let encoded = intervals
                .iter()
                .flat_map(|(entity, read, write)| encode(entity, read, write));
            (counters, encoded.collect())
        });
    }

    /// Sends the results of the measuring phase, complete or not.
    pub fn result(&self, latencies: &Latencies, control: &Control) {
        let measured = self.end.1.since(&self.begin.1);
        let mut values = named(&measured);
        values.insert(
            "measured_ns".to_owned(),
            self.end.0.ns_since(self.begin.0) as f64,
        );
        // Counted at the end of the phase, after its last sample.
        values.insert("unissued".to_owned(), self.now.unissued as f64);
        let mut histograms = encode(ALL, latencies.read.total(), latencies.write.total());
        for (entity, group) in self.groups.iter().zip(&latencies.groups) {
            histograms.extend(encode(entity, group.read.total(), group.write.total()));
        }
        control.result(self.end.0, values, histograms);
    }
}

fn named(counters: &Counters) -> BTreeMap<String, f64> {
    let mut map = BTreeMap::new();
    counters.visit(&mut |name, value| {
        map.insert(name.to_owned(), value);
    });
    map
}

fn encode(entity: &str, read: &Histogram, write: &Histogram) -> Vec<NamedHistogram> {
    [("read_latency_ns", read), ("write_latency_ns", write)]
        .map(|(name, histogram)| NamedHistogram {
            entity: entity.to_owned(),
            name: name.to_owned(),
            hdr: histogram.encode(),
        })
        .into()
}
