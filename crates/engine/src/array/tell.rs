//! Reports: the space of pools to initiators, their state to the operator, and counters.
use std::collections::BTreeMap;

use hakaru_iscsi_target::Space;
use hakaru_runtime::clock;
use hakaru_store::Notice;
use hakaru_units::Time;

use super::{Shell, pools};
use crate::control::{Control, Counters};
use crate::failure::Failure;

impl Shell<'_> {
    /// Reports changes of the pools to initiators and operator.
    pub(super) fn tell(&mut self, control: &Control) {
        for pool in 0..self.space_told.len() {
            let used = self.storage.core.pools()[pool].core().used_bytes();
            if self.space_told[pool] != used {
                self.space_told[pool] = used;
                self.tell_space(pool);
            }
        }
        while let Some(notice) = self.storage.core.poll_notice() {
            match notice {
                Notice::Threshold { pool } => {
                    for lun in self.storage.core.luns_in(pool) {
                        self.target.raise_threshold(lun);
                    }
                }
                Notice::ReadOnly { pool } => {
                    let name = self.storage.core.pools()[pool].name();
                    let failure = Failure::environment(
                        format_args!(
                            "pool {name:?} refuses writes from now on: what was written last may not be on stable storage"
                        ),
                        "see dmesg; restart the array once the cause is gone",
                    );
                    control.error(&failure, false);
                }
                Notice::Broken { pool, why } => {
                    let name = self.storage.core.pools()[pool].name();
                    let message = format!("pool {name:?}: {why}");
                    control.error(&Failure::environment(message, "see dmesg"), false);
                }
            }
        }
    }

    /// Reports the space behind the LUs of a pool to the target.
    pub(super) fn tell_space(&mut self, pool: usize) {
        for lun in self.storage.core.luns_in(pool) {
            if let Some((used_bytes, available_bytes)) = self.storage.core.space(lun) {
                self.target.set_space(
                    lun,
                    Space {
                        used_bytes,
                        available_bytes,
                    },
                );
            }
        }
    }

    /// Reports the counters as of now.
    pub(super) fn sample(&mut self, control: &Control) {
        let now = clock::now();
        let counters = self.counters(now);
        control.sample(now, counters, Vec::new());
    }

    fn counters(&mut self, now: Time) -> Counters {
        let mut counters = Counters::new();
        let mut visit = |entity: &str, name: &str, value: f64| {
            counters
                .entry(entity.to_owned())
                .or_default()
                .insert(name.to_owned(), value);
        };
        self.storage.visit_counters(now, &mut visit);
        self.target.visit_counters(&mut visit);
        if let Some(tcp) = self.tcp.counters(&self.connections, self.open) {
            counters.insert("tcp/sessions".to_owned(), tcp);
        }
        counters
    }

    /// Flushes the pools and reports the totals of all LUs and sessions.
    pub(super) fn finish(&mut self, control: &Control) -> Result<(), Failure> {
        pools::flush(&mut self.storage, self.reactor)?;
        let now = clock::now();
        let mut values = BTreeMap::new();
        for (entity, counters) in self.counters(now) {
            if entity.starts_with("lu/") || entity == "sessions" {
                for (name, value) in counters
                    .into_iter()
                    .filter(|(name, _)| !name.ends_with("_now"))
                {
                    *values.entry(name).or_insert(0.0) += value;
                }
            }
        }
        control.result(now, values, Vec::new());
        Ok(())
    }
}
