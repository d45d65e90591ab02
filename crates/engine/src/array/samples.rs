//! Instants at which the array is sampled: all of its counters, and those of its drives more often.
use hakaru_contract::ArrayConfig;
use hakaru_units::Time;

use super::storage::Storage;
use crate::control::Counters;
use crate::failure::Failure;
use crate::sampling::Schedule;

/// Returns whether a counter of a drive is sampled more often than the others: its queue and its
/// busy time, of a flash drive also that of each part.
fn is_frequent(name: &str) -> bool {
    name == "queue_ns" || name == "busy_ns" || name.ends_with("_busy_ns")
}

/// The counters that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Nothing,
    Drives,
    All,
}

/// Sampling instants of the array.
pub struct Samples {
    all: Schedule,
    drives: Option<Schedule>,
}

impl Samples {
    /// Creates the schedules of a configuration. Nothing is due before [`Samples::start`].
    ///
    /// # Errors
    /// An interval is not 100 to 60 000 ms, or that of the drives is the longer one.
    pub fn new(config: &ArrayConfig) -> Result<Samples, Failure> {
        let all_ms = config.sample_interval_ms;
        let all = Schedule::new(all_ms)?;
        let drives = match config.drive_sample_interval_ms {
            Some(drives_ms) if !(100..=all_ms).contains(&drives_ms) => {
                let message = format!(
                    "drive_sample_interval_ms is {drives_ms}; it must be 100 to {all_ms}, the \
                     sample_interval_ms"
                );
                return Err(Failure::usage(message, "correct the configuration"));
            }
            Some(drives_ms) => Some(Schedule::new(drives_ms)?),
            None => None,
        };
        Ok(Samples { all, drives })
    }

    /// Makes the first sample due at `at`.
    pub fn start(&mut self, at: Time) {
        self.all.start(at);
        if let Some(drives) = &mut self.drives {
            drives.start(at);
        }
    }

    /// Returns the instant of the next sample.
    pub fn next(&self) -> Option<Time> {
        let drives = self.drives.and_then(|drives| drives.next());
        self.all.next().into_iter().chain(drives).min()
    }

    /// Returns what is due. A sample of all counters includes those of the drives, so that no two
    /// samples have the same instant.
    pub fn due(&mut self, now: Time) -> Due {
        let drives = self.drives.as_mut().is_some_and(|drives| drives.due(now));
        match (self.all.due(now), drives) {
            (true, _) => Due::All,
            (false, true) => Due::Drives,
            (false, false) => Due::Nothing,
        }
    }
}

/// Returns those counters of the drives that are sampled more often.
pub fn of_drives(now: Time, storage: &mut Storage) -> Counters {
    let mut counters = Counters::new();
    storage.core.visit_model(now, &mut |entity, name, value| {
        if entity.starts_with("drive/") && is_frequent(name) {
            let entity = counters.entry(entity.to_owned()).or_default();
            entity.insert(name.to_owned(), value);
        }
    });
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(all_ms: u32, drives_ms: Option<u32>) -> Result<Samples, Failure> {
        let config = serde_json::json!({
            "target_name": "iqn.2026-01.net.example:array",
            "portals": ["127.0.0.1:0"],
            "lus": [],
            "model": {"kind": "none"},
            "sample_interval_ms": all_ms,
            "drive_sample_interval_ms": drives_ms,
        });
        Samples::new(&serde_json::from_value(config).expect("a configuration"))
    }

    const fn ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    #[test]
    fn drives_are_due_between_the_samples_of_all_counters_and_never_together_with_them() {
        let mut samples = samples(1000, Some(200)).unwrap();
        assert_eq!(samples.due(Time::MAX), Due::Nothing);
        samples.start(ms(10));
        let due: Vec<Due> = (0..=1200)
            .step_by(100)
            .map(|at| samples.due(ms(at)))
            .collect();
        let every_200_ms = |due: &[Due]| due.iter().skip(1).step_by(2).copied().collect::<Vec<_>>();
        assert_eq!(
            every_200_ms(&due),
            [
                Due::All,
                Due::Drives,
                Due::Drives,
                Due::Drives,
                Due::Drives,
                Due::All
            ]
        );
        assert_eq!(due.iter().filter(|due| **due == Due::Nothing).count(), 7);
        assert_eq!(samples.next(), Some(ms(1210)));
    }

    #[test]
    fn without_an_interval_of_their_own_drives_are_sampled_with_all_counters() {
        let mut samples = samples(1000, None).unwrap();
        samples.start(ms(0));
        assert_eq!(samples.due(ms(0)), Due::All);
        assert_eq!(samples.due(ms(999)), Due::Nothing);
        assert_eq!(samples.next(), Some(ms(1000)));
    }

    #[test]
    fn the_busy_times_of_a_drive_and_of_its_parts_are_sampled_more_often() {
        let all = [
            "busy_ns",
            "dies_busy_ns",
            "queue_ns",
            "service_ns",
            "gc_ns",
            "reads",
        ];
        let frequent: Vec<&str> = all.into_iter().filter(|name| is_frequent(name)).collect();
        assert_eq!(frequent, ["busy_ns", "dies_busy_ns", "queue_ns"]);
    }

    #[test]
    fn an_interval_of_drives_longer_than_that_of_all_counters_is_refused() {
        for drives_ms in [99, 1001] {
            let refused = samples(1000, Some(drives_ms)).err().unwrap();
            assert!(refused.message.contains("drive_sample_interval_ms"));
        }
        assert!(samples(1000, Some(1000)).is_ok());
    }
}
