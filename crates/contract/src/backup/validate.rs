//! Checks of a configuration that need no LU. Each refusal names the field, the problem and the
//! remedy.
use std::collections::HashSet;

use super::{BackupConfig, BackupJob, Compression, Lu};
use crate::config_error::{ConfigError, refuse};
use crate::initiator::Destination;

/// Maximum number of jobs per engine.
const JOBS_MAX: usize = 1000;
/// Maximum number of sessions per engine.
const SESSIONS_MAX: usize = 20_000;

/// Checks that `value` is from `min` to `max`.
fn within<T: PartialOrd + std::fmt::Display>(
    field: String,
    value: T,
    min: T,
    max: T,
) -> Result<(), ConfigError> {
    if value >= min && value <= max {
        return Ok(());
    }
    refuse(field, format!("is {value}"), format!("use {min} to {max}"))
}

impl BackupConfig {
    /// Checks everything that can be known without contacting an LU.
    ///
    /// # Errors
    /// Returns an error for the first invalid field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within("number of jobs".into(), self.jobs.len(), 1, JOBS_MAX)?;
        self.login.validate()?;
        within("time_limit_s".into(), self.time_limit_s, 0.0, 1e8)?;
        within("command_timeout_s".into(), self.command_timeout_s, 0.1, 1e8)?;
        within(
            "sample_interval_ms".into(),
            self.sample_interval_ms,
            100,
            60_000,
        )?;
        let mut names = HashSet::new();
        for (i, job) in self.jobs.iter().enumerate() {
            if !names.insert(job.name.as_str()) {
                return refuse(
                    format!("jobs[{i}].name"),
                    format!("`{}` is used twice", job.name),
                    "give each job its own name",
                );
            }
            job.validate(&format!("jobs[{i}]"))?;
        }
        within(
            "sessions of all jobs".into(),
            self.sessions(),
            2,
            SESSIONS_MAX,
        )?;
        self.validate_disjoint()
    }

    /// Returns the number of sessions of all jobs.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.jobs.iter().map(|job| 2 * job.streams as usize).sum()
    }

    /// Checks that no two jobs write the same bytes and that no job reads bytes that another
    /// writes.
    fn validate_disjoint(&self) -> Result<(), ConfigError> {
        for (i, job) in self.jobs.iter().enumerate() {
            let written = (
                &job.destination,
                job.destination_offset_bytes,
                job.length_bytes,
            );
            for (k, other) in self.jobs.iter().enumerate() {
                let read = (&other.source, other.source_offset_bytes, other.length_bytes);
                let other_written = (
                    &other.destination,
                    other.destination_offset_bytes,
                    other.length_bytes,
                );
                let (data, clash) = if overlap(written, read) {
                    ("source", true)
                } else {
                    ("copy", k < i && overlap(written, other_written))
                };
                if clash {
                    return refuse(
                        format!("jobs[{i}].destination_offset_bytes"),
                        format!(
                            "the copy of {} overlaps the {data} of {}",
                            job.name, other.name
                        ),
                        "give each job its own part of the destination",
                    );
                }
            }
        }
        Ok(())
    }
}

/// Returns whether two ranges overlap, each as (LU, offset, length; 0: to the end).
fn overlap(a: (&Lu, u64, u64), b: (&Lu, u64, u64)) -> bool {
    let end = |offset: u64, length: u64| match length {
        0 => u64::MAX,
        length => offset.saturating_add(length),
    };
    let same_lu = a.0.target_name == b.0.target_name && a.0.lun == b.0.lun;
    same_lu && a.1 < end(b.1, b.2) && b.1 < end(a.1, a.2)
}

impl BackupJob {
    fn validate(&self, field: &str) -> Result<(), ConfigError> {
        if !(1..=128).contains(&self.name.len()) || self.name.chars().any(char::is_control) {
            return refuse(
                format!("{field}.name"),
                "is not 1 to 128 printable bytes",
                "use a short name, like `vm1`",
            );
        }
        self.source.validate(&format!("{field}.source"))?;
        self.destination.validate(&format!("{field}.destination"))?;
        within(
            format!("{field}.block_bytes"),
            self.block_bytes,
            4096,
            16 << 20,
        )?;
        if !self.block_bytes.is_multiple_of(512) {
            return refuse(
                format!("{field}.block_bytes"),
                format!("is {}", self.block_bytes),
                "use a multiple of 512",
            );
        }
        within(format!("{field}.depth"), self.depth, 1, 1024)?;
        within(format!("{field}.streams"), self.streams, 1, 64)?;
        if let Some(rate) = self.rate_limit_bytes_per_s {
            within(
                format!("{field}.rate_limit_bytes_per_s"),
                rate,
                1000,
                1 << 50,
            )?;
        }
        match self.compression {
            Compression::None => Ok(()),
            Compression::Zstd { level } => {
                within(format!("{field}.compression.level"), level, 1, 19)
            }
        }
    }
}

