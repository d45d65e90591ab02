//! Checks of a configuration that need no LU. Each refusal names the field, the problem and the
//! remedy.
use std::collections::HashSet;

use super::{BackupConfig, BackupJob, Compression, Disks, Lu, TapeDestination};
use crate::config_error::{ConfigError, refuse};
use crate::initiator::Destination;

/// Maximum number of jobs per engine.
const JOBS_MAX: usize = 1000;
/// Maximum number of sessions per engine.
const SESSIONS_MAX: usize = 20_000;

/// Longest block of a tape drive, bytes. Lengths of READ(6) and WRITE(6) have 24 bits.
const TAPE_BLOCK_MAX: u32 = 8 << 20;
/// Maximum length of a barcode: the identifier of a volume tag (SMC-3 section 6.11).
const BARCODE_MAX: usize = 32;

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
        let of_tape = self.tape_command_timeout_s;
        within("tape_command_timeout_s".into(), of_tape, 0.1, 1e8)?;
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
            0,
            SESSIONS_MAX,
        )?;
        self.validate_disjoint()
    }

    /// Returns the number of sessions of all jobs. Those on disks have none.
    #[must_use]
    pub fn sessions(&self) -> usize {
        let on_sessions = self.jobs.iter().filter(|job| job.disks.is_none());
        on_sessions.map(|job| 2 * job.streams as usize).sum()
    }

    /// Checks that no two jobs write the same bytes and that no job reads bytes that another
    /// writes.
    fn validate_disjoint(&self) -> Result<(), ConfigError> {
        for (i, job) in self.jobs.iter().enumerate() {
            if let Some(tape) = &job.tape {
                self.validate_cartridge(i, job, tape)?;
                continue;
            }
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
                    let both_disks = other.tape.is_none();
                    (
                        "copy",
                        k < i && both_disks && overlap(written, other_written),
                    )
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

    /// Checks that job `i` does not need a cartridge that an earlier job has in another drive, that it
    /// erases no copy of an earlier job, and that its drive is the same LU with the same changer for
    /// every job.
    fn validate_cartridge(
        &self,
        i: usize,
        job: &BackupJob,
        tape: &TapeDestination,
    ) -> Result<(), ConfigError> {
        for earlier in &self.jobs[..i] {
            let Some(other) = &earlier.tape else { continue };
            if earlier.destination.target_name != job.destination.target_name {
                continue;
            }
            if other.cartridge == tape.cartridge && other.drive != tape.drive {
                return refuse(
                    format!("jobs[{i}].tape.cartridge"),
                    format!(
                        "{} is in drive {} for {}, so it cannot be in drive {} for {}",
                        tape.cartridge, other.drive, earlier.name, tape.drive, job.name
                    ),
                    "give each drive its own cartridges, or let these jobs use one drive",
                );
            }
            if other.cartridge == tape.cartridge && !tape.append {
                return refuse(
                    format!("jobs[{i}].tape.append"),
                    format!(
                        "{} begins at the start of cartridge {}, which erases the copy of {}",
                        job.name, tape.cartridge, earlier.name
                    ),
                    "set append, or give each job its own cartridge",
                );
            }
            let same_lu = earlier.destination.lun == job.destination.lun;
            if same_lu != (other.drive == tape.drive) || other.changer_lun != tape.changer_lun {
                return refuse(
                    format!("jobs[{i}].tape.drive"),
                    format!("differs from that of {} for the same LUN", earlier.name),
                    "each drive has one LUN, one number, and one changer",
                );
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
        if let Some(tape) = &self.tape {
            self.validate_tape(&format!("{field}.tape"), tape)?;
        }
        if let Some(disks) = &self.disks {
            self.validate_disks(&format!("{field}.disks"), disks)?;
        }
        match self.compression {
            Compression::None => Ok(()),
            Compression::Zstd { level } => {
                within(format!("{field}.compression.level"), level, 1, 19)
            }
        }
    }
}

impl BackupJob {
    fn validate_disks(&self, field: &str, disks: &Disks) -> Result<(), ConfigError> {
        for (side, path) in [
            ("source", &disks.source),
            ("destination", &disks.destination),
        ] {
            if !path.starts_with('/') {
                return refuse(
                    format!("{field}.{side}"),
                    format!("{path:?} is not an absolute path"),
                    "name a block device, like /dev/sda",
                );
            }
        }
        if disks.source == disks.destination {
            return refuse(
                format!("{field}.destination"),
                format!("{} is source and destination", disks.source),
                "name another disk",
            );
        }
        if self.tape.is_some() {
            return refuse(
                field.to_owned(),
                format!("{} writes to a tape drive", self.name),
                "a tape drive needs a session: leave `disks` out",
            );
        }
        Ok(())
    }

    fn validate_tape(&self, field: &str, tape: &TapeDestination) -> Result<(), ConfigError> {
        let barcode = &tape.cartridge;
        if !(1..=BARCODE_MAX).contains(&barcode.len())
            || !barcode.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return refuse(
                format!("{field}.cartridge"),
                format!("{barcode:?} is not a barcode"),
                format!("use 1 to {BARCODE_MAX} printable characters, like HAK001L5"),
            );
        }
        if self.streams != 1 || self.destination_offset_bytes != 0 {
            return refuse(
                field.to_owned(),
                format!("{} has several streams or an offset", self.name),
                "a copy to a tape has one stream, and no destination_offset_bytes",
            );
        }
        within(
            format!("{field}: block_bytes"),
            self.block_bytes,
            4096,
            TAPE_BLOCK_MAX,
        )?;
        if let Some(fixed) = tape.fixed_block_bytes {
            let field = format!("{field}.fixed_block_bytes");
            within(field.clone(), fixed, 1, TAPE_BLOCK_MAX)?;
            if !self.block_bytes.is_multiple_of(fixed) {
                return refuse(
                    field,
                    format!("block_bytes is not a multiple of {fixed}"),
                    "choose a divisor of block_bytes",
                );
            }
        }
        if let Some(every) = tape.filemark_every_bytes {
            let field = format!("{field}.filemark_every_bytes");
            within(field, every, self.block_bytes.into(), u64::MAX)?;
        }
        Ok(())
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
            tape: None,
            disks: None,
        };
        BackupConfig {
            jobs: vec![job("vm1", 0), job("vm2", 1 << 20)],
            login: crate::LoginKeys::default(),
            chap: None,
            time_limit_s: 0.0,
            command_timeout_s: 30.0,
            tape_command_timeout_s: 900.0,
            sample_interval_ms: 1000,
        }
    }

    #[test]
    fn every_refusal_of_a_tape_names_its_field() {
        let tape = |config: &mut BackupConfig| {
            for (n, job) in config.jobs.iter_mut().enumerate() {
                (job.streams, job.destination_offset_bytes) = (1, 0);
                job.tape = Some(TapeDestination {
                    changer_lun: 9,
                    drive: 0,
                    cartridge: format!("HAK00{n}L5"),
                    append: false,
                    fixed_block_bytes: Some(16_384),
                    filemark_every_bytes: Some(1 << 20),
                    immediate_filemarks: false,
                });
            }
        };
        type TapeCase = (fn(&mut BackupJob), &'static str);
        let cases: [TapeCase; 7] = [
            (
                |job| job.tape.as_mut().unwrap().cartridge.clear(),
                ".cartridge",
            ),
            (|job| job.streams = 2, ""),
            (|job| job.destination_offset_bytes = 512, ""),
            (|job| job.block_bytes = 16 << 20, ": block_bytes"),
            (
                |job| job.tape.as_mut().unwrap().fixed_block_bytes = Some(3000),
                ".fixed_block_bytes",
            ),
            (
                |job| job.tape.as_mut().unwrap().filemark_every_bytes = Some(1),
                ".filemark_every_bytes",
            ),
            (
                |job| job.tape.as_mut().unwrap().cartridge = "HAK000L5".into(),
                ".append",
            ),
        ];
        let mut valid = config();
        tape(&mut valid);
        assert_eq!(valid.validate(), Ok(()));
        for (change, field) in cases {
            let mut changed = valid.clone();
            change(&mut changed.jobs[1]);
            let error = changed.validate().expect_err(field);
            assert_eq!(error.field, format!("jobs[1].tape{field}"));
            assert!(!error.hint.is_empty());
        }
        // Copies behind each other on one cartridge are fine. Another number of the drive is not,
        // and neither is the cartridge in another drive.
        valid.jobs[1].tape.as_mut().unwrap().cartridge = "HAK000L5".into();
        valid.jobs[1].tape.as_mut().unwrap().append = true;
        assert_eq!(valid.validate(), Ok(()));
        valid.jobs[1].tape.as_mut().unwrap().drive = 1;
        valid.jobs[1].destination.lun = 2;
        let error = valid.validate().unwrap_err();
        assert_eq!(error.field, "jobs[1].tape.cartridge");
        let problem = "HAK000L5 is in drive 0 for vm1, so it cannot be in drive 1 for vm2";
        assert_eq!(error.problem, problem);
        valid.jobs[1].tape.as_mut().unwrap().cartridge = "HAK001L5".into();
        assert_eq!(valid.validate(), Ok(()));
        valid.jobs[1].destination.lun = valid.jobs[0].destination.lun;
        assert_eq!(valid.validate().unwrap_err().field, "jobs[1].tape.drive");
    }

    fn on_disks(config: &mut BackupConfig, source: &str, destination: &str) {
        config.jobs[0].disks = Some(Disks {
            source: source.into(),
            destination: destination.into(),
        });
    }

    #[test]
    fn jobs_on_disks_have_no_sessions() {
        let mut config = config();
        assert_eq!(config.sessions(), 8);
        on_disks(&mut config, "/dev/sda", "/dev/sdb");
        assert_eq!((config.validate(), config.sessions()), (Ok(()), 4));
    }

    /// One change to the configuration and the field that the refusal must name.
    type Case = (fn(&mut BackupConfig), &'static str);

    #[test]
    fn every_refusal_names_its_field() {
        let cases: [Case; 23] = [
            (|c| c.jobs.clear(), "number of jobs"),
            (|c| on_disks(c, "sda", "/dev/sdb"), "jobs[0].disks.source"),
            (
                |c| on_disks(c, "/dev/sda", "/dev/sda"),
                "jobs[0].disks.destination",
            ),
            (
                |c| {
                    on_disks(c, "/dev/sda", "/dev/sdb");
                    (c.jobs[0].streams, c.jobs[0].destination_offset_bytes) = (1, 0);
                    c.jobs[0].tape = Some(TapeDestination {
                        changer_lun: 9,
                        drive: 0,
                        cartridge: "HAK000L5".into(),
                        append: false,
                        fixed_block_bytes: None,
                        filemark_every_bytes: None,
                        immediate_filemarks: false,
                    });
                },
                "jobs[0].disks",
            ),
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
            (|c| c.tape_command_timeout_s = 0.0, "tape_command_timeout_s"),
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
