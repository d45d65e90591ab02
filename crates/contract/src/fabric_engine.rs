//! Configuration of the `fabric` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fabric::FabricConfig;

/// Configuration of the `fabric` engine: switches and links between interfaces of the network
/// namespace in which it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricEngineConfig {
    /// Switches and links. Each `interface` is an interface of the namespace, usually an end of a
    /// veth pair.
    pub fabric: FabricConfig,
    /// Interval between samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "default_sample_interval_ms")]
    pub sample_interval_ms: u32,
    /// Busy polling: poll for the next frame for this long before sleeping, microseconds, 0 to 1
    /// 000 000. Uses a whole core and saves the wake-up that a lone frame otherwise pays, on
    /// arrival and at its modelled departure. Default 0.
    #[serde(default)]
    pub spin_us: u32,
}

fn default_sample_interval_ms() -> u32 {
    1000
}
