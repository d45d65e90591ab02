//! iSCSI login keys of an array.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the array declares and agrees to in a login (RFC 7143 section 13). Of lengths and counts the smaller of both sides' holds, of `InitialR2T` the
/// Yes, of `ImmediateData` the No. One connection per session (`MaxConnections=1`), error recovery level 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TargetKeys {
    /// `MaxRecvDataSegmentLength` declared, bytes, 512 to 16 777 215. Default 262 144.
    pub max_recv_data_segment_length: u32,
    /// `MaxBurstLength` agreed to at most, bytes, 512 to 16 777 215. Default 1 048 576.
    pub max_burst_length: u32,
    /// `FirstBurstLength` agreed to at most, bytes, 512 to `max_burst_length`. Default 65 536.
    pub first_burst_length: u32,
    /// Whether `InitialR2T=Yes` is asked for: then no data comes unasked but with the command. Default false.
    pub initial_r2t: bool,
    /// Whether `ImmediateData=Yes` is agreed to. Default true.
    pub immediate_data: bool,
    /// `MaxOutstandingR2T` agreed to at most, 1 to 65 535. Default 8.
    pub max_outstanding_r2t: u16,
}

impl Default for TargetKeys {
    fn default() -> Self {
        TargetKeys {
            max_recv_data_segment_length: 262_144,
            max_burst_length: 1_048_576,
            first_burst_length: 65_536,
            initial_r2t: false,
            immediate_data: true,
            max_outstanding_r2t: 8,
        }
    }
}
