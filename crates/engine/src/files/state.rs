//! Counters and histograms that the tools of a load share, and the samples of them.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hakaru_contract::NamedHistogram;
use hakaru_files::{Measured, Meter};
use hakaru_stats::Histogram;
use hakaru_units::Time;

use super::crew::Shared;
use super::task::Progress;
use super::trees;
use crate::control::{Control, Counters};

/// Entity of all tools together.
const ENTITY: &str = "files";

/// State that tools share with the main thread.
#[derive(Default)]
pub struct State {
    meter: Mutex<Meter>,
    /// Number of failures, of which the first ones are reported.
    pub reported: AtomicU64,
    /// Whether a tool left a file shorter than described.
    pub has_cut: AtomicBool,
}

impl State {
    /// Locks the meter. A panic of a thread that held it ended the process.
    pub fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters. `tools` is the number of running tools.
    pub fn counters(&self, tools: u32) -> BTreeMap<String, f64> {
        let mut named = BTreeMap::from([("tools_now".to_owned(), f64::from(tools))]);
        self.meter().visit(&mut |name, value| {
            named.insert(name.to_owned(), value as f64);
        });
        named
    }

    /// Ends the interval of all histograms, and returns those with values.
    fn take_intervals(&self, measured: bool) -> Vec<(Measured, Histogram)> {
        let mut meter = self.meter();
        let mut taken = Vec::new();
        for of in Measured::ALL {
            let histogram = meter.latency(of).take_interval(measured, Histogram::clone);
            if !histogram.is_empty() {
                taken.push((of, histogram));
            }
        }
        taken
    }
}

/// Sends the counters of tools and builders, and the times since the last sample.
pub fn send_sample(
    at: Time,
    state: &State,
    progress: &Progress,
    shared: &Shared,
    measured: bool,
    control: &Control,
) {
    let counters = Counters::from([
        (ENTITY.to_owned(), state.counters(shared.running())),
        (trees::ENTITY.to_owned(), progress.counters()),
    ]);
    let intervals = state.take_intervals(measured);
    control.sample_later(at, move || {
        let encoded = intervals
            .iter()
            .map(|(of, histogram)| named(*of, histogram));
        (counters.clone(), encoded.collect())
    });
}

/// Returns a histogram in the form of the contract.
pub fn named(of: Measured, histogram: &Histogram) -> NamedHistogram {
    NamedHistogram {
        entity: ENTITY.to_owned(),
        name: of.histogram().to_owned(),
        hdr: histogram.encode(),
    }
}
