//! Checks of a configuration: each refusal names the field, what is wrong with it and what to do.
use std::collections::HashSet;

use crate::config::{Destination, InitiatorConfig, Load, LoginKeys, Pattern, Region, Vm};
use crate::load::Volume;
use crate::pattern::Extent;

/// Longest iSCSI name (RFC 7143 section 4.2.7.1), bytes.
const ISCSI_NAME_MAX: usize = 223;
/// Longest request, bytes.
const REQUEST_MAX: u32 = 16 << 20;
/// Most sessions of one VM.
const SESSIONS_MAX: u32 = 64;
/// Most commands of one session that are outstanding at once.
pub(crate) const COMMANDS_MAX: u32 = 4096;
/// Most sessions of one engine: their ISIDs count in 16 bits.
const SESSIONS_IN_ALL_MAX: u64 = 65_536;
/// Most VMs of one engine.
const VMS_MAX: usize = 20_000;

/// A configuration that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub struct ConfigError {
    /// The field, as `vms[3].pattern.sizes[0].bytes`.
    pub field: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: String,
}

pub(crate) fn refuse<T>(
    field: impl Into<String>,
    what: impl Into<String>,
    hint: impl Into<String>,
) -> Result<T, ConfigError> {
    Err(ConfigError {
        field: field.into(),
        what: what.into(),
        hint: hint.into(),
    })
}

