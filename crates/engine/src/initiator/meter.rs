//! Counters and histograms of all VMs, put into the words of the contract.
use std::collections::BTreeMap;

use hakaru_contract::NamedHistogram;
use hakaru_contract::initiator::InitiatorConfig;
use hakaru_initiator::{Counters, Latencies};
use hakaru_units::Time;

use super::files::Files;
use super::phases::Phase;
use super::sessions::Sessions;
use crate::control::Control;

/// VMs that appear one by one in every sample; more appear in the last one only, so that samples stay small.
const VMS_SAMPLED_MAX: usize = 256;
/// Entity of all VMs together.
const ALL: &str = "vms";

/// Takes samples and knows what was measured.
pub struct Meter {
    each: bool,
    phase: Option<Phase>,
    /// Sums at the last sample, which lies on the border where a phase changed.
    now: Counters,
    sampled_at: Time,
    /// Sums and instants where the measuring phase began and ended.
    begin: (Time, Counters),
    end: (Time, Counters),
    total: [NamedHistogram; 2],
}

impl Meter {
    pub fn new(config: &InitiatorConfig) -> Meter {
        let nothing = (Time::ZERO, Counters::default());
        Meter {
            each: config.vms.len() <= VMS_SAMPLED_MAX,
            phase: None,
            now: Counters::default(),
            sampled_at: Time::ZERO,
            begin: nothing,
            end: nothing,
            total: total_of(&Latencies::default()),
        }
    }

    /// A phase begins, on the instant of the sample that was just taken.
    pub fn enter(&mut self, phase: Phase, now: Time) {
        self.phase = Some(phase);
        match phase {
            Phase::Measure => self.begin = (now, self.now),
            Phase::Drain if self.begin.0 > Time::ZERO => self.end = (now, self.now),
            _ => {}
        }
    }

    /// Takes a sample and gives it out: sums, VMs one by one (always in the `last`), the interval's histograms.
    pub fn sample(
        &mut self,
        at: Time,
        last: bool,
        sessions: &mut Sessions<'_>,
        files: &mut Files,
        latencies: &mut Latencies,
        control: &Control,
    ) {
        let mut counters = crate::control::Counters::new();
        let each = self.each || last;
        let mut sum = Counters::default();
        let mut add = |name: &str, of_vm: Counters| {
            sum.add(&of_vm);
            if each {
                counters.insert(format!("vm/{name}"), named(&of_vm));
            }
        };
        sessions.visit_counters(at, &mut add);
        files.visit_counters(at, &mut add);
        counters.insert(ALL.to_owned(), named(&sum));
        let measured = self.phase == Some(Phase::Measure);
        let read = latencies
            .read
            .take_interval(measured, |h| histogram("read_latency_ns", h));
        let write = latencies
            .write
            .take_interval(measured, |h| histogram("write_latency_ns", h));
        self.now = sum;
        self.sampled_at = at;
        if measured {
            self.end = (at, sum);
            self.total = total_of(latencies);
        }
        control.sample(at, counters, vec![read, write]);
    }

    /// Says what the measuring phase came to, as far as it went.
    pub fn result(&self, control: &Control) {
        let measured = self.end.1.since(&self.begin.1);
        let mut values = named(&measured);
        values.insert(
            "measured_ns".to_owned(),
            self.end.0.ns_since(self.begin.0) as f64,
        );
        control.result(self.end.0, values, self.total.to_vec());
    }
}

fn named(counters: &Counters) -> BTreeMap<String, f64> {
    let mut map = BTreeMap::new();
    counters.visit(&mut |name, value| {
        map.insert(name.to_owned(), value);
    });
    map
}

fn total_of(latencies: &Latencies) -> [NamedHistogram; 2] {
    [
        histogram("read_latency_ns", latencies.read.total()),
        histogram("write_latency_ns", latencies.write.total()),
    ]
}

fn histogram(name: &str, histogram: &hakaru_stats::Histogram) -> NamedHistogram {
    NamedHistogram {
        entity: ALL.to_owned(),
        name: name.to_owned(),
        hdr: histogram.encode(),
    }
}
