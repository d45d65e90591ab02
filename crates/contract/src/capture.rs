//! Configuration of a capture by the `watch` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packets of one interface of the node, both ways, into pcapng files with times in nanoseconds.
/// Begins when the engine is `ready`, ends with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Interface of the engine's network namespace.
    pub interface: String,
    /// The file; replaced if it is there. With `rotate_bytes` its name gets a number: `lan.pcapng`
    /// becomes `lan-00001.pcapng`, and so on.
    pub file: String,
    /// Bytes kept of each packet, from the Ethernet header on, 144 to 262 144: 142 hold a PDU's
    /// header with its digest behind a VLAN tag, IPv6, and TCP with timestamps. Headers of PDUs
    /// that lie behind the limit are not in the capture; `hakaru analyse` counts those it had to
    /// assume. Default 1024, which holds the text of a login.
    #[serde(default = "snap")]
    pub snap_bytes: u32,
    /// Ring shared with the kernel, bytes, 1 MiB to 1 GiB: what comes faster than the disk takes it
    /// waits there. Default 16 MiB.
    #[serde(default = "ring")]
    pub ring_bytes: u32,
    /// A file that has this size is followed by another, bytes, at least 1 MiB. Default: one file.
    #[serde(default)]
    pub rotate_bytes: Option<u64>,
    /// Number of files of which the oldest is deleted when another begins, 2 to 10 000; needs
    /// `rotate_bytes`. Default: none is deleted.
    #[serde(default)]
    pub files_max: Option<u32>,
    /// Only TCP with one of these ports at either end; at most 32. Default: everything.
    #[serde(default)]
    pub ports: Vec<u16>,
}

fn snap() -> u32 {
    1024
}

fn ring() -> u32 {
    16 << 20
}
