//! iSCSI login keys of initiators and arrays, with their defaults (RFC 7143 section 13).
use hakaru_wire::iscsi::keys::{Digest, Offer};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::config_error::{ConfigError, refuse};

/// iSCSI login keys (RFC 7143 section 13): the values that an initiator offers, or that an array
/// declares and accepts. For lengths and counts, the smaller of both sides' values applies. For
/// `InitialR2T`, Yes prevails; for `ImmediateData`, No. Sessions have one connection
/// (`MaxConnections=1`) and error recovery level 0.
///
/// The defaults are those of an initiator, equal to open-iscsi's except where noted. The defaults
/// of an array differ and are given as well. Both are defined only here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoginKeys {
    /// `MaxRecvDataSegmentLength` declared, bytes, 512 to 16 777 215. Default 262 144, for an array
    /// as well.
    pub max_recv_data_segment_length: u32,
    /// `MaxBurstLength` offered, or the maximum accepted, bytes, 512 to 16 777 215. Default 16 776
    /// 192; array 1 048 576.
    pub max_burst_length: u32,
    /// `FirstBurstLength` offered, or the maximum accepted, bytes, 512 to 16 777 215. An
    /// initiator's is reduced to `max_burst_length`; an array's must not exceed it. Default 262
    /// 144; array 65 536.
    pub first_burst_length: u32,
    /// `InitialR2T=Yes` offered, or required: no unsolicited data except immediate data. Default
    /// false.
    pub initial_r2t: bool,
    /// `ImmediateData=Yes` offered, or accepted. Default true.
    pub immediate_data: bool,
    /// `MaxOutstandingR2T` offered, or the maximum accepted, 1 to 65 535. Default 1; array 8.
    pub max_outstanding_r2t: u32,
    /// `HeaderDigest=CRC32C` offered (with `None` second), or accepted. Default false; array true.
    pub header_digest: bool,
    /// `DataDigest=CRC32C` offered (with `None` second), or accepted. Default false; array true.
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

    /// Returns these keys as one side of a negotiation. Time2Retain is 0: at error recovery level 0
    /// no task is retained.
    #[must_use]
    pub fn offer(&self) -> Offer {
        let digests = |crc32c: bool| -> &'static [Digest] {
            if crc32c {
                &[Digest::Crc32c, Digest::None]
            } else {
                &[Digest::None]
            }
        };
        Offer {
            header_digests: digests(self.header_digest),
            data_digests: digests(self.data_digest),
            initial_r2t: self.initial_r2t,
            immediate_data: self.immediate_data,
            max_recv_data_segment_length: self.max_recv_data_segment_length,
            max_burst_length: self.max_burst_length,
            first_burst_length: self.first_burst_length,
            max_outstanding_r2t: self.max_outstanding_r2t,
            default_time2retain: 0,
            ..Offer::default()
        }
    }

    /// Deserialises the keys of an array: omitted keys take an array's defaults.
    ///
    /// # Errors
    /// An unknown key, or a value of the wrong type.
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

    /// Checks the ranges of RFC 7143 section 13.
    ///
    /// # Errors
    /// Returns an error for the first key that is out of range.
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
                    "use 512 to 16777215",
                );
            }
        }
        if !(1..=65_535).contains(&self.max_outstanding_r2t) {
            let problem = self.max_outstanding_r2t.to_string();
            return refuse("login.max_outstanding_r2t", problem, "use 1 to 65535");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArrayConfig;

    #[test]
    fn omitted_keys_of_an_array_have_array_defaults() {
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
