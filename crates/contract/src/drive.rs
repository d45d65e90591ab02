//! Parameters of the timing model. Part of the contract (exported as JSON Schema).
//!
//! This module defines shapes, units, bounds and defaults only. The modules that use a parameter
//! and `docs/concepts/drive-model.md` describe its effect. `hakaru_drive::resolve` checks the
//! bounds; the named presets are in that crate as well.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Timing model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Model {
    /// No model: every request completes as fast as the machine allows.
    None,
    /// A named model: `jdsf-2011`.
    Preset {
        /// Name of the model.
        name: String,
    },
    /// An array of drives.
    Array(ArrayModel),
}

/// Controller, port and RAID groups of drives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayModel {
    /// The controller; counted as resource `controller`.
    pub controller: Controller,
    /// The port; counted as resource `port/0`. Omit it if a real or emulated link limits the rate.
    #[serde(default)]
    pub port: Option<Port>,
    /// The cache; counted as `cache`. Default: none, every request goes to the drives.
    #[serde(default)]
    pub cache: Option<Cache>,
    /// RAID groups, 1 to 64. LUs refer to a group by its index in this list.
    pub groups: Vec<Group>,
}

impl ArrayModel {
    /// Returns whether a power cut may lose acknowledged writes: SCSI's "write cache enabled".
    #[must_use]
    pub fn has_volatile_write_cache(&self) -> bool {
        self.cache
            .as_ref()
            .is_some_and(|cache| cache.write == WritePolicy::Back && !cache.nonvolatile)
    }
}

/// A controller that spends time on every command before the drives receive it. It serves one
/// command at a time, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Cost of one command, microseconds, 0 to 1 000 000.
    pub command_us: f64,
    /// Cost of moving and checking data, microseconds per MiB, 0 to 1 000 000.
    pub data_us_per_mib: f64,
    /// Additional latency of each command that does not delay other commands, microseconds, 0 to
    /// 100 000. Default 0.
    #[serde(default)]
    pub latency_us: f64,
}

/// A port that carries transfers in sequence, each direction at a given rate or both together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Payload bytes per second in each direction, or of both directions together if `shared`, 1e3
    /// to 1e12. 1 GbE carries about 117e6 with full-size frames.
    pub rate_bytes_per_s: f64,
    /// Both directions share the rate: one transfer at a time, in order of arrival, as over a
    /// parallel bus (PCI) between port and memory. Default false: the directions are independent.
    #[serde(default)]
    pub shared: bool,
    /// Time of each transfer besides its data, microseconds, 0 to 10 000. Default 0.
    #[serde(default)]
    pub command_us: f64,
}

/// Write policy of the cache: when a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WritePolicy {
    /// Write-back: acknowledged once it is in the cache.
    #[default]
    Back,
    /// Write-through: acknowledged once it is on the drives. The cache keeps it for reads.
    Through,
}

/// A cache between the controller and the groups, shared by all of them (`cache/`). It keeps data
/// read and data written; the least recently used segment is evicted first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Size, bytes: at least 64 segments, at most 4 Mi segments. Each segment in use takes about
    /// 250 bytes of the engine's memory.
    pub size_bytes: u64,
    /// Segment, bytes: 4, 8, 16, 32 or 64 KiB. The unit of allocation; validity is tracked per 512
    /// bytes within it. Default 16 KiB.
    #[serde(default = "default_segment_bytes")]
    pub segment_bytes: u32,
    /// Write policy. Default `back`.
    #[serde(default)]
    pub write: WritePolicy,
    /// The cache survives a power cut (battery, flash), so a flush has nothing to do and forced
    /// unit access has no additional cost. Otherwise both wait for the drives. Default true.
    #[serde(default = "default_true")]
    pub nonvolatile: bool,
    /// Share of the segments that may be dirty, percent, 1 to 100; beyond it writes wait. Default
    /// 80.
    #[serde(default = "default_eighty")]
    pub write_pending_limit_percent: f64,
    /// Share of the dirty limit above which destaging starts, percent, 0 to 100. Default 80.
    #[serde(default = "default_eighty")]
    pub destage_high_percent: f64,
    /// Share of the dirty limit at which destaging stops, percent, 0 to `destage_high_percent`.
    /// Default 60.
    #[serde(default = "default_sixty")]
    pub destage_low_percent: f64,
    /// Idle time after which a group is destaged in any case, milliseconds, 0 to 3 600 000. Default
    /// 1000.
    #[serde(default = "default_thousand")]
    pub destage_idle_ms: f64,
    /// Concurrent destages per group, 1 to 256. Default 16.
    #[serde(default = "default_sixteen")]
    pub destage_writes: u32,
    /// Additional concurrent destages of a group per write to it that waits for space (forced
    /// destaging), 0 to 16. Default 0.
    #[serde(default)]
    pub destage_forced: f64,
    /// Largest destage, bytes, a segment to 16 MiB; never shorter than a stripe row of a group with
    /// parity. Default 1 MiB.
    #[serde(default = "default_mebibyte")]
    pub destage_bytes_max: u32,
    /// Time from the end of the controller's processing to the response on a cache hit,
    /// microseconds, 0 to 1 000 000.
    pub hit_us: f64,
    /// Read-ahead of a sequential reader, bytes, a multiple of 512 up to 16 MiB. Between one and
    /// two times this length is kept ahead of the reader. 0: no read-ahead. Default 1 MiB.
    #[serde(default = "default_mebibyte")]
    pub read_ahead_bytes: u32,
    /// Number of sequential reads after which a reader counts as sequential, 2 to 1000. Default 3.
    #[serde(default = "default_three")]
    pub read_ahead_after: u32,
}