impl InitiatorConfig {
    /// Checks everything that can be known before a volume is seen.
    ///
    /// # Errors
    /// The first field that cannot be.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.vms.is_empty() || self.vms.len() > VMS_MAX {
            let what = format!("{} VMs", self.vms.len());
            return refuse(
                "vms",
                what,
                format!("give 1 to {VMS_MAX} VMs to one engine"),
            );
        }
        self.login.validate()?;
        self.socket.validate("socket")?;
        self.validate_commands()?;
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

    fn validate_commands(&self) -> Result<(), ConfigError> {
        if !(1..=SESSIONS_MAX).contains(&self.sessions_per_vm) {
            let what = format!("{} sessions", self.sessions_per_vm);
            return refuse("sessions_per_vm", what, format!("1 to {SESSIONS_MAX}"));
        }
        let sessions = self.vms.len() as u64 * u64::from(self.sessions_per_vm);
        if sessions > SESSIONS_IN_ALL_MAX {
            let what = format!("{sessions} sessions of all VMs together");
            return refuse(
                "sessions_per_vm",
                what,
                format!("at most {SESSIONS_IN_ALL_MAX}; use fewer VMs, or fewer sessions of each"),
            );
        }
        match self.command_bytes_max {
            Some(bytes) if !(4096..=REQUEST_MAX).contains(&bytes) || bytes % 512 != 0 => {
                let what = format!("{bytes} bytes");
                return refuse(
                    "command_bytes_max",
                    what,
                    "a multiple of 512, from 4096 to 16 MiB",
                );
            }
            _ => {}
        }
        match self.commands_max {
            Some(most) if !(1..=COMMANDS_MAX).contains(&most) => {
                let what = format!("{most} commands");
                refuse("commands_max", what, format!("1 to {COMMANDS_MAX}"))
            }
            _ => Ok(()),
        }
    }

    fn validate_times(&self) -> Result<(), ConfigError> {
        let seconds = |field: &str, value: f64, least: f64| {
            if value.is_finite() && (least..=1e8).contains(&value) {
                return Ok(());
            }
            refuse(
                field,
                format!("{value} is not a time in seconds"),
                format!("{least} or more, at most 1e8"),
            )
        };
        seconds("warmup_s", self.warmup_s, 0.0)?;
        seconds("measure_s", self.measure_s, 0.0)?;
        seconds("command_timeout_s", self.command_timeout_s, 0.1)?;
        if self.coalesce_us > 1000 {
            let what = format!("{} us", self.coalesce_us);
            return refuse("coalesce_us", what, "0 to 1000");
        }
        if !(100..=60_000).contains(&self.sample_interval_ms) {
            let what = format!("{} ms", self.sample_interval_ms);
            return refuse("sample_interval_ms", what, "100 to 60000");
        }
        Ok(())
    }

    /// Two VMs that write the same blocks cannot know what the other wrote last.
    fn validate_disjoint(&self) -> Result<(), ConfigError> {
        let mut by_place: Vec<_> = self
            .vms
            .iter()
            .enumerate()
            .map(|(i, vm)| (vm.destination.volume_name(), vm.region, i))
            .collect();
        by_place.sort_by(|a, b| (&a.0, a.1.offset_bytes).cmp(&(&b.0, b.1.offset_bytes)));
        for pair in by_place.windows(2) {
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

    /// The longest request of all patterns, bytes.
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

impl Destination {
    /// A name that is the same for every VM (and every run) that uses the same volume.
    #[must_use]
    pub fn volume_name(&self) -> String {
        match self {
            Destination::Iscsi {
                target_name, lun, ..
            } => format!("{target_name}/{lun}"),
            Destination::File { path, .. } => path.clone(),
        }
    }

    /// Checks addresses, names and paths; `field` is what holds it, for the message.
    ///
    /// # Errors
    /// The first field that cannot be.
    pub fn validate(&self, field: &str) -> Result<(), ConfigError> {
        match self {
            Destination::Iscsi {
                portal,
                target_name,
                initiator_name,
                ..
            } => {
                if portal.parse::<std::net::SocketAddr>().is_err() {
                    let what = format!("`{portal}` is not address:port");
                    return refuse(
                        format!("{field}.portal"),
                        what,
                        "write 192.0.2.1:3260 or [2001:db8::1]:3260",
                    );
                }
                validate_iscsi_name(&format!("{field}.target_name"), target_name)?;
                validate_iscsi_name(&format!("{field}.initiator_name"), initiator_name)
            }
            Destination::File { path, .. } if path.is_empty() || path.contains('\0') => refuse(
                format!("{field}.path"),
                "is empty or holds a NUL",
                "name a file or block device",
            ),
            Destination::File { .. } => Ok(()),
        }
    }
}

/// RFC 7143 section 4.2.7: at most 223 bytes, one of three types, no white space or control characters.
fn validate_iscsi_name(field: &str, name: &str) -> Result<(), ConfigError> {
    let known = ["iqn.", "eui.", "naa."]
        .iter()
        .any(|kind| name.starts_with(kind));
    let clean = name
        .chars()
        .all(|c| !c.is_control() && !c.is_whitespace() && c != ',');
    if known && clean && name.len() <= ISCSI_NAME_MAX {
        return Ok(());
    }
    refuse(
        field,
        format!("`{}` is no iSCSI name", name.escape_debug()),
        "names are iqn.YYYY-MM.DOMAIN:NAME, eui.… or naa.…, at most 223 bytes, without white space",
    )
}

impl Vm {
    fn validate(&self, field: &str, allow_writes: bool) -> Result<(), ConfigError> {
        let length = self.name.len();
        if !(1..=128).contains(&length) || self.name.chars().any(char::is_control) {
            return refuse(
                format!("{field}.name"),
                "is not 1 to 128 printable bytes",
                "a short name, as `vm1`",
            );
        }
        self.destination.validate(&format!("{field}.destination"))?;
        self.pattern.validate(&format!("{field}.pattern"))?;
        self.load.validate(&format!("{field}.load"))?;
        if self.pattern.read_percent < 100 && !allow_writes {
            return refuse(
                format!("{field}.pattern.read_percent"),
                format!("{} writes, and writes are not allowed", self.name),
                "make it 100, or mark the destination as expendable",
            );
        }
        Ok(())
    }
}

impl Pattern {
    fn validate(&self, field: &str) -> Result<(), ConfigError> {
        if self.sizes.is_empty() || self.sizes.len() > 64 {
            return refuse(
                format!("{field}.sizes"),
                format!("{} sizes", self.sizes.len()),
                "give 1 to 64",
            );
        }
        for (i, size) in self.sizes.iter().enumerate() {
            if !(512..=REQUEST_MAX).contains(&size.bytes) || size.bytes % 512 != 0 {
                let what = format!("{} bytes", size.bytes);
                return refuse(
                    format!("{field}.sizes[{i}].bytes"),
                    what,
                    "a multiple of 512, from 512 to 16 MiB",
                );
            }
            if size.weight == 0 {
                return refuse(
                    format!("{field}.sizes[{i}].weight"),
                    "is 0",
                    "1 or more; leave out what is never drawn",
                );
            }
        }
        for (name, percent) in [
            ("read_percent", self.read_percent),
            ("random_percent", self.random_percent),
        ] {
            if percent > 100 {
                return refuse(
                    format!("{field}.{name}"),
                    format!("{percent} %"),
                    "0 to 100",
                );
            }
        }
        match self.align_bytes {
            Some(align) if align == 0 || align % 512 != 0 => refuse(
                format!("{field}.align_bytes"),
                format!("{align} bytes"),
                "a multiple of 512, or leave it out",
            ),
            _ => Ok(()),
        }
    }
}

impl Load {
    fn validate(&self, field: &str) -> Result<(), ConfigError> {
        let (name, places) = match *self {
            Load::Closed { queue_depth } => ("queue_depth", queue_depth),
            Load::Open { in_flight_max, .. } => ("in_flight_max", in_flight_max),
        };
        if !(1..=1024).contains(&places) {
            return refuse(
                format!("{field}.{name}"),
                format!("{places} requests"),
                "1 to 1024",
            );
        }
        match *self {
            Load::Open { rate_per_s, .. } if !(rate_per_s > 1e-6 && rate_per_s <= 1e7) => refuse(
                format!("{field}.rate_per_s"),
                format!("{rate_per_s} requests per second"),
                "above 0, at most 1e7",
            ),
            _ => Ok(()),
        }
    }
}

impl LoginKeys {
    /// Ranges of RFC 7143 section 13.
    ///
    /// # Errors
    /// The first key that is outside.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let lengths = [
            (
                "max_recv_data_segment_length",
                self.max_recv_data_segment_length,
            ),
            ("max_burst_length", self.max_burst_length),
            ("first_burst_length", self.first_burst_length),
        ];
        for (name, bytes) in lengths {
            if !(512..=(1 << 24) - 1).contains(&bytes) {
                return refuse(
                    format!("login.{name}"),
                    format!("{bytes} bytes"),
                    "512 to 16777215",
                );
            }
        }
        if !(1..=65_535).contains(&self.max_outstanding_r2t) {
            let what = self.max_outstanding_r2t.to_string();
            return refuse("login.max_outstanding_r2t", what, "1 to 65535");
        }
        Ok(())
    }
}

