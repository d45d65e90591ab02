//! What a fabric is made of.
use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Switches and links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricConfig {
    /// Switches, 0 to 64.
    #[serde(default)]
    pub switches: Vec<SwitchConfig>,
    /// Links, 1 to 256. Together with the switches they form no loop.
    pub links: Vec<LinkConfig>,
    /// Seed of loss, jitter and all else that is drawn.
    #[serde(default)]
    pub seed: u64,
}

/// A learning switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchConfig {
    /// Its name in counters and links.
    pub name: String,
    /// When a frame may go on. Default `store_and_forward`.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// Memory that all egress queues share; without it each has its own (`queue.bytes`).
    #[serde(default)]
    pub shared_buffer: Option<SharedBuffer>,
    /// Addresses it remembers, 1 to 1 000 000; beyond that it floods. Default 16 384.
    #[serde(default = "addresses")]
    pub addresses_max: u32,
    /// How long it remembers one that is silent, seconds. Default 300 (IEEE 802.1D).
    #[serde(default = "age")]
    pub address_age_s: u32,
    /// It is an L3 switch: routes IPv4 between its VLANs. Default: it is not.
    #[serde(default)]
    pub router: Option<RouterConfig>,
}

/// The routing half of an L3 switch. It answers ARP and echoes, takes one off the time to live and
/// tells senders of what it cannot pass on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouterConfig {
    /// Its addresses, 1 to 256, each in a VLAN and a network of its own.
    pub interfaces: Vec<RouterInterface>,
    /// Beyond the networks it is in, up to 4096; the longest prefix counts.
    #[serde(default)]
    pub routes: Vec<RouteConfig>,
}

/// An address of an L3 switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouterInterface {
    /// VLAN, 1 to 4094. Default 1.
    #[serde(default = "vlan_one")]
    pub vlan: u16,
    /// IPv4 address.
    pub address: Ipv4Addr,
    /// Of the network it is in, 1 to 31.
    pub prefix_length: u8,
    /// Longest IP packet it sends into this VLAN, 576 to 65 535. Default 1500.
    #[serde(default = "mtu")]
    pub mtu_bytes: u32,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// The network it leads to.
    pub destination: Ipv4Addr,
    /// Of that network, 0 (the default route) to 32.
    pub prefix_length: u8,
    /// The next router, in one of the networks of `interfaces`.
    pub via: Ipv4Addr,
}

fn vlan_one() -> u16 {
    1
}

fn addresses() -> u32 {
    16_384
}
fn age() -> u32 {
    300
}

/// When a switch passes a frame on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forwarding {
    /// When its last byte has come.
    #[default]
    StoreAndForward,
    /// When its first 64 bytes have come, if the way out is not faster than the way in.
    CutThrough,
}

/// Memory shared by dynamic threshold (Choudhury and Hahne 1998): a queue may grow to `alpha` times
/// what is free.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedBuffer {
    /// All of it, bytes.
    pub bytes: u64,
    /// 1/128 to 16. Default 1.
    #[serde(default = "one")]
    pub alpha: f64,
}

fn one() -> f64 {
    1.0
}

/// A link. `a` and `b` are its ends; each direction has properties of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Its name in counters.
    pub name: String,
    /// One end.
    pub a: End,
    /// The other.
    pub b: End,
    /// Longest IP packet it carries, bytes, 576 to 65 535; longer frames are dropped and counted.
    /// Default 1500.
    #[serde(default = "mtu")]
    pub mtu_bytes: u32,
    /// From `a` to `b`.
    #[serde(default)]
    pub a_to_b: Direction,
    /// From `b` to `a`.
    #[serde(default)]
    pub b_to_a: Direction,
}

fn mtu() -> u32 {
    1500
}

/// An end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum End {
    /// An interface that the shell reads and writes. Ports count from 0 in the order of the links,
    /// `a` before `b`.
    Interface {
        /// Its name.
        name: String,
    },
    /// A port of a switch.
    Switch {
        /// Which.
        name: String,
        /// VLAN of untagged frames, 1 to 4094; tagged ones are refused. `None`: a trunk, which
        /// carries them tagged (VLAN 1 untagged).
        #[serde(default = "vlan_1")]
        vlan: Option<u16>,
        /// VLANs that a trunk carries, in and out, each 1 to 4094; frames of others are refused.
        /// Default: all. Not for access ports.
        #[serde(default)]
        allowed: Option<Vec<u16>>,
    },
}

