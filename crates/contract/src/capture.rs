//! Configuration of a capture by the `watch` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packet capture of one interface of the node, both directions, into pcapng files with timestamps
/// in nanoseconds. Starts when the engine is `ready` and ends with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Interface of the engine's network namespace.
    pub interface: String,
    /// Path of the file, which is replaced if it exists. With `rotate_bytes` a number is added to
    /// the name: `lan.pcapng` becomes `lan-00001.pcapng`, and so on.
    pub file: String,
    /// Bytes captured of each packet (snap length) from the Ethernet header on, 144 to 262 144. 142
    /// bytes hold a PDU's header with its digest behind a VLAN tag, IPv6, and TCP with timestamps.
    /// PDU headers beyond the snap length are not captured; `hakaru analyse` counts the headers
    /// that it had to infer. Default 1024, which holds the text of a login.
    #[serde(default = "default_snap_bytes")]
    pub snap_bytes: u32,
    /// Size of the ring shared with the kernel, bytes, 1 MiB to 1 GiB. Packets that arrive faster
    /// than the disk writes them wait in it. Default 16 MiB.
    #[serde(default = "default_ring_bytes")]
    pub ring_bytes: u32,
    /// Size at which a new file is started, bytes, at least 1 MiB. Default: a single file.
    #[serde(default)]
    pub rotate_bytes: Option<u64>,
    /// Maximum number of files, 2 to 10 000. The oldest is deleted when a new one is started.
    /// Requires `rotate_bytes`. Default: no file is deleted.
    #[serde(default)]
    pub files_max: Option<u32>,
    /// Capture only TCP packets with one of these ports at either end; at most 32. Default: all
    /// packets.
    #[serde(default)]
    pub ports: Vec<u16>,
}

fn default_snap_bytes() -> u32 {
    1024
}

fn default_ring_bytes() -> u32 {
    16 << 20
}