impl Lu {
    fn validate(&self, field: &str) -> Result<(), ConfigError> {
        let destination = Destination::Iscsi {
            portal: self.portal.clone(),
            target_name: self.target_name.clone(),
            lun: self.lun,
            initiator_name: self.initiator_name.clone(),
            other_portals: Vec::new(),
        };
        destination.validate(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> BackupConfig {
        let lu = |target_name: &str| Lu {
            portal: "192.0.2.1:3260".into(),
            target_name: target_name.into(),
            lun: 0,
            initiator_name: "iqn.2026-01.lab:host".into(),
        };
        let job = |name: &str, offset: u64| BackupJob {
            name: name.into(),
            source: lu("iqn.2026-01.lab:primary"),
            source_offset_bytes: offset,
            destination: lu("iqn.2026-01.lab:vtl"),
            destination_offset_bytes: offset,
            length_bytes: 1 << 20,
            block_bytes: 65_536,
            depth: 8,
            streams: 2,
            rate_limit_bytes_per_s: Some(1_000_000),
            compression: Compression::Zstd { level: 3 },
            verify: true,
        };
        BackupConfig {
            jobs: vec![job("vm1", 0), job("vm2", 1 << 20)],
            login: crate::LoginKeys::default(),
            chap: None,
            time_limit_s: 0.0,
            command_timeout_s: 30.0,
            sample_interval_ms: 1000,
        }
    }

    /// One change to the configuration and the field that the refusal must name.
    type Case = (fn(&mut BackupConfig), &'static str);

    #[test]
    fn every_refusal_names_its_field() {
        let cases: [Case; 19] = [
            (|c| c.jobs.clear(), "number of jobs"),
            (|c| c.jobs[1].name = "vm1".into(), "jobs[1].name"),
            (|c| c.jobs[0].name = "a\nb".into(), "jobs[0].name"),
            (
                |c| c.jobs[0].source.portal = "here".into(),
                "jobs[0].source.portal",
            ),
            (
                |c| c.jobs[1].destination.target_name = "vtl".into(),
                "jobs[1].destination.target_name",
            ),
            (|c| c.jobs[0].block_bytes = 2048, "jobs[0].block_bytes"),
            (|c| c.jobs[0].block_bytes = 4097, "jobs[0].block_bytes"),
            (|c| c.jobs[0].depth = 0, "jobs[0].depth"),
            (|c| c.jobs[0].streams = 65, "jobs[0].streams"),
            (
                |c| c.jobs[0].rate_limit_bytes_per_s = Some(0),
                "jobs[0].rate_limit_bytes_per_s",
            ),
            (
                |c| c.jobs[0].compression = Compression::Zstd { level: 0 },
                "jobs[0].compression.level",
            ),
            (|c| c.time_limit_s = f64::NAN, "time_limit_s"),
            (|c| c.time_limit_s = -1.0, "time_limit_s"),
            (|c| c.command_timeout_s = 0.0, "command_timeout_s"),
            (|c| c.sample_interval_ms = 99, "sample_interval_ms"),
            (|c| c.login.max_burst_length = 0, "login.max_burst_length"),
            (
                |c| c.jobs[1].destination_offset_bytes = 0,
                "jobs[1].destination_offset_bytes",
            ),
            (
                |c| c.jobs[0].length_bytes = 0,
                "jobs[1].destination_offset_bytes",
            ),
            (
                |c| c.jobs[0].destination = c.jobs[1].source.clone(),
                "jobs[0].destination_offset_bytes",
            ),
        ];
        assert_eq!(config().validate(), Ok(()));
        for (n, (change, field)) in cases.into_iter().enumerate() {
            let mut changed = config();
            change(&mut changed);
            let error = changed.validate().expect_err(field);
            assert_eq!(error.field, field, "case {n}");
            assert!(!error.hint.is_empty());
        }
    }
}
