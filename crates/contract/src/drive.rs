//! Parameters of the timing model. Part of the contract (exported as JSON Schema).
//!
//! Shapes, units, bounds and defaults only; what the parameters do is told in the modules that use
//! them and in `docs/concepts/drive-model.md`. Bounds are checked by `hakaru_drive::resolve`; named
//! presets are in that crate too.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long requests take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Model {
    /// As fast as the machine: every request completes at once.
    None,
    /// A named model of this crate: `jdsf-2011`.
    Preset {
        /// Its name.
        name: String,
    },
    /// An array of drives.
    Array(ArrayModel),
}

/// Controller, port and RAID groups of drives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayModel {
    /// Counted as resource `controller`.
    pub controller: Controller,
    /// Counted as resource `port/0`; absent where a real or emulated link does that.
    #[serde(default)]
    pub port: Option<Port>,
    /// Counted as `cache`; absent: every request goes to the drives.
    #[serde(default)]
    pub cache: Option<Cache>,
    /// RAID groups, 1 to 64; LUs name the one they lie on by its place in this list.
    pub groups: Vec<Group>,
}

impl ArrayModel {
    /// Whether a power cut may take writes that were answered: SCSI's "write cache enabled".
    #[must_use]
    pub fn has_volatile_write_cache(&self) -> bool {
        self.cache
            .as_ref()
            .is_some_and(|cache| cache.write == WritePolicy::Back && !cache.nonvolatile)
    }
}

/// A controller that spends time on every command before the drives see it. It serves one command
/// at a time, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Cost of one command, microseconds, 0 to 1 000 000.
    pub command_us: f64,
    /// Cost of moving and checking data, microseconds per MiB, 0 to 1 000 000.
    pub data_us_per_mib: f64,
}

/// A port that carries each direction at a given rate, one transfer after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Payload bytes per second in each direction, 1e3 to 1e12. 1 GbE carries about 117e6 with
    /// full-size frames.
    pub rate_bytes_per_s: f64,
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WritePolicy {
    /// As soon as it is in the cache.
    #[default]
    Back,
    /// When it is on the drives. The cache keeps it for reads.
    Through,
}

/// A cache between the controller and the groups, one for all of them (`cache/`). Reads keep what
/// they fetched and writes what they wrote; what was not used for longest gives way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Room for data, bytes: at least 64 segments, at most 4 Mi segments. A segment in use takes
    /// some 250 bytes of the engine's memory.
    pub size_bytes: u64,
    /// Segment, bytes: 4, 8, 16, 32 or 64 KiB. Room is given out in segments; within one every 512
    /// bytes are known apart. Default 16 KiB.
    #[serde(default = "segment")]
    pub segment_bytes: u32,
    /// When a write is answered. Default `back`.
    #[serde(default)]
    pub write: WritePolicy,
    /// It outlives a power cut (battery, flash): a flush has nothing to do and forced unit access
    /// costs nothing. Not so: both wait for the drives. Default true.
    #[serde(default = "yes")]
    pub nonvolatile: bool,
    /// Share of the segments that may hold data which is not yet on drives, percent, 1 to 100;
    /// beyond it writes wait. Default 80.
    #[serde(default = "eighty")]
    pub write_pending_limit_percent: f64,
    /// More than this share of the limit pending starts destaging, percent, 0 to 100. Default 80.
    #[serde(default = "eighty")]
    pub destage_high_percent: f64,
    /// This share of the limit pending, or less, ends it, percent, 0 to `destage_high_percent`.
    /// Default 60.
    #[serde(default = "sixty")]
    pub destage_low_percent: f64,
    /// A group of which nothing was asked for so long is destaged in any case, milliseconds, 0 to 3
    /// 600 000. Default 1000.
    #[serde(default = "thousand")]
    pub destage_idle_ms: f64,
    /// Destages under way at once in each group, 1 to 256. Default 16.
    #[serde(default = "sixteen")]
    pub destage_writes: u32,
    /// Longest destage, bytes, a segment to 16 MiB; never shorter than a row of a group with
    /// parity. Default 1 MiB.
    #[serde(default = "mebibyte")]
    pub destage_bytes_max: u32,
    /// From the controller's end to the answer if the cache serves it, microseconds, 0 to 1 000
    /// 000.
    pub hit_us: f64,
    /// Read ahead of a sequential reader at a time, bytes, a multiple of 512 up to 16 MiB; one to
    /// two such stretches are kept ahead of it. 0: never. Default 1 MiB.
    #[serde(default = "mebibyte")]
    pub read_ahead_bytes: u32,
    /// Reads in sequence from which on a reader is sequential, 2 to 1000. Default 3.
    #[serde(default = "three")]
    pub read_ahead_after: u32,
}

