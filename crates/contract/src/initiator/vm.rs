//! Bounds of one VM: its name, pattern and load.
use super::{Load, Pattern, Vm};
use crate::config_error::{ConfigError, refuse};

/// Maximum length of a request, bytes.
pub(super) const REQUEST_MAX: u32 = 16 << 20;

impl Vm {
    pub(super) fn validate(&self, field: &str, allow_writes: bool) -> Result<(), ConfigError> {
        let length = self.name.len();
        if !(1..=128).contains(&length) || self.name.chars().any(char::is_control) {
            return refuse(
                format!("{field}.name"),
                "is not 1 to 128 printable bytes",
                "use a short name, like `vm1`",
            );
        }
        self.destination.validate(&format!("{field}.destination"))?;
        self.pattern.validate(&format!("{field}.pattern"))?;
        self.load.validate(&format!("{field}.load"))?;
        if self.pattern.read_percent < 100 && !allow_writes {
            return refuse(
                format!("{field}.pattern.read_percent"),
                format!("{} writes, and writes are not allowed", self.name),
                "set it to 100, or mark the destination as expendable",
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
                let problem = format!("{} bytes", size.bytes);
                return refuse(
                    format!("{field}.sizes[{i}].bytes"),
                    problem,
                    "use a multiple of 512, from 512 bytes to 16 MiB",
                );
            }
            if size.weight == 0 {
                return refuse(
                    format!("{field}.sizes[{i}].weight"),
                    "is 0",
                    "use 1 or more, and omit sizes that are never used",
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
                    "use 0 to 100",
                );
            }
        }
        match self.align_bytes {
            Some(align) if align == 0 || align % 512 != 0 => refuse(
                format!("{field}.align_bytes"),
                format!("{align} bytes"),
                "use a multiple of 512, or omit the field",
            ),
            _ => Ok(()),
        }
    }
}

impl Load {
    fn validate(&self, field: &str) -> Result<(), ConfigError> {
        let (name, in_flight) = match *self {
            Load::Closed { queue_depth } => ("queue_depth", queue_depth),
            Load::Open { in_flight_max, .. } => ("in_flight_max", in_flight_max),
        };
        if !(1..=1024).contains(&in_flight) {
            return refuse(
                format!("{field}.{name}"),
                format!("{in_flight} requests"),
                "use 1 to 1024",
            );
        }
        match *self {
            Load::Open { rate_per_s, .. } if !(rate_per_s > 1e-6 && rate_per_s <= 1e7) => refuse(
                format!("{field}.rate_per_s"),
                format!("{rate_per_s} requests per second"),
                "use a rate above 0 and at most 1e7",
            ),
            _ => Ok(()),
        }
    }
}