fn vlan_1() -> Option<u16> {
    Some(1)
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Direction {
    /// Bits per second on the wire, preamble and gap included, 1000 to 10^12; `None`: no
    /// serialisation.
    pub rate_bits_per_s: Option<u64>,
    /// Propagation, µs, 0 to 10^7.
    pub delay_us: f64,
    /// What is added to the delay of each frame.
    pub jitter: Jitter,
    /// Frames that vanish.
    pub loss: Loss,
    /// Share of frames that arrive twice, percent.
    pub duplicate_percent: f64,
    /// Share of frames in which one bit of the payload is turned over after the FCS was checked, as
    /// defective equipment does, percent.
    pub corrupt_percent: f64,
    /// Share of frames that are held back by `reorder_us`, percent.
    pub reorder_percent: f64,
    /// How long those are held back, µs.
    pub reorder_us: f64,
    /// Where frames wait for the serialiser.
    pub queue: Queue,
    /// 802.3x: the end that receives may stop the end that sends, so that nothing is dropped for
    /// want of room.
    pub pause: bool,
}

impl Default for Direction {
    fn default() -> Self {
        Self {
            rate_bits_per_s: None,
            delay_us: 0.0,
            jitter: Jitter::None,
            loss: Loss::None,
            duplicate_percent: 0.0,
            corrupt_percent: 0.0,
            reorder_percent: 0.0,
            reorder_us: 0.0,
            queue: Queue::default(),
            pause: false,
        }
    }
}

/// What is added to the delay of each frame. Frames stay in order: one that would overtake arrives
/// with the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Jitter {
    /// Nothing.
    #[default]
    None,
    /// 0 to `max_us`, all alike.
    Uniform {
        /// µs.
        max_us: f64,
    },
    /// Exponential.
    Exponential {
        /// µs.
        mean_us: f64,
    },
    /// Normal, around `mean_us`; below 0 counts as 0.
    Normal {
        /// µs.
        mean_us: f64,
        /// Standard deviation, µs.
        deviation_us: f64,
    },
}

/// Frames that vanish on the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each by itself.
    Random {
        /// 0 to 100.
        percent: f64,
    },
    /// In bursts (Gilbert and Elliott): a good state that loses nothing and a bad one that loses
    /// `bad_percent`.
    Bursts {
        /// Share of frames lost in the long run, percent, below `bad_percent`.
        percent: f64,
        /// Frames that a stay in the bad state lasts on average, at least 1.
        burst_frames: f64,
        /// Loss in the bad state, percent. Default 100.
        #[serde(default = "hundred")]
        bad_percent: f64,
    },
}

fn hundred() -> f64 {
    100.0
}

/// An egress queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    /// Room, bytes of frames with FCS; at least one frame of the link's MTU. With a shared buffer:
    /// a bound besides it. Default 512 KiB.
    pub bytes: u64,
    /// What happens before it is full.
    pub discipline: Discipline,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            bytes: 512 << 10,
            discipline: Discipline::TailDrop,
        }
    }
}

/// What an egress queue does before it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Discipline {
    /// Nothing.
    #[default]
    TailDrop,
    /// Random early detection (Floyd and Jacobson 1993).
    Red {
        /// Average queue from which frames are dropped (or marked), bytes.
        min_bytes: u64,
        /// Average queue from which all are, bytes.
        max_bytes: u64,
        /// Probability just below `max_bytes`, percent. Default 10.
        #[serde(default = "ten")]
        percent: f64,
        /// Weight of the newest length in the average, 0 to 1. Default 0.002.
        #[serde(default = "weight")]
        weight: f64,
        /// Mark frames that allow it (ECN) instead of dropping them.
        #[serde(default)]
        ecn: bool,
    },
    /// Marks frames that allow it (ECN) while the queue is longer than this (RFC 8257, DCTCP).
    Mark {
        /// Bytes.
        above_bytes: u64,
    },
}

fn ten() -> f64 {
    10.0
}
fn weight() -> f64 {
    0.002
}