/// How a group spreads data over its drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Raid {
    /// Striping.
    Raid0,
    /// Mirrored pairs, striped.
    Raid1,
    /// Striping with rotating parity (left-symmetric); small writes read old data and parity first.
    Raid5,
}

/// A RAID group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Layout.
    pub raid: Raid,
    /// Number of drives: 1 or more (RAID 0), even (RAID 1), 3 or more (RAID 5); at most 64.
    pub drives: u32,
    /// Bytes on one drive before the next one is used: a multiple of 512, up to 16 MiB.
    pub stripe_unit_bytes: u32,
    /// How the group's addresses lie on its drives. Default: in order.
    #[serde(default)]
    pub extents: Option<Extents>,
    /// What the drives are.
    pub drive: Drive,
}

/// Space that is given out in extents which do not lie in order, as image files of many VMs in one
/// file system, or thin LUs in one pool, come to lie (`extents.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extents {
    /// Bytes that lie together: a multiple of the stripe (`stripe_unit_bytes` times the drives that
    /// hold data).
    pub extent_bytes: u64,
    /// Neighbouring extents are scattered over this many bytes of the group: a multiple of
    /// `extent_bytes`, at most the group's capacity. The group consists of such spans, and what is
    /// left after the last whole one lies in order.
    pub span_bytes: u64,
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Drive {
    /// A named drive of this crate: `sas-15k-146`, `sas-15k-300` (hdd), `sata-ssd-960`,
    /// `nvme-ssd-2000` (ssd).
    Preset {
        /// Its name.
        name: String,
    },
    /// A rotating drive.
    Hdd(Hdd),
    /// A flash drive.
    Ssd(Ssd),
}

/// A rotating drive without read-ahead and with its write cache off, as arrays run them.
///
/// The three seek times are those that a data sheet prints; the curve through them is Lee and
/// Katz's (`seek.rs`). Rates and heads give the geometry (`geometry.rs`): an inner track holds
/// fewer bytes than an outer one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hdd {
    /// Usable bytes, 1 MiB to 64 TiB, a multiple of 512.
    pub capacity_bytes: u64,
    /// Revolutions per minute, 1000 to 60 000. Source: data sheet.
    pub rpm: f64,
    /// Surfaces with data, 1 to 64. Source: data sheet.
    pub heads: u32,
    /// Media rate of the outermost zone, bytes of user data per second under one head, 1e6 to 1e10.
    /// Source: data sheet ("sustainable transfer rate, maximum").
    pub rate_outer_bytes_per_s: f64,
    /// Media rate of the innermost zone, at most the outermost one's. Source: data sheet
    /// ("minimum").
    pub rate_inner_bytes_per_s: f64,
    /// Zones of equal numbers of cylinders, 1 to 64, between which the rate falls evenly. Default
    /// 16.
    #[serde(default = "sixteen")]
    pub zones: u32,
    /// Seek to the next cylinder for a read, milliseconds, above 0. Source: data sheet ("single
    /// track").
    pub seek_track_ms: f64,
    /// Seek averaged over all pairs of cylinders for a read, milliseconds. Source: data sheet
    /// ("average").
    pub seek_average_ms: f64,
    /// Seek over all cylinders for a read, milliseconds. Source: data sheet ("full stroke").
    pub seek_full_ms: f64,
    /// Added to a seek or head switch that ends in a write: the head must settle closer,
    /// milliseconds, 0 to 10. Source: data sheet (average write seek less average read seek).
    pub write_settle_ms: f64,
    /// Switch to another head of the cylinder, milliseconds, 0 to 10. Default: `seek_track_ms`.
    #[serde(default)]
    pub head_switch_ms: Option<f64>,
    /// From a command's arrival at an idle drive to the start of the seek, microseconds, 0 to 10
    /// 000; hidden behind the command before when the drive is busy. Default 0. Source: data sheet
    /// ("controller overhead").
    #[serde(default)]
    pub command_us: f64,
    /// Commands that the drive takes at once and chooses among, 1 to 1024; further ones wait in the
    /// array, in order. Source: data sheet ("queue depth").
    pub queue_depth: u32,
    /// Age from which a command is overdue, milliseconds since the array handed it to the drive, 0
    /// to 60 000. While no command is overdue the one with the shortest access time is served
    /// first; 0 makes the drive serve in order.
    pub age_limit_ms: f64,
    /// While commands are overdue, every how many choices the oldest command is served, 1 to 1000;
    /// the choices between stay shortest access time first. Default 1: strictly oldest first.
    #[serde(default = "one")]
    pub overdue_every: u32,
}

