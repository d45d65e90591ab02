//! Configuration of the `probe` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config_error::{ConfigError, refuse};
use crate::socket::SocketOptions;

/// Maximum number of streams of an engine.
pub const STREAMS_MAX: u32 = 1024;

/// Configuration of the `probe` engine, which measures a network path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
pub enum ProbeConfig {
    /// Accepts probes: discards or sends TCP data, and echoes small messages.
    Server {
        /// `address:port`. With port 0 the kernel chooses a port.
        listen: String,
        /// Options of the accepted sockets. Default: those of the kernel.
        #[serde(default)]
        socket: SocketOptions,
    },
    /// Measures the round-trip time, then the TCP throughput of each direction.
    Client {
        /// `address:port` of the server.
        connect: String,
        /// Seconds per direction.
        seconds: f64,
        /// Number of round trips to time.
        round_trips: u32,
    },
    /// Sends plain TCP data to a server for as long as a load runs, and samples the kernel's
    /// counters of its connections.
    Stream(StreamConfig),
}

/// Plain TCP streams to a server, which discards the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamConfig {
    /// `address:port` of the server.
    pub connect: String,
    /// Number of connections, 1 to 1024.
    pub streams: u32,
    /// Options of the sockets. Default: those of the kernel.
    #[serde(default)]
    pub socket: SocketOptions,
    /// Seconds of sending before the measurement, 0 to 3600.
    pub warmup_s: f64,
    /// Seconds of the measurement, 0.05 to 86 400.
    pub measure_s: f64,
    /// Interval of the samples, milliseconds, 100 to 60 000.
    pub sample_interval_ms: u32,
}

impl StreamConfig {
    /// Checks the bounds.
    ///
    /// # Errors
    /// Returns an error for the first field that is out of bounds.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            let hint = format!("use 1 to {STREAMS_MAX}");
            return refuse("streams", self.streams.to_string(), hint);
        }
        if !(0.0..=3600.0).contains(&self.warmup_s) {
            return refuse("warmup_s", self.warmup_s.to_string(), "use 0 to 3600");
        }
        if !(0.05..=86_400.0).contains(&self.measure_s) {
            return refuse("measure_s", self.measure_s.to_string(), "use 0.05 to 86400");
        }
        self.socket.validate("socket")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One change to the configuration and the field that the refusal must name.
    type Case = (fn(&mut StreamConfig), &'static str);

    #[test]
    fn every_refusal_names_its_field() {
        let valid = StreamConfig {
            connect: "10.77.0.1:3260".into(),
            streams: 1,
            socket: SocketOptions::default(),
            warmup_s: 0.0,
            measure_s: 1.0,
            sample_interval_ms: 100,
        };
        assert_eq!(valid.validate(), Ok(()));
        let cases: [Case; 5] = [
            (|c| c.streams = 0, "streams"),
            (|c| c.streams = STREAMS_MAX + 1, "streams"),
            (|c| c.warmup_s = f64::NAN, "warmup_s"),
            (|c| c.measure_s = 0.0, "measure_s"),
            (
                |c| c.socket.send_buffer_bytes = Some(1),
                "socket.send_buffer_bytes",
            ),
        ];
        for (change, field) in cases {
            let mut config = valid.clone();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().field, field);
        }
    }
}