/// Layout of a group over its drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Raid {
    /// Striping.
    Raid0,
    /// Mirrored pairs, striped.
    Raid1,
    /// Striping with rotating parity (left-symmetric); small writes read old data and old parity
    /// first.
    Raid5,
}

/// A RAID group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Layout over the drives.
    pub raid: Raid,
    /// Number of drives: 1 or more (RAID 0), even (RAID 1), 3 or more (RAID 5); at most 64.
    pub drives: u32,
    /// Stripe unit: bytes on one drive before the next drive is used, a multiple of 512, up to 16
    /// MiB.
    pub stripe_unit_bytes: u32,
    /// Mapping of the group's addresses to its drives. Default: in order.
    #[serde(default)]
    pub extents: Option<Extents>,
    /// Model of each drive.
    pub drive: Drive,
}

/// Space allocated in extents that are not in order, like the image files of many VMs in one file
/// system, or thin LUs in one pool (`extents.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extents {
    /// Length of an extent, bytes: a multiple of the stripe (`stripe_unit_bytes` times the data
    /// drives).
    pub extent_bytes: u64,
    /// Span of the group over which neighbouring extents are scattered, bytes: a multiple of
    /// `extent_bytes`, at most the group's capacity. The group consists of such spans; the
    /// remainder after the last whole span lies in order.
    pub span_bytes: u64,
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Drive {
    /// A named drive: `sas-15k-146`, `sas-15k-300` (hdd), `sata-ssd-960`, `nvme-ssd-2000` (ssd).
    Preset {
        /// Name of the drive.
        name: String,
    },
    /// A hard disk drive.
    Hdd(Hdd),
    /// A flash drive (SSD).
    Ssd(Ssd),
}

/// A hard disk drive without read-ahead and with its write cache off, as arrays run them.
///
/// The three seek times are those of a data sheet; the curve through them is Lee and Katz's
/// (`seek.rs`). Rates and heads determine the geometry (`geometry.rs`): an inner track holds fewer
/// bytes than an outer one.
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
    /// Media rate of the innermost zone, at most `rate_outer_bytes_per_s`. Source: data sheet
    /// ("minimum").
    pub rate_inner_bytes_per_s: f64,
    /// Zones of equal numbers of cylinders, 1 to 64; the rate falls linearly from zone to zone.
    /// Default 16.
    #[serde(default = "default_sixteen")]
    pub zones: u32,
    /// Seek to the next cylinder for a read, milliseconds, above 0. Source: data sheet ("single
    /// track").
    pub seek_track_ms: f64,
    /// Mean seek over all pairs of cylinders for a read, milliseconds. Source: data sheet
    /// ("average").
    pub seek_average_ms: f64,
    /// Seek over all cylinders for a read, milliseconds. Source: data sheet ("full stroke").
    pub seek_full_ms: f64,
    /// Added to a seek or head switch that ends in a write, because the head must settle more
    /// precisely, milliseconds, 0 to 10. Source: data sheet (average write seek less average read
    /// seek).
    pub write_settle_ms: f64,
    /// Time to switch to another head of the same cylinder, milliseconds, 0 to 10. Default:
    /// `seek_track_ms`.
    #[serde(default)]
    pub head_switch_ms: Option<f64>,
    /// Time from a command's arrival at an idle drive to the start of the seek, microseconds, 0 to
    /// 10 000; overlaps the previous command if the drive is busy. Default 0. Source: data sheet
    /// ("controller overhead").
    #[serde(default)]
    pub command_us: f64,
    /// Maximum number of commands queued in the drive, 1 to 1024. The drive reorders them; further
    /// commands wait in the array, in order. Source: data sheet ("queue depth").
    pub queue_depth: u32,
    /// Age at which a command becomes overdue, milliseconds since the array sent it to the drive, 0
    /// to 60 000. While no command is overdue, the one with the shortest access time is served
    /// first; 0 makes the drive serve in order.
    pub age_limit_ms: f64,
    /// N, 1 to 1000: while commands are overdue, every Nth choice serves the oldest. The other
    /// choices remain shortest access time first. Default 1: strictly oldest first.
    #[serde(default = "default_one")]
    pub overdue_every: u32,
}

