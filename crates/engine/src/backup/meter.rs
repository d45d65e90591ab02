//! Counters and histograms of all jobs, as the contract defines them.
use std::collections::BTreeMap;

use hakaru_backup::{Counters, Job};
use hakaru_contract::NamedHistogram;
use hakaru_contract::backup::Compression;
use hakaru_stats::Histogram;
use hakaru_units::Time;

use super::jobs::Jobs;
use crate::control::Control;

/// Entity of all jobs together.
const ALL: &str = "backups";

/// Samples the jobs and keeps the totals of the measuring phase.
#[derive(Default)]
pub struct Meter {
    measuring: bool,
    begin: Time,
    end: Time,
}

impl Meter {
    /// Begins the measuring phase, after the sample of this instant.
    pub fn begin(&mut self, now: Time) {
        self.measuring = true;
        (self.begin, self.end) = (now, now);
    }

    /// Ends the measuring phase, after the sample of this instant.
    pub fn end(&mut self, now: Time) {
        if self.measuring {
            self.end = now;
        }
        self.measuring = false;
    }

    /// Takes and sends a sample: the sums, each job and its connections, and the histograms of the
    /// interval.
    pub fn sample(&mut self, at: Time, jobs: &mut Jobs<'_>, control: &Control) {
        let mut counters = BTreeMap::new();
        let mut sum = Counters::default();
        for job in jobs.jobs() {
            let of_job = job.counters();
            sum.add(&of_job);
            counters.insert(format!("backup/{}", job.config().name), named(&of_job));
        }
        counters.insert(ALL.to_owned(), named(&sum));
        jobs.visit_tcp(&mut |entity, of_side| {
            counters.insert(entity, of_side);
        });
        if self.measuring {
            self.end = at;
        }
        let latencies = jobs.latencies();
        let read = latencies
            .read
            .take_interval(self.measuring, Histogram::clone);
        let write = latencies
            .write
            .take_interval(self.measuring, Histogram::clone);
        control.sample_later(at, move || (counters.clone(), encode(&read, &write)));
    }

    /// Sends the results of the jobs, complete or not.
    pub fn result(&self, jobs: &mut Jobs<'_>, control: &Control) {
        let mut values = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            *values.entry(name.to_owned()).or_insert(0.0) += value;
        };
        put("measured_ns", self.end.ns_since(self.begin) as f64);
        put("jobs_done", 0.0);
        for job in jobs.jobs() {
            visit_job(job, &mut put);
        }
        let seconds = |job: &Job| job.copy_duration().map(|duration| duration.as_secs_f64());
        let done: Vec<f64> = jobs
            .jobs()
            .filter(|job| job.is_done())
            .filter_map(seconds)
            .collect();
        if let Some(first) = done.iter().copied().reduce(f64::min) {
            values.insert("first_done_s".to_owned(), first);
        }
        if done.len() == jobs.jobs().count()
            && let Some(last) = done.iter().copied().reduce(f64::max)
        {
            values.insert("last_done_s".to_owned(), last);
        }
        let latencies = jobs.latencies();
        let histograms = encode(latencies.read.total(), latencies.write.total());
        control.result(self.end, values, histograms);
    }
}

/// Visits the values of one job. Names without `/` are summed over the jobs.
fn visit_job(job: &Job, put: &mut dyn FnMut(&str, f64)) {
    let (config, counters) = (job.config(), job.counters());
    let name = &config.name;
    let packed = config.compression != Compression::None;
    let bytes = if packed {
        counters.read_bytes
    } else {
        counters.written_bytes
    };
    put("jobs_done", counters.done_now as f64);
    put("bytes", bytes as f64);
    put(&format!("bytes/{name}"), bytes as f64);
    if packed {
        put(
            &format!("written_bytes/{name}"),
            counters.written_bytes as f64,
        );
    }
    if let Some(duration) = job.copy_duration() {
        put(&format!("seconds/{name}"), duration.as_secs_f64());
    }
    if config.verify {
        put("verified_bytes", counters.verified_bytes as f64);
        put("mismatches", counters.mismatches as f64);
    }
}

fn named(counters: &Counters) -> BTreeMap<String, f64> {
    let mut map = BTreeMap::new();
    counters.visit(&mut |name, value| {
        map.insert(name.to_owned(), value);
    });
    map
}

fn encode(read: &Histogram, write: &Histogram) -> Vec<NamedHistogram> {
    [("read_latency_ns", read), ("write_latency_ns", write)]
        .map(|(name, histogram)| NamedHistogram {
            entity: ALL.to_owned(),
            name: name.to_owned(),
            hdr: histogram.encode(),
        })
        .into()
}
