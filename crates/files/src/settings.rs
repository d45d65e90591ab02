//! Checked settings of a load.
use hakaru_contract::files::{FilesLoad, FilesProfile};
use hakaru_contract::{ConfigError, refuse};

use crate::mix::Mix;

/// Settings that all tools share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Operations of a step.
    pub profile: FilesProfile,
    /// Operations of users, with the profile `mix`.
    pub(crate) mix: Option<Mix>,
    /// Share of steps that read, percent.
    pub read_percent: u8,
    /// Bytes of a read or write.
    pub block_bytes: u32,
    /// Whether files are flushed before they are closed.
    pub flush: bool,
    /// Whether what is read is compared with the description.
    pub verify: bool,
    /// Seed of choices and orders.
    pub seed: u64,
}

impl Settings {
    /// Checks a load, without its trees.
    ///
    /// # Errors
    /// Returns an error for the first field that is out of bounds.
    pub fn new(load: &FilesLoad) -> Result<Settings, ConfigError> {
        let within = |field: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            refuse(field, value.to_string(), format!("use {low} to {high}"))
        };
        within("tools", load.tools.into(), 1, 1024)?;
        within("stride", load.stride.into(), 1, 1024)?;
        within(
            "first_tree",
            load.first_tree.into(),
            0,
            u64::from(load.trees.trees.max(1)) - 1,
        )?;
        let units = (load.trees.trees - load.first_tree).div_ceil(load.stride);
        if load.tools > units {
            let problem = format!("{} tools for {units} trees", load.tools);
            return refuse(
                "tools",
                problem,
                "use at most one tool per tree, or more trees",
            );
        }
        within("read_percent", load.read_percent.into(), 0, 100)?;
        within("block_bytes", load.block_bytes.into(), 512, 16 << 20)?;
        if !(0.0..=86_400.0).contains(&load.warmup_s) {
            return refuse("warmup_s", load.warmup_s.to_string(), "use 0 to 86400");
        }
        if let Some(seconds) = load.measure_s
            && !(0.05..=86_400.0).contains(&seconds)
        {
            return refuse("measure_s", seconds.to_string(), "use 0.05 to 86400");
        }
        if load.mix.is_some() != (load.profile == FilesProfile::Mix) {
            let problem = "it belongs to the profile `mix`".to_owned();
            return refuse("mix", problem, "set both or none");
        }
        if load.mix.is_some() && load.measure_s.is_none() {
            let problem = "users never run out of files".to_owned();
            return refuse("measure_s", problem, "set it for the profile `mix`");
        }
        if load.repeat && load.measure_s.is_none() {
            let problem = "a load with `repeat` never runs out of files".to_owned();
            return refuse("measure_s", problem, "set it, or leave out `repeat`");
        }
        Ok(Settings {
            profile: load.profile,
            mix: load
                .mix
                .as_ref()
                .map(|mix| Mix::new(mix, load.tools))
                .transpose()?,
            read_percent: load.read_percent,
            block_bytes: load.block_bytes,
            flush: load.flush,
            verify: load.verify,
            seed: load.seed,
        })
    }
}
