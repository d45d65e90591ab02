//! The order of jobs that use the same tape drive: one at a time, in the order of the
//! configuration.
use std::collections::BTreeMap;

use hakaru_contract::backup::BackupJob;

/// The turns of the jobs of an engine.
#[derive(Debug, Default)]
pub struct Turns {
    /// Job that follows each job on its drive.
    next: BTreeMap<usize, usize>,
    /// Jobs that follow no other one.
    first: Vec<usize>,
}

impl Turns {
    /// Creates the turns of these jobs. Jobs to disks follow no other one.
    #[must_use]
    pub fn new<'a>(jobs: impl IntoIterator<Item = &'a BackupJob>) -> Turns {
        let mut turns = Turns::default();
        let mut last: BTreeMap<(&str, u8), usize> = BTreeMap::new();
        for (number, job) in jobs.into_iter().enumerate() {
            let drive = (job.destination.target_name.as_str(), job.destination.lun);
            let before = job.tape.as_ref().and_then(|_| last.insert(drive, number));
            match before {
                Some(before) => {
                    turns.next.insert(before, number);
                }
                None => turns.first.push(number),
            }
        }
        turns
    }

    /// Returns whether a job follows no other one.
    #[must_use]
    pub fn is_first(&self, job: usize) -> bool {
        self.first.contains(&job)
    }

    /// Returns the job whose turn comes when `job` is done.
    #[must_use]
    pub fn after(&self, job: usize) -> Option<usize> {
        self.next.get(&job).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakaru_contract::backup::BackupConfig;

    #[test]
    fn jobs_of_a_drive_follow_each_other_and_those_to_disks_follow_none() {
        let job = |name: &str, lun: u8, tape: bool| {
            let tape = tape.then(|| {
                serde_json::json!({"changer_lun": 0, "drive": lun - 1, "cartridge": name.to_uppercase()})
            });
            let lu = |lun| {
                serde_json::json!({
                    "portal": "192.0.2.1:3260", "target_name": "iqn.2013-01.lab:vtl", "lun": lun,
                    "initiator_name": "iqn.2013-01.lab:host",
                })
            };
            serde_json::json!({
                "name": name, "source": lu(9), "destination": lu(lun), "length_bytes": 4096,
                "tape": tape,
            })
        };
        let jobs = [
            job("vm1", 1, true),
            job("vm2", 2, true),
            job("vm3", 1, true),
            job("vm4", 3, false),
            job("vm5", 3, false),
            job("vm6", 1, true),
        ];
        let config = serde_json::json!({"jobs": jobs, "time_limit_s": 0.0});
        let config: BackupConfig = serde_json::from_value(config).unwrap();
        let turns = Turns::new(&config.jobs);
        let first: Vec<usize> = (0..6).filter(|job| turns.is_first(*job)).collect();
        assert_eq!(first, [0, 1, 3, 4]);
        let after: Vec<_> = (0..6).map(|job| turns.after(job)).collect();
        assert_eq!(after, [Some(2), None, Some(5), None, None, None]);
    }
}
