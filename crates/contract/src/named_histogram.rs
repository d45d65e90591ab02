//! Histograms in messages.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mergeable histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedHistogram {
    /// Entity, or `vms` for all VMs together.
    pub entity: String,
    /// Name: `read_latency_ns`, `write_latency_ns`, ….
    pub name: String,
    /// HdrHistogram V2, deflated, base64: readable by every HDR tool. The name ends with the unit
    /// of the values, mostly nanoseconds. Values have 3 significant digits.
    pub hdr: String,
}
