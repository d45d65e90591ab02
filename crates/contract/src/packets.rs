//! Configuration of the `packets` engine.
use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of the `packets` engine, which sends frames from interfaces of its network
/// namespace and counts them where they arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketsConfig {
    /// Interfaces, 1 to 16.
    pub ports: Vec<PacketPort>,
    /// Streams of frames, 1 to 64.
    pub streams: Vec<PacketStream>,
    /// Method of transmission. Default `auto`.
    #[serde(default)]
    pub transmit: TransmitMethod,
    /// Method of reception. Default `auto`.
    #[serde(default)]
    pub receive: ReceiveMethod,
    /// Interval between samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "default_sample_interval_ms")]
    pub sample_interval_ms: u32,
    /// Processors that the engine leaves to the device, unless it may use no others. Default: none.
    #[serde(default)]
    pub avoid_processors: Vec<u32>,
}

/// A port of the generator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketPort {
    /// Name in streams, counters and results.
    pub name: String,
    /// Interface of the engine's network namespace. Each port needs its own.
    pub interface: String,
}

/// A stream: frames from one port to another. They are equal except for their sizes and flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketStream {
    /// Name in results.
    pub name: String,
    /// Port that sends the frames.
    pub from: String,
    /// Port that must receive them, another one.
    pub to: String,
    /// Source MAC address, such as `02:00:00:00:00:01`. Default: that of the interface of `from`.
    #[serde(default)]
    pub source_mac: Option<String>,
    /// Destination MAC address: that of a router, if the path has one. Default: that of the
    /// interface of `to`.
    #[serde(default)]
    pub destination_mac: Option<String>,
    /// Source address.
    pub source_address: Ipv4Addr,
    /// Destination address.
    pub destination_address: Ipv4Addr,
    /// Source UDP port of flow 0. Flow `n` has `source_port + n`, at most 65 535. Default 49 152.
    #[serde(default = "default_source_port")]
    pub source_port: u16,
    /// Destination UDP port. Default 9 (discard).
    #[serde(default = "default_destination_port")]
    pub destination_port: u16,
    /// Number of flows, 1 to 16 384. Frame `k` belongs to flow `k` modulo this number. Default 1.
    #[serde(default = "default_flows")]
    pub flows: u16,
    /// Sizes of frames, 1 to 16, mixed in a fixed order by weight.
    pub sizes: Vec<FrameSize>,
}

/// A size of frames and its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrameSize {
    /// Size of a frame with FCS, bytes, 64 to 9216.
    pub bytes: u16,
    /// Share of this size in proportion to the other weights, 1 to 1000. Default 1.
    #[serde(default = "default_weight")]
    pub weight: u16,
}

/// Method of transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransmitMethod {
    /// AF_XDP if the kernel and the interface allow it, otherwise `sendmmsg`.
    #[default]
    Auto,
    /// AF_XDP in copy mode.
    AfXdp,
    /// Packet sockets, many frames per system call.
    Sendmmsg,
}

/// Method of reception.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveMethod {
    /// The fastest method available: `tpacket_v3`.
    #[default]
    Auto,
    /// A ring shared with the kernel (TPACKET_V3).
    TpacketV3,
    /// AF_XDP in copy mode, with an XDP program, which only root may load. Frames of at most 3844
    /// bytes with FCS.
    AfXdp,
}

fn default_sample_interval_ms() -> u32 {
    1000
}
fn default_source_port() -> u16 {
    49_152
}
fn default_destination_port() -> u16 {
    9
}
fn default_flows() -> u16 {
    1
}
fn default_weight() -> u16 {
    1
}
