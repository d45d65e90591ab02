//! iSCSI login keys of initiators and arrays, with their defaults (RFC 7143 section 13).
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::config_error::{ConfigError, refuse};

/// iSCSI login keys (RFC 7143 section 13): what an initiator offers, or what an array declares and
/// agrees to. Of lengths and counts the smaller of both sides' holds, of `InitialR2T` the Yes, of
/// `ImmediateData` the No. One connection per session (`MaxConnections=1`), error recovery level 0.
///
/// The defaults here are an initiator's, which are open-iscsi's except where noted; an array's
/// differ and stand in its configuration. Both are defined here and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoginKeys {
    /// `MaxRecvDataSegmentLength` declared, bytes, 512 to 16 777 215. Default 262 144; array 262
    /// 144.
    pub max_recv_data_segment_length: u32,
    /// `MaxBurstLength` offered, or agreed to at most, bytes, 512 to 16 777 215. Default 16 776
    /// 192; array 1 048 576.
    pub max_burst_length: u32,
    /// `FirstBurstLength` offered, or agreed to at most, bytes, 512 to 16 777 215; an initiator's
    /// is cut to `max_burst_length`, an array's may not be above it. Default 262 144; array 65 536.
    pub first_burst_length: u32,
    /// `InitialR2T=Yes` offered, or asked for: then no data comes unasked but with the command.
    /// Default false.
    pub initial_r2t: bool,
    /// `ImmediateData=Yes` offered, or agreed to. Default true.
    pub immediate_data: bool,
    /// `MaxOutstandingR2T` offered, or agreed to at most, 1 to 65 535. Default 1; array 8.
    pub max_outstanding_r2t: u32,
    /// `HeaderDigest=CRC32C` offered (with `None` second), or agreed to. Default false; array true.
    pub header_digest: bool,
    /// `DataDigest=CRC32C` offered (with `None` second), or agreed to. Default false; array true.
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
    /// Returns the defaults of an array.
    #[must_use]
    pub fn of_array() -> LoginKeys {
        LoginKeys {
            max_recv_data_segment_length: 262_144,
            max_burst_length: 1_048_576,
            first_burst_length: 65_536,
            initial_r2t: false,
            immediate_data: true,
            max_outstanding_r2t: 8,
            header_digest: true,
            data_digest: true,
        }
    }

    /// Reads the keys of an array: those left out have an array's defaults.
    ///
    /// # Errors
    /// As any struct: an unknown key, or a value of the wrong type.
    pub(crate) fn deserialize_of_array<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<LoginKeys, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            remote = "LoginKeys",
            default = "LoginKeys::of_array",
            deny_unknown_fields
        )]
        struct OfArray {
            max_recv_data_segment_length: u32,
            max_burst_length: u32,
            first_burst_length: u32,
            initial_r2t: bool,
            immediate_data: bool,
            max_outstanding_r2t: u32,
            header_digest: bool,
            data_digest: bool,
        }
        OfArray::deserialize(deserializer)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArrayConfig;

    #[test]
    fn keys_that_an_array_leaves_out_have_an_arrays_defaults() {
        let config = |login: &str| {
            let text = format!(
                r#"{{"target_name": "iqn.2011-10.example:a", "portals": [], "lus": [],
                "model": {{"kind": "none"}} {login}}}"#
            );
            serde_json::from_str::<ArrayConfig>(&text).map(|config| config.login)
        };
        assert_eq!(config("").unwrap(), LoginKeys::of_array());
        let given = config(r#", "login": {"initial_r2t": true, "max_burst_length": 512}"#).unwrap();
        assert!(given.initial_r2t && given.header_digest);
        assert_eq!(
            (given.max_burst_length, given.max_outstanding_r2t),
            (512, 8)
        );
        assert!(config(r#", "login": {"max_bursts": 1}"#).is_err());
    }
}
