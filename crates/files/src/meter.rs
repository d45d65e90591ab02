//! Counters and histograms of a load.
//!
//! Tools write to a [`Journal`] each, and a shell adds the journals to the only [`Meter`] now and
//! then. A histogram takes 270 KB, too much for one per tool and kind of operation.
use hakaru_stats::Latency;

use crate::operation::{Failed, Measured};

/// Largest number of failures in a journal; further ones are only counted.
const FAILURES_MAX: usize = 16;

/// Events of one tool after the journal was last absorbed.
#[derive(Debug, Default)]
pub struct Journal {
    durations: Vec<(Measured, u64)>,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) verified_bytes: u64,
    pub(crate) mismatches: u64,
    pub(crate) units_done: u64,
    pub(crate) files_failed: u64,
    pub(crate) entries_listed: u64,
    errors: u64,
    failures: Vec<Failed>,
}

impl Journal {
    pub(crate) fn record(&mut self, of: Measured, duration_ns: u64) {
        self.durations.push((of, duration_ns));
    }

    pub(crate) fn fail(&mut self, failure: Failed) {
        self.errors += 1;
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(failure);
        }
    }

    /// Returns the number of durations, by which a shell decides when to absorb the journal.
    #[must_use]
    pub fn len(&self) -> usize {
        self.durations.len()
    }

    /// Returns whether it has no durations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.durations.is_empty()
    }

    /// Removes and returns failures, oldest first.
    pub fn take_failures(&mut self) -> Vec<Failed> {
        std::mem::take(&mut self.failures)
    }
}

/// Sums and histograms of all tools.
#[derive(Debug, Default)]
pub struct Meter {
    counts: [u64; Measured::ALL.len()],
    latencies: [Latency; Measured::ALL.len()],
    read_bytes: u64,
    written_bytes: u64,
    verified_bytes: u64,
    mismatches: u64,
    units_done: u64,
    files_failed: u64,
    entries_listed: u64,
    errors: u64,
}

impl Meter {
    /// Adds a journal, which is empty afterwards.
    pub fn absorb(&mut self, journal: &mut Journal) {
        for (of, duration_ns) in journal.durations.drain(..) {
            self.counts[of as usize] += 1;
            self.latencies[of as usize].record_ns(duration_ns);
        }
        for (sum, part) in [
            (&mut self.read_bytes, &mut journal.read_bytes),
            (&mut self.written_bytes, &mut journal.written_bytes),
            (&mut self.verified_bytes, &mut journal.verified_bytes),
            (&mut self.mismatches, &mut journal.mismatches),
            (&mut self.units_done, &mut journal.units_done),
            (&mut self.files_failed, &mut journal.files_failed),
            (&mut self.entries_listed, &mut journal.entries_listed),
            (&mut self.errors, &mut journal.errors),
        ] {
            *sum += std::mem::take(part);
        }
    }

    /// Visits every counter.
    pub fn visit(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        for of in Measured::ALL {
            visit(of.counter(), self.counts[of as usize]);
        }
        visit("read_bytes", self.read_bytes);
        visit("written_bytes", self.written_bytes);
        visit("verified_bytes", self.verified_bytes);
        visit("mismatches", self.mismatches);
        visit("units_done", self.units_done);
        visit("files_failed", self.files_failed);
        visit("entries_listed", self.entries_listed);
        visit("errors", self.errors);
    }

    /// Returns the durations of one kind.
    pub fn latency(&mut self, of: Measured) -> &mut Latency {
        &mut self.latencies[of as usize]
    }

    /// Returns the number of reads that returned other bytes than described.
    #[must_use]
    pub fn mismatches(&self) -> u64 {
        self.mismatches
    }
}
