//! Parameters of the timing model. Part of the contract (exported as JSON Schema). Every field has a unit and a source.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long requests take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Model {
    /// As fast as the machine: every request completes at once.
    None,
    /// A named model of this crate, see `preset`.
    Preset {
        /// Its name.
        name: String,
    },
    /// An array of drives.
    Array(ArrayModel),
}

/// Controller, port and RAID groups of drives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayModel {
    /// Counted as resource `controller`.
    pub controller: Controller,
    /// Counted as resource `port/0`; absent where a real or emulated link does that.
    #[serde(default)]
    pub port: Option<Port>,
    /// RAID groups, 1 to 64; LUs name the one they lie on by its place in this list.
    pub groups: Vec<Group>,
}

/// A controller that spends time on every command before the drives see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Cost of one command, microseconds.
    pub command_us: f64,
    /// Cost of moving and checking data, microseconds per MiB.
    pub data_us_per_mib: f64,
}

/// A port that carries one direction at a given rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Payload bytes per second in each direction.
    pub rate_bytes_per_s: f64,
}

/// How a group spreads data over its drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Raid {
    /// Striping.
    Raid0,
    /// Mirrored pairs, striped.
    Raid1,
    /// Striping with rotating parity; small writes read old data and parity first.
    Raid5,
}

/// A RAID group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Layout.
    pub raid: Raid,
    /// Number of drives: 1 or more (RAID 0), even (RAID 1), 3 or more (RAID 5); at most 64.
    pub drives: u32,
    /// Bytes on one drive before the next one is used.
    pub stripe_unit_bytes: u32,
    /// What the drives are.
    pub drive: Drive,
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Drive {
    /// A named drive of this crate, see `preset`.
    Preset {
        /// Its name.
        name: String,
    },
    /// A rotating drive.
    Hdd(Hdd),
}

/// A rotating drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hdd {
    /// Usable bytes.
    pub capacity_bytes: u64,
    /// Revolutions per minute.
    pub rpm: f64,
}
