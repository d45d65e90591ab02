//! Reports of pools to the initiators and the operator, and the counters of the array.
use std::collections::BTreeMap;

use hakaru_iscsi_target::{Space, Target};
use hakaru_store::Notice;
use hakaru_units::Time;

use super::storage::Storage;
use crate::control::Counters;
use crate::failure::Failure;

/// Reports each change of the pools once.
pub struct PoolReports {
    /// Bytes in use of each pool as last reported to the target.
    used_bytes: Vec<u64>,
}

impl PoolReports {
    /// Creates the reports of this number of pools, of which nothing was reported yet.
    pub fn new(pools: usize) -> PoolReports {
        PoolReports {
            used_bytes: vec![u64::MAX; pools],
        }
    }

    /// Reports changes of the pools to the target. Returns the failures of pools.
    pub fn report(&mut self, storage: &mut Storage, target: &mut Target) -> Vec<Failure> {
        for (pool, reported) in self.used_bytes.iter_mut().enumerate() {
            let used = storage.core.pools()[pool].core().used_bytes();
            if *reported != used {
                *reported = used;
                report_space(pool, storage, target);
            }
        }
        let mut failures = Vec::new();
        while let Some(notice) = storage.core.poll_notice() {
            match notice {
                Notice::Threshold { pool } => {
                    for lun in storage.core.luns_in(pool) {
                        target.raise_threshold(lun);
                    }
                }
                Notice::ReadOnly { pool } => {
                    let name = storage.core.pools()[pool].name();
                    failures.push(Failure::environment(
                        format_args!(
                            "pool {name:?} is read-only from now on: its last writes may not be on \
                             stable storage"
                        ),
                        "see dmesg; restart the array after removing the cause",
                    ));
                }
                Notice::Broken { pool, error } => {
                    let name = storage.core.pools()[pool].name();
                    let message = format!("pool {name:?}: {error}");
                    failures.push(Failure::environment(message, "see dmesg"));
                }
            }
        }
        failures
    }
}

/// Reports the space behind the LUs of a pool to the target.
pub fn report_space(pool: usize, storage: &Storage, target: &mut Target) {
    for lun in storage.core.luns_in(pool) {
        if let Some((used_bytes, available_bytes)) = storage.core.space(lun) {
            let space = Space {
                used_bytes,
                available_bytes,
            };
            target.set_space(lun, space);
        }
    }
}

/// Returns the counters of the storage, the target and its connections (`tcp`).
pub fn counters(
    now: Time,
    storage: &mut Storage,
    target: &Target,
    tcp: Option<BTreeMap<String, f64>>,
) -> Counters {
    let mut counters = Counters::new();
    let mut visit = |entity: &str, name: &str, value: f64| {
        let entity = counters.entry(entity.to_owned()).or_default();
        entity.insert(name.to_owned(), value);
    };
    storage.visit_counters(now, &mut visit);
    target.visit_counters(&mut visit);
    if let Some(tcp) = tcp {
        counters.insert("tcp/sessions".to_owned(), tcp);
    }
    counters
}

/// Returns the sums of the counters over all LUs and sessions. Current states (`…_now`) are
/// omitted.
pub fn totals(counters: Counters) -> BTreeMap<String, f64> {
    let mut totals = BTreeMap::new();
    for (entity, counters) in counters {
        if !entity.starts_with("lu/") && entity != "sessions" {
            continue;
        }
        for (name, value) in counters {
            if !name.ends_with("_now") {
                *totals.entry(name).or_insert(0.0) += value;
            }
        }
    }
    totals
}