/// A flash drive: a controller, a host interface, and dies behind channels, with a page-mapped
/// translation layer (`ssd/`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// Usable bytes, 64 MiB to 64 TiB, a multiple of `mapping_bytes`. Source: data sheet.
    pub capacity_bytes: u64,
    /// Flash beyond the usable bytes that garbage collection has to work with, percent of those, 1
    /// to 1000. Source: raw flash of the drive, less its own tables and parity.
    pub over_provisioning_percent: f64,
    /// Channels, 1 to 64. Source: tear-down, data sheet of the controller.
    pub channels: u32,
    /// Dies on each channel, 1 to 64. Source: flash capacity over that of a die.
    pub dies_per_channel: u32,
    /// Planes of a die, which read, program and erase together, 1 to 8. Source: data sheet of the
    /// flash.
    pub planes: u32,
    /// Page of one plane, bytes, 512 to 65 536, a power of two. Source: data sheet of the flash.
    pub page_bytes: u32,
    /// Pages of a block of one plane, 16 to 16 384. Source: data sheet of the flash.
    pub pages_per_block: u32,
    /// From array to register, microseconds, 0.1 to 10 000 (tR). Source: data sheet of the flash.
    pub read_us: f64,
    /// From register to array, microseconds, 0.1 to 100 000, mean over the pages of a block
    /// (tPROG). Source: data sheet of the flash.
    pub program_us: f64,
    /// A block of every plane, microseconds, 0.1 to 1 000 000 (tBERS). Source: data sheet of the
    /// flash.
    pub erase_us: f64,
    /// Rate of one channel, bytes per second, 1e6 to 1e11. Source: data sheet of the flash
    /// (interface).
    pub channel_bytes_per_s: f64,
    /// Unit of the map from logical to physical, bytes: 512 up to a page of all planes, a power of
    /// two. A write of part of one reads it first. Default 4096.
    #[serde(default = "map_unit")]
    pub mapping_bytes: u32,
    /// Memory in which writes are answered, safe from a power cut, bytes: 0, or at least two pages
    /// of all planes; at most 64 GiB. 0: a write is answered when it is in flash; `mapping_bytes`
    /// must then be a page of all planes.
    pub buffer_bytes: u64,
    /// Rate of the host interface in each direction, bytes per second, 1e6 to 1e12. Source: data
    /// sheet (sequential read).
    pub interface_bytes_per_s: f64,
    /// Time of the drive's controller for each command, one after the other, microseconds, 0 to 10 000. Source: data sheet (highest random
    /// read IOPS).
    pub command_us: f64,
    /// Further time of each command that does not keep others waiting, microseconds, 0 to 100 000.
    /// Source: data sheet (latency).
    pub latency_us: f64,
    /// Commands that the drive works on at once, 1 to 65 536; further ones wait in the array.
    /// Source: data sheet or interface.
    pub queue_depth: u32,
    /// Starts full and overwritten at random until garbage collection costs what it always will
    /// (steady state); else starts empty (fresh out of the box). Default true.
    #[serde(default = "yes")]
    pub preconditioned: bool,
}

fn map_unit() -> u32 {
    4096
}
fn sixteen() -> u32 {
    16
}
fn one() -> u32 {
    1
}
fn segment() -> u32 {
    16 << 10
}
fn yes() -> bool {
    true
}
fn eighty() -> f64 {
    80.0
}
fn sixty() -> f64 {
    60.0
}
fn thousand() -> f64 {
    1000.0
}
fn mebibyte() -> u32 {
    1 << 20
}
fn three() -> u32 {
    3
}
