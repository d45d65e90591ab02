//! Configuration of the `watch` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of the `watch` engine: counters of the node it runs in, read from procfs and
/// netlink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchConfig {
    /// Distance of samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "second")]
    pub sample_interval_ms: u32,
    /// Whole-machine counters too (CPU, interrupts, memory, pressure); one watch per machine does
    /// that.
    #[serde(default)]
    pub machine: bool,
    /// Single TCP connections too, as a series in a file. Default: none.
    #[serde(default)]
    pub tcp: Option<TcpWatch>,
    /// Packets of an interface too, into a file. Default: none.
    #[serde(default)]
    pub capture: Option<crate::capture::Capture>,
}

/// Which TCP connections of the node's network namespace are watched, whoever's they are, and how
/// closely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpWatch {
    /// Distance of readings of every connection, microseconds, 1000 to 60 000 000. A reading takes
    /// some 3 µs of a CPU.
    pub interval_us: u32,
    /// Connections with one of these ports at either end; at most 64. Default: all connections.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Event by event as well, through the kernel's tracepoints. Default `auto`.
    #[serde(default)]
    pub trace: TcpTrace,
    /// Where the series goes; replaced if it is there. Its form is in `docs/reference/watch.md`.
    pub file: String,
    /// The series ends at this size; what would follow is counted as dropped. Default 4 GiB.
    #[serde(default = "four_gib")]
    pub file_bytes_max: u64,
}

/// Whether TCP is traced event by event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TcpTrace {
    /// If this user may; else `ready` says why not.
    #[default]
    Auto,
    /// Refuse to begin without.
    On,
    /// Never.
    Off,
}

fn second() -> u32 {
    1000
}

fn four_gib() -> u64 {
    4 << 30
}
