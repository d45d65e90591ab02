//! Configuration of the `fabric` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fabric::FabricConfig;

/// Configuration of the `fabric` engine: switches and links between interfaces of the network
/// namespace it runs in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricEngineConfig {
    /// Switches and links. Each `interface` is one of the namespace's, mostly an end of a veth
    /// pair.
    pub fabric: FabricConfig,
    /// Distance of samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "second")]
    pub sample_interval_ms: u32,
    /// Look for the next frame for this long before sleeping, microseconds, 0 to 1 000 000. It
    /// costs a core and saves the wake-up that a lone frame otherwise pays, on its way in and at
    /// its modelled instant. Default 0.
    #[serde(default)]
    pub spin_us: u32,
}

fn second() -> u32 {
    1000
}