/// A flash drive: a controller, a host interface, and dies on channels, with a page-mapped
/// translation layer (`ssd/`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// Usable bytes, 64 MiB to 64 TiB, a multiple of `mapping_bytes`. Source: data sheet.
    pub capacity_bytes: u64,
    /// Over-provisioning: flash beyond the usable bytes, available to garbage collection, percent
    /// of the usable bytes, 1 to 1000. Source: raw flash of the drive, less its own tables and
    /// parity.
    pub over_provisioning_percent: f64,
    /// Channels, 1 to 64. Source: tear-down, data sheet of the controller.
    pub channels: u32,
    /// Dies on each channel, 1 to 64. Source: flash capacity over that of a die.
    pub dies_per_channel: u32,
    /// Planes of a die, which read, program and erase together, 1 to 8. Source: data sheet of the
    /// flash.
    pub planes: u32,
    /// Page size of one plane, bytes, 512 to 65 536, a power of two. Source: data sheet of the
    /// flash.
    pub page_bytes: u32,
    /// Pages per block of one plane, 16 to 16 384. Source: data sheet of the flash.
    pub pages_per_block: u32,
    /// Page read time (tR), array to register, microseconds, 0.1 to 10 000. Source: data sheet of
    /// the flash.
    pub read_us: f64,
    /// Page program time (tPROG), register to array, mean over the pages of a block, microseconds,
    /// 0.1 to 100 000. Source: data sheet of the flash.
    pub program_us: f64,
    /// Block erase time (tBERS), all planes together, microseconds, 0.1 to 1 000 000. Source: data
    /// sheet of the flash.
    pub erase_us: f64,
    /// Rate of one channel, bytes per second, 1e6 to 1e11. Source: data sheet of the flash
    /// (interface).
    pub channel_bytes_per_s: f64,
    /// Unit of the logical-to-physical map, bytes: 512 up to a page of all planes, a power of two.
    /// A partial write of a unit reads it first. Default 4096.
    #[serde(default = "default_mapping_bytes")]
    pub mapping_bytes: u32,
    /// Size of the write buffer, bytes: 0, or at least two pages of all planes; at most 64 GiB. The
    /// buffer survives a power cut, so a write is acknowledged once it is there. With 0 a write is
    /// acknowledged once it is in flash, and `mapping_bytes` must be a page of all planes.
    pub buffer_bytes: u64,
    /// Rate of the host interface in each direction, bytes per second, 1e6 to 1e12. Source: data
    /// sheet (sequential read).
    pub interface_bytes_per_s: f64,
    /// Processing time of the drive's controller per command, microseconds, 0 to 10 000. Commands
    /// are processed in sequence. Source: data sheet (highest random read IOPS).
    pub command_us: f64,
    /// Additional latency of each command that does not delay other commands, microseconds, 0 to
    /// 100 000. Source: data sheet (latency).
    pub latency_us: f64,
    /// Maximum number of commands in progress in the drive, 1 to 65 536. Further commands wait in
    /// the array. Source: data sheet or interface.
    pub queue_depth: u32,
    /// Start full and overwritten at random until the cost of garbage collection is constant
    /// (steady state); otherwise start empty (fresh out of the box). Default true.
    #[serde(default = "default_true")]
    pub preconditioned: bool,
}

fn default_mapping_bytes() -> u32 {
    4096
}
fn default_sixteen() -> u32 {
    16
}
fn default_one() -> u32 {
    1
}
fn default_segment_bytes() -> u32 {
    16 << 10
}
fn default_true() -> bool {
    true
}
fn default_eighty() -> f64 {
    80.0
}
fn default_sixty() -> f64 {
    60.0
}
fn default_thousand() -> f64 {
    1000.0
}
fn default_mebibyte() -> u32 {
    1 << 20
}
fn default_three() -> u32 {
    3
}
