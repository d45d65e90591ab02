//! iSCSI login keys of initiators and arrays, with their defaults (RFC 7143 section 13).
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config_error::{ConfigError, refuse};

/// iSCSI login keys that the initiator offers; defaults are those of RFC 7143 unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoginKeys {
    /// `MaxRecvDataSegmentLength` we declare, bytes, 512 to 16 777 215. Default 262 144 (as open-iscsi).
    pub max_recv_data_segment_length: u32,
    /// `MaxBurstLength` offered, bytes. Default 16 776 192 (as open-iscsi).
    pub max_burst_length: u32,
    /// `FirstBurstLength` offered, bytes; cut to `max_burst_length`. Default 262 144 (as open-iscsi).
    pub first_burst_length: u32,
    /// `InitialR2T` offered. Default false (as open-iscsi).
    pub initial_r2t: bool,
    /// `ImmediateData` offered. Default true.
    pub immediate_data: bool,
    /// `MaxOutstandingR2T` offered, 1 to 65 535. Default 1.
    pub max_outstanding_r2t: u32,
    /// `HeaderDigest=CRC32C` offered (with `None` second). Default false.
    pub header_digest: bool,
    /// `DataDigest=CRC32C` offered (with `None` second). Default false.
    pub data_digest: bool,
}

impl Default for LoginKeys {
    fn default() -> Self {
        LoginKeys {
            max_recv_data_segment_length: 262_144,
            max_burst_length: 16_776_192,
            first_burst_length: 262_144,
            initial_r2t: false,
            immediate_data: true,
            max_outstanding_r2t: 1,
            header_digest: false,
            data_digest: false,
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
