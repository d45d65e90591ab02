//! Configuration of the `watch` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of the `watch` engine: counters of the node that it runs on, read from procfs and
/// netlink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchConfig {
    /// Interval between samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "default_sample_interval_ms")]
    pub sample_interval_ms: u32,
    /// Also sample counters of the whole machine (CPU, interrupts, disks, memory, pressure). Enable it for
    /// one watch per machine.
    #[serde(default)]
    pub machine: bool,
    /// Also record each TCP connection as a time series in a file. Default: off.
    #[serde(default)]
    pub tcp: Option<TcpWatch>,
    /// Also capture the packets of an interface into a file. Default: off.
    #[serde(default)]
    pub capture: Option<crate::capture::Capture>,
}

/// Selection of TCP connections of the node's network namespace, of any process, and the level of
/// detail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpWatch {
    /// Interval between readings of every connection, microseconds, 1000 to 60 000 000. A reading
    /// takes about 3 µs of CPU time.
    pub interval_us: u32,
    /// Record only connections with one of these ports at either end; at most 64. Default: all
    /// connections.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Also record single events through the kernel's tracepoints. Default `auto`.
    #[serde(default)]
    pub trace: TcpTrace,
    /// Path of the series, which is replaced if it exists. Its format is in
    /// `docs/reference/watch.md`.
    pub file: String,
    /// Maximum size of the series, bytes. Later records are counted as dropped. Default 4 GiB.
    #[serde(default = "default_file_bytes_max")]
    pub file_bytes_max: u64,
}

/// Event tracing of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TcpTrace {
    /// Trace if the user has the permission; otherwise `ready` reports why not.
    #[default]
    Auto,
    /// Trace, and refuse to start without permission.
    On,
    /// Do not trace.
    Off,
}

fn default_sample_interval_ms() -> u32 {
    1000
}

fn default_file_bytes_max() -> u64 {
    4 << 30
}
