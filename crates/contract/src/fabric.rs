//! Configuration of a fabric: switches, links and their queues.
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
    /// Links, 1 to 256. Links and switches must not form a loop.
    pub links: Vec<LinkConfig>,
    /// Seed of loss, jitter and every other random choice.
    #[serde(default)]
    pub seed: u64,
}

impl FabricConfig {
    /// Returns the ends that are ports of the engine, in the order of their numbers.
    pub fn ports(&self) -> impl Iterator<Item = &End> {
        let ends = self.links.iter().flat_map(|link| [&link.a, &link.b]);
        ends.filter(|end| !matches!(end, End::Switch { .. }))
    }
}

/// A learning switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchConfig {
    /// Name in counters and in link ends.
    pub name: String,
    /// Forwarding of frames. Default `store_and_forward`.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// Memory shared by all egress queues. Default: each queue has its own (`queue.bytes`).
    #[serde(default)]
    pub shared_buffer: Option<SharedBuffer>,
    /// Size of the address table, 1 to 1 000 000; frames to addresses that do not fit are flooded.
    /// Default 16 384.
    #[serde(default = "default_addresses_max")]
    pub addresses_max: u32,
    /// Ageing time of an address, seconds. Default 300 (IEEE 802.1D).
    #[serde(default = "default_address_age_s")]
    pub address_age_s: u32,
    /// Routing between VLANs (L3 switch), IPv4. Default: none.
    #[serde(default)]
    pub router: Option<RouterConfig>,
}

/// Routing half of an L3 switch. It answers ARP and echo requests, decrements the time to live, and
/// reports packets that it cannot forward to their senders by ICMP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouterConfig {
    /// Addresses of the router, 1 to 256, each in a VLAN and a network of its own.
    pub interfaces: Vec<RouterInterface>,
    /// Static routes beyond the connected networks, at most 4096. The longest matching prefix
    /// applies.
    #[serde(default)]
    pub routes: Vec<RouteConfig>,
}

/// An address of an L3 switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouterInterface {
    /// VLAN, 1 to 4094. Default 1.
    #[serde(default = "default_vlan")]
    pub vlan: u16,
    /// IPv4 address.
    pub address: Ipv4Addr,
    /// Prefix length of the connected network, 1 to 31.
    pub prefix_length: u8,
    /// MTU: longest IP packet sent into this VLAN, bytes, 576 to 65 535. Default 1500.
    #[serde(default = "default_mtu_bytes")]
    pub mtu_bytes: u32,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// Destination network.
    pub destination: Ipv4Addr,
    /// Prefix length of that network, 0 (the default route) to 32.
    pub prefix_length: u8,
    /// Next hop, in one of the networks of `interfaces`.
    pub via: Ipv4Addr,
}

fn default_vlan() -> u16 {
    1
}

fn default_addresses_max() -> u32 {
    16_384
}
fn default_address_age_s() -> u32 {
    300
}

/// Forwarding of frames by a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forwarding {
    /// Forward a frame once its last byte has arrived.
    #[default]
    StoreAndForward,
    /// Forward a frame once its first 64 bytes have arrived, if the egress link is not faster than
    /// the ingress link.
    CutThrough,
}

/// Memory shared by queues with dynamic thresholds (Choudhury and Hahne 1998): a queue may grow to
/// `alpha` times the free memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedBuffer {
    /// Total size, bytes.
    pub bytes: u64,
    /// Factor, 1/128 to 16. Default 1.
    #[serde(default = "default_one")]
    pub alpha: f64,
}

fn default_one() -> f64 {
    1.0
}

/// A link. `a` and `b` are its ends; each direction has its own properties.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Name in counters.
    pub name: String,
    /// First end.
    pub a: End,
    /// Second end.
    pub b: End,
    /// MTU: longest IP packet carried, bytes, 576 to 65 535; longer frames are dropped and counted.
    /// Default 1500.
    #[serde(default = "default_mtu_bytes")]
    pub mtu_bytes: u32,
    /// Direction from `a` to `b`.
    #[serde(default)]
    pub a_to_b: Direction,
    /// Direction from `b` to `a`.
    #[serde(default)]
    pub b_to_a: Direction,
}

fn default_mtu_bytes() -> u32 {
    1500
}

