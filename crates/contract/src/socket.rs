//! Options of TCP sockets.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config_error::{ConfigError, refuse};

/// Smallest socket buffer that can be requested, bytes. It holds a few segments.
pub const BUFFER_MIN: u32 = 4096;
/// Lowest pacing rate, bytes per second. A full segment leaves within 2 s.
pub const PACING_MIN: u64 = 1000;
/// Highest pacing rate, bytes per second.
pub const PACING_MAX: u64 = 1 << 40;
/// Largest socket buffer, bytes. Linux doubles the request in a signed 32-bit integer.
pub const BUFFER_MAX: u32 = 1 << 30;

/// Options of TCP sockets, set before they connect or listen, so that the window scale fits the
/// buffer. Omitted options keep the kernel's setting. `ready` reports the effective values of the
/// others (`socket`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SocketOptions {
    /// `SO_SNDBUF`, bytes, 4096 to 2^30. Linux grants twice this, to cover its bookkeeping, and
    /// stops adapting the buffer. Values above `net.core.wmem_max` require CAP_NET_ADMIN; the
    /// engine refuses to run if less is granted. Default: adapted by the kernel, up to
    /// `net.ipv4.tcp_wmem`.
    pub send_buffer_bytes: Option<u32>,
    /// `SO_RCVBUF`, bytes, like `send_buffer_bytes`, with `net.core.rmem_max` and
    /// `net.ipv4.tcp_rmem`. The advertised window is about this large.
    pub receive_buffer_bytes: Option<u32>,
    /// `TCP_CONGESTION`: `cubic`, `reno`, …; 1 to 15 letters, digits, `_` and `-`. Refused if the
    /// kernel lacks it. Default: the route's, or the kernel's.
    pub congestion_control: Option<String>,
    /// `TCP_NOTSENT_LOWAT`, bytes, 1 or more: the socket accepts no more data while at least this
    /// much of the send buffer is unsent. Default: no limit.
    pub not_sent_low_water_bytes: Option<u32>,
    /// `SO_MAX_PACING_RATE`, bytes per second, 1000 to 2^40: TCP itself sends no faster, so data waits
    /// in the socket as behind a NIC of this rate. Default: no limit.
    pub pacing_bytes_per_s: Option<u64>,
    /// `TCP_NODELAY`: small segments are sent without waiting for acknowledgements (Nagle's
    /// algorithm is off). Default true.
    pub no_delay: bool,
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions {
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            congestion_control: None,
            not_sent_low_water_bytes: None,
            pacing_bytes_per_s: None,
            no_delay: true,
        }
    }
}

impl SocketOptions {
    /// Checks the bounds; `field` is the path of these options in the configuration, for the
    /// message.
    ///
    /// # Errors
    /// Returns an error for the first option that is out of bounds.
    pub fn validate(&self, field: &str) -> Result<(), ConfigError> {
        let buffers = [
            ("send_buffer_bytes", self.send_buffer_bytes),
            ("receive_buffer_bytes", self.receive_buffer_bytes),
        ];
        for (name, bytes) in buffers {
            if let Some(bytes) = bytes.filter(|bytes| !(BUFFER_MIN..=BUFFER_MAX).contains(bytes)) {
                return refuse(
                    format!("{field}.{name}"),
                    format!("{bytes} bytes"),
                    format!("use {BUFFER_MIN} to {BUFFER_MAX}"),
                );
            }
        }
        if self.not_sent_low_water_bytes == Some(0) {
            return refuse(
                format!("{field}.not_sent_low_water_bytes"),
                "is 0",
                "use 1 or more, or omit the option for no limit",
            );
        }
        if let Some(rate) = self
            .pacing_bytes_per_s
            .filter(|rate| !(PACING_MIN..=PACING_MAX).contains(rate))
        {
            return refuse(
                format!("{field}.pacing_bytes_per_s"),
                format!("{rate} bytes per second"),
                format!("use {PACING_MIN} to {PACING_MAX}, or omit the option for no limit"),
            );
        }
        let is_algorithm_name = |name: &str| {
            (1..=15).contains(&name.len())
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        match &self.congestion_control {
            Some(name) if !is_algorithm_name(name) => refuse(
                format!("{field}.congestion_control"),
                format!(
                    "`{}` is not the name of a congestion control algorithm",
                    name.escape_debug()
                ),
                "use 1 to 15 letters, digits, `_` and `-`, like cubic or reno",
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One change to the options and the option that the refusal must name.
    type Case = (fn(&mut SocketOptions), &'static str);

    #[test]
    fn every_refusal_names_its_option() {
        let cases: [Case; 6] = [
            (|o| o.send_buffer_bytes = Some(4095), "send_buffer_bytes"),
            (
                |o| o.receive_buffer_bytes = Some(u32::MAX),
                "receive_buffer_bytes",
            ),
            (
                |o| o.not_sent_low_water_bytes = Some(0),
                "not_sent_low_water_bytes",
            ),
            (|o| o.pacing_bytes_per_s = Some(999), "pacing_bytes_per_s"),
            (
                |o| o.pacing_bytes_per_s = Some(u64::MAX),
                "pacing_bytes_per_s",
            ),
            (
                |o| o.congestion_control = Some("../bbr".into()),
                "congestion_control",
            ),
        ];
        assert_eq!(SocketOptions::default().validate("socket"), Ok(()));
        for (change, field) in cases {
            let mut options = SocketOptions::default();
            change(&mut options);
            let error = options.validate("socket").unwrap_err();
            assert_eq!(error.field, format!("socket.{field}"));
        }
    }
}