impl Region {
    /// The extent that the region is on `volume`, for requests of `pattern`. `field` is the VM's, for the message.
    ///
    /// # Errors
    /// It reaches beyond the volume, is smaller than a request, or something is not a multiple of the block size.
    pub fn resolve(
        &self,
        field: &str,
        pattern: &Pattern,
        volume: &Volume,
    ) -> Result<Extent, ConfigError> {
        let block = u64::from(volume.block_bytes);
        let capacity = volume.capacity_bytes;
        let room = capacity.saturating_sub(self.offset_bytes);
        let length_bytes = if self.length_bytes == 0 {
            room / block * block
        } else {
            self.length_bytes
        };
        if length_bytes > room || length_bytes == 0 {
            let what = format!("reaches beyond the volume, which has {capacity} bytes");
            return refuse(
                format!("{field}.region"),
                what,
                "make the region smaller or the volume larger",
            );
        }
        if !self.offset_bytes.is_multiple_of(block) || !length_bytes.is_multiple_of(block) {
            let what = format!("is not a multiple of the volume's block, {block} bytes");
            return refuse(format!("{field}.region"), what, "align it");
        }
        for (i, size) in pattern.sizes.iter().enumerate() {
            let bytes = u64::from(size.bytes);
            let field = format!("{field}.pattern.sizes[{i}].bytes");
            if bytes % block != 0 {
                return refuse(
                    field,
                    format!("{bytes} is not a multiple of the volume's block, {block} bytes"),
                    "align it",
                );
            }
            if bytes > length_bytes {
                return refuse(
                    field,
                    format!("{bytes} does not fit the region of {length_bytes} bytes"),
                    "enlarge the region",
                );
            }
        }
        match pattern.align_bytes {
            Some(align) if u64::from(align) % block != 0 => {
                let what =
                    format!("{align} is not a multiple of the volume's block, {block} bytes");
                refuse(format!("{field}.pattern.align_bytes"), what, "align it")
            }
            _ => Ok(Extent {
                offset_bytes: self.offset_bytes,
                length_bytes,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> InitiatorConfig {
        serde_json::from_value(serde_json::json!({
            "vms": [vm("vm1", 0), vm("vm2", 1 << 20)],
            "warmup_s": 1.0,
            "measure_s": 2.0,
        }))
        .unwrap()
    }

    fn vm(name: &str, offset_bytes: u64) -> serde_json::Value {
        serde_json::json!({
            "name": name,
            "destination": {"kind": "iscsi", "portal": "127.0.0.1:3260", "target_name": "iqn.2026-01.lab:a", "lun": 0,
                "initiator_name": "iqn.2026-01.lab:vm"},
            "region": {"offset_bytes": offset_bytes, "length_bytes": 1 << 20},
            "pattern": {"sizes": [{"bytes": 4096}], "read_percent": 70, "random_percent": 100},
            "load": {"kind": "closed", "queue_depth": 4},
            "seed": 1,
        })
    }

    /// One change to the configuration and the field that the refusal must name.
    type Case = (fn(&mut InitiatorConfig), &'static str);

    #[test]
    fn every_refusal_names_its_field() {
        let cases: [Case; 22] = [
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

    #[test]
    fn names_and_portals_are_checked_before_anything_is_sent() {
        for name in [
            "",
            "disk",
            "iqn.a b",
            "iqn.a\n",
            &format!("iqn.{}", "x".repeat(220)),
        ] {
            let mut changed = config();
            let Destination::Iscsi { target_name, .. } = &mut changed.vms[0].destination else {
                unreachable!()
            };
            *target_name = name.to_owned();
            assert_eq!(
                changed.validate().unwrap_err().field,
                "vms[0].destination.target_name"
            );
        }
        for address in ["", "127.0.0.1", "::1:3260", "example.org:3260"] {
            let mut changed = config();
            let Destination::Iscsi { portal, .. } = &mut changed.vms[0].destination else {
                unreachable!()
            };
            *portal = address.to_owned();
            assert_eq!(
                changed.validate().unwrap_err().field,
                "vms[0].destination.portal"
            );
        }
    }

    #[test]
    fn region_of_length_zero_reaches_to_the_end_of_the_volume() {
        let vm = &config().vms[0];
        let region = Region {
            offset_bytes: 4096,
            length_bytes: 0,
        };
        let volume = Volume {
            block_bytes: 512,
            capacity_bytes: 1 << 20,
        };
        let extent = region.resolve("vms[0]", &vm.pattern, &volume).unwrap();
        assert_eq!(
            extent,
            Extent {
                offset_bytes: 4096,
                length_bytes: (1 << 20) - 4096
            }
        );
    }

    #[test]
    fn region_that_the_volume_cannot_hold_is_refused() {
        let vm = &config().vms[0];
        let resolve = |offset_bytes, length_bytes, block_bytes, capacity_bytes| {
            let volume = Volume {
                block_bytes,
                capacity_bytes,
            };
            Region {
                offset_bytes,
                length_bytes,
            }
            .resolve("vms[0]", &vm.pattern, &volume)
            .map_err(|e| e.field)
        };
        assert_eq!(
            resolve(0, 2 << 20, 512, 1 << 20),
            Err("vms[0].region".into())
        );
        assert_eq!(
            resolve(u64::MAX - 511, 1 << 20, 512, 1 << 20),
            Err("vms[0].region".into())
        );
        assert_eq!(
            resolve(1 << 20, 0, 512, 1 << 20),
            Err("vms[0].region".into())
        );
        assert_eq!(
            resolve(512, 8192, 4096, 1 << 20),
            Err("vms[0].region".into())
        );
        assert_eq!(
            resolve(0, 2048, 512, 1 << 20),
            Err("vms[0].pattern.sizes[0].bytes".into())
        );
        assert_eq!(
            resolve(0, 1 << 20, 8192, 1 << 20),
            Err("vms[0].pattern.sizes[0].bytes".into())
        );
    }
}