/// An end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum End {
    /// A network interface of the engine. Ports count from 0 in the order of the links, `a` before
    /// `b`.
    Interface {
        /// Name of the interface.
        name: String,
    },
    /// A port in the shared memory of a virtual machine, which connects with vhost-user. It counts
    /// among the ports of the engine as an interface does.
    VhostUser {
        /// Name in counters, different from those of all other ports.
        name: String,
        /// Unix socket on which the engine listens: a path of at most 107 bytes, or `@` and a name
        /// in the network namespace of the engine (an abstract socket).
        socket: String,
    },
    /// A port of a switch.
    Switch {
        /// Name of the switch.
        name: String,
        /// VLAN of untagged frames, 1 to 4094; tagged frames are refused. `None` makes the port a
        /// trunk, which carries tagged frames (VLAN 1 untagged).
        #[serde(default = "default_access_vlan")]
        vlan: Option<u16>,
        /// VLANs of a trunk, in both directions, each 1 to 4094; frames of other VLANs are refused.
        /// Default: all. Not allowed for access ports.
        #[serde(default)]
        allowed: Option<Vec<u16>>,
    },
}

fn default_access_vlan() -> Option<u16> {
    Some(1)
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Direction {
    /// Rate on the wire, bits per second, including preamble and gap, 1000 to 10^12. `None` means
    /// no serialisation delay.
    pub rate_bits_per_s: Option<u64>,
    /// Propagation delay, µs, 0 to 10^7.
    pub delay_us: f64,
    /// Random addition to the delay of each frame.
    pub jitter: Jitter,
    /// Loss of frames.
    pub loss: Loss,
    /// Share of frames that are duplicated, percent, 0 to 100.
    pub duplicate_percent: f64,
    /// Share of frames in which one payload bit is flipped after the FCS was checked, as by
    /// defective equipment, percent, 0 to 100.
    pub corrupt_percent: f64,
    /// Share of frames that are delayed by `reorder_us`, percent, 0 to 100.
    pub reorder_percent: f64,
    /// Additional delay of reordered frames, µs, 0 to 10^7.
    pub reorder_us: f64,
    /// Queue in front of the serialiser.
    pub queue: Queue,
    /// PAUSE frames (IEEE 802.3x): the receiving end may stop the sending end, so that no frame is
    /// dropped for lack of buffer.
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

/// Random addition to the delay of each frame. Frames stay in order: a frame that would overtake
/// arrives together with the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Jitter {
    /// No jitter.
    #[default]
    None,
    /// Uniform between 0 and `max_us`.
    Uniform {
        /// Upper bound, µs, 0 to 10^7.
        max_us: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean, µs, 0 to 10^7.
        mean_us: f64,
    },
    /// Normal around `mean_us`; negative values count as 0.
    Normal {
        /// Mean, µs, 0 to 10^7.
        mean_us: f64,
        /// Standard deviation, µs, 0 to 10^7.
        deviation_us: f64,
    },
}

/// Loss of frames on the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Independent for each frame.
    Random {
        /// Share of frames lost, percent, 0 to 100.
        percent: f64,
    },
    /// In bursts (Gilbert and Elliott): a good state without loss and a bad state that loses
    /// `bad_percent`.
    Bursts {
        /// Long-run share of frames lost, percent, at most `bad_percent` × `burst_frames` / (1 +
        /// `burst_frames`) and 99.9 % of `bad_percent`.
        percent: f64,
        /// Mean number of frames in a stay in the bad state, at least 1.
        burst_frames: f64,
        /// Loss in the bad state, percent. Default 100.
        #[serde(default = "default_bad_percent")]
        bad_percent: f64,
    },
}

fn default_bad_percent() -> f64 {
    100.0
}

/// An egress queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    /// Capacity, bytes of frames with FCS; at least one frame of the link's MTU. With a shared
    /// buffer it is an additional limit. Default 512 KiB.
    pub bytes: u64,
    /// Discipline before the queue is full.
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

/// Discipline of an egress queue before it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Discipline {
    /// Drop frames only if the queue is full.
    #[default]
    TailDrop,
    /// Random early detection (Floyd and Jacobson 1993).
    Red {
        /// Average queue length above which frames are dropped (or marked) at random, bytes.
        min_bytes: u64,
        /// Average queue length above which all frames are dropped (or marked), bytes.
        max_bytes: u64,
        /// Drop probability just below `max_bytes`, percent. Default 10.
        #[serde(default = "default_red_percent")]
        percent: f64,
        /// Weight of the latest length in the average, 0 to 1. Default 0.002.
        #[serde(default = "default_red_weight")]
        weight: f64,
        /// Mark ECN-capable frames instead of dropping them.
        #[serde(default)]
        ecn: bool,
    },
    /// Marks ECN-capable frames while the queue is longer than a threshold (RFC 8257, DCTCP).
    Mark {
        /// Threshold, bytes.
        above_bytes: u64,
    },
}

fn default_red_percent() -> f64 {
    10.0
}
fn default_red_weight() -> f64 {
    0.002
}
