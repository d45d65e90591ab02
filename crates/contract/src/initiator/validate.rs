//! Bounds of an initiator's configuration that concern all VMs together. `vm` checks a single VM.
use std::collections::HashSet;

use super::vm::REQUEST_MAX;
use super::{COMMANDS_MAX, InitiatorConfig};
use crate::config_error::{ConfigError, refuse};

/// Maximum number of sessions per VM.
const SESSIONS_MAX: u32 = 64;
/// Maximum number of sessions per engine; the qualifier of an ISID has 16 bits.
const SESSIONS_TOTAL_MAX: u64 = 65_536;
/// Maximum number of VMs per engine.
const VMS_MAX: usize = 20_000;
/// Maximum number of groups of VMs per engine, because each has histograms of its own.
const GROUPS_MAX: usize = 16;

impl InitiatorConfig {
    /// Checks everything that can be known without opening a volume.
    ///
    /// # Errors
    /// Returns an error for the first invalid field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.vms.is_empty() || self.vms.len() > VMS_MAX {
            let problem = format!("{} VMs", self.vms.len());
            return refuse(
                "vms",
                problem,
                format!("assign 1 to {VMS_MAX} VMs to one engine"),
            );
        }
        self.validate_groups()?;
        self.login.validate()?;
        self.socket.validate("socket")?;
        self.validate_commands()?;
        self.validate_path()?;
        self.validate_paths()?;
        self.validate_times()?;
        let mut names = HashSet::new();
        for (i, vm) in self.vms.iter().enumerate() {
            if !names.insert(vm.name.as_str()) {
                return refuse(
                    format!("vms[{i}].name"),
                    format!("`{}` is used twice", vm.name),
                    "give each VM its own name",
                );
            }
            vm.validate(&format!("vms[{i}]"), self.allow_writes)?;
        }
        if self.verify {
            self.validate_disjoint()
        } else {
            Ok(())
        }
    }

    /// Checks the names of the groups, and that the group of every VM exists.
    fn validate_groups(&self) -> Result<(), ConfigError> {
        if self.groups.len() > GROUPS_MAX {
            let problem = format!("{} groups", self.groups.len());
            return refuse("groups", problem, format!("use at most {GROUPS_MAX}"));
        }
        for (i, name) in self.groups.iter().enumerate() {
            let is_short = (1..=64).contains(&name.len()) && !name.contains(char::is_control);
            if !is_short || self.groups[..i].contains(name) {
                return refuse(
                    format!("groups[{i}]"),
                    format!("{name:?} is not a new name of 1 to 64 printable bytes"),
                    "give each group a short name of its own",
                );
            }
        }
        for (i, vm) in self.vms.iter().enumerate() {
            if let Some(group) = vm.group
                && usize::from(group) >= self.groups.len()
            {
                return refuse(
                    format!("vms[{i}].group"),
                    format!("{group}, and there are {} groups", self.groups.len()),
                    "use the position of one of `groups`, counted from 0",
                );
            }
        }
        Ok(())
    }

    fn validate_commands(&self) -> Result<(), ConfigError> {
        if !(1..=SESSIONS_MAX).contains(&self.sessions_per_vm) {
            let problem = format!("{} sessions", self.sessions_per_vm);
            return refuse(
                "sessions_per_vm",
                problem,
                format!("use 1 to {SESSIONS_MAX}"),
            );
        }
        let sessions = self.vms.len() as u64 * u64::from(self.legs());
        if sessions > SESSIONS_TOTAL_MAX {
            let problem = format!("{sessions} sessions in total");
            return refuse(
                "sessions_per_vm",
                problem,
                format!("at most {SESSIONS_TOTAL_MAX}; use fewer VMs, or fewer sessions of each"),
            );
        }
        match self.command_bytes_max {
            Some(bytes) if !(4096..=REQUEST_MAX).contains(&bytes) || bytes % 512 != 0 => {
                let problem = format!("{bytes} bytes");
                return refuse(
                    "command_bytes_max",
                    problem,
                    "use a multiple of 512, from 4096 bytes to 16 MiB",
                );
            }
            _ => {}
        }
        match self.commands_max {
            Some(count) if !(1..=COMMANDS_MAX).contains(&count) => {
                let problem = format!("{count} commands");
                refuse("commands_max", problem, format!("use 1 to {COMMANDS_MAX}"))
            }
            _ => Ok(()),
        }
    }

    fn validate_times(&self) -> Result<(), ConfigError> {
        let seconds = |field: &str, value: f64, min: f64| {
            if value.is_finite() && (min..=1e8).contains(&value) {
                return Ok(());
            }
            refuse(
                field,
                format!("{value} is not a valid duration in seconds"),
                format!("use {min} to 1e8"),
            )
        };
        seconds("warmup_s", self.warmup_s, 0.0)?;
        seconds("measure_s", self.measure_s, 0.0)?;
        seconds("command_timeout_s", self.command_timeout_s, 0.1)?;
        if self.coalesce_us > 1000 {
            let problem = format!("{} us", self.coalesce_us);
            return refuse("coalesce_us", problem, "use 0 to 1000");
        }
        if !(0.0..=50.0).contains(&self.coalesce_percent) {
            let problem = format!("{} %", self.coalesce_percent);
            return refuse("coalesce_percent", problem, "use 0 to 50");
        }
        if !(100..=60_000).contains(&self.sample_interval_ms) {
            let problem = format!("{} ms", self.sample_interval_ms);
            return refuse("sample_interval_ms", problem, "use 100 to 60000");
        }
        Ok(())
    }

    /// Checks that no two VMs share blocks, because neither could know which data was written last.
    fn validate_disjoint(&self) -> Result<(), ConfigError> {
        let mut regions: Vec<_> = self
            .vms
            .iter()
            .enumerate()
            .map(|(i, vm)| (vm.destination.volume_name(), vm.region, i))
            .collect();
        regions.sort_by(|a, b| (&a.0, a.1.offset_bytes).cmp(&(&b.0, b.1.offset_bytes)));
        for pair in regions.windows(2) {
            let ((volume, region, first), (next_volume, next_region, second)) =
                (&pair[0], &pair[1]);
            let end = if region.length_bytes == 0 {
                u64::MAX
            } else {
                region.offset_bytes.saturating_add(region.length_bytes)
            };
            if volume == next_volume && next_region.offset_bytes < end {
                return refuse(
                    format!("vms[{second}].region"),
                    format!("overlaps the region of vms[{first}], and `verify` is on"),
                    "give each VM a region of its own, or turn `verify` off",
                );
            }
        }
        Ok(())
    }

    /// Returns the longest request of all patterns, bytes.
    #[must_use]
    pub fn longest_request_bytes(&self) -> u32 {
        self.vms
            .iter()
            .flat_map(|vm| &vm.pattern.sizes)
            .map(|size| size.bytes)
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::Load;
    use crate::initiator::fixture::config;

    /// One change to the configuration and the field that the refusal must name.
    type Case = (fn(&mut InitiatorConfig), &'static str);

    #[test]
    fn every_refusal_names_its_field() {
        let cases: [Case; 24] = [
            (|c| c.vms.clear(), "vms"),
            (|c| c.vms[1].name = "vm1".into(), "vms[1].name"),
            (|c| c.vms[1].name = String::new(), "vms[1].name"),
            (|c| c.vms[0].pattern.sizes.clear(), "vms[0].pattern.sizes"),
            (
                |c| c.vms[0].pattern.sizes[0].bytes = 1000,
                "vms[0].pattern.sizes[0].bytes",
            ),
            (
                |c| c.vms[0].pattern.sizes[0].weight = 0,
                "vms[0].pattern.sizes[0].weight",
            ),
            (
                |c| c.vms[0].pattern.read_percent = 101,
                "vms[0].pattern.read_percent",
            ),
            (
                |c| c.vms[0].pattern.align_bytes = Some(0),
                "vms[0].pattern.align_bytes",
            ),
            (
                |c| c.vms[0].load = Load::Closed { queue_depth: 0 },
                "vms[0].load.queue_depth",
            ),
            (|c| c.allow_writes = false, "vms[0].pattern.read_percent"),
            (|c| c.warmup_s = f64::NAN, "warmup_s"),
            (|c| c.measure_s = -1.0, "measure_s"),
            (|c| c.command_timeout_s = 0.0, "command_timeout_s"),
            (|c| c.sample_interval_ms = 5, "sample_interval_ms"),
            (|c| c.coalesce_us = 1001, "coalesce_us"),
            (|c| c.coalesce_percent = 50.1, "coalesce_percent"),
            (|c| c.coalesce_percent = f64::NAN, "coalesce_percent"),
            (
                |c| c.login.first_burst_length = 511,
                "login.first_burst_length",
            ),
            (
                |c| c.login.max_outstanding_r2t = 0,
                "login.max_outstanding_r2t",
            ),
            (
                |c| c.socket.send_buffer_bytes = Some(1),
                "socket.send_buffer_bytes",
            ),
            (|c| c.sessions_per_vm = 0, "sessions_per_vm"),
            (|c| c.command_bytes_max = Some(4097), "command_bytes_max"),
            (|c| c.commands_max = Some(0), "commands_max"),
            (
                |c| {
                    c.verify = true;
                    c.vms[1].region.offset_bytes = 4096;
                },
                "vms[1].region",
            ),
        ];
        assert_eq!(config().validate(), Ok(()));
        for (change, field) in cases {
            let mut changed = config();
            change(&mut changed);
            let error = changed.validate().unwrap_err();
            assert_eq!(error.field, field);
            assert!(!error.hint.is_empty());
        }
    }
}
