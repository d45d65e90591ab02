//! Configuration of the `initiator` engine: VMs, their patterns, loads and destinations.
mod destination;
#[cfg(test)]
mod fixture;
mod hypervisor;
mod multipath;
mod validate;
mod vm;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chap::ChapConfig;
use crate::login_keys::LoginKeys;
use crate::socket::SocketOptions;

pub use self::hypervisor::{GuestQueue, PAGE_BYTES, SHARERS_MAX};
pub use self::multipath::{Multipath, PATHS_MAX, PathPolicy};

/// Maximum number of outstanding commands per session.
pub const COMMANDS_MAX: u32 = 4096;

/// A request size and its relative frequency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeWeight {
    /// Request length in bytes: a multiple of the LU's block size, 512 to 16 MiB.
    pub bytes: u32,
    /// Relative weight, at least 1.
    #[serde(default = "default_one")]
    pub weight: u32,
}

fn default_one() -> u32 {
    1
}

/// Access pattern of a VM. The terms are fio's: `bs`, `rwmixread`, `percentage_random`,
/// `blockalign`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Request sizes with weights; at least one.
    pub sizes: Vec<SizeWeight>,
    /// Share of reads, 0 to 100.
    pub read_percent: u8,
    /// Share of requests at a random offset, 0 to 100; the others are sequential to the previous
    /// request, and wrap at the end of the region.
    pub random_percent: u8,
    /// Alignment of random offsets, bytes. Default: the request's own size.
    #[serde(default)]
    pub align_bytes: Option<u32>,
}

/// Arrival of requests: closed loop or open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// Closed loop: a fixed number of requests is outstanding; each completion issues the next.
    Closed {
        /// Requests outstanding per VM, 1 to 1024.
        queue_depth: u32,
    },
    /// Open loop: requests are due at given instants, whether or not earlier ones have completed.
    /// Latency counts from the *intended* instant.
    Open {
        /// Offered requests per second per VM, above 0.
        rate_per_s: f64,
        /// Distribution of the intervals between intended instants.
        arrivals: Arrivals,
        /// Maximum number of requests in flight, 1 to 1024. Further requests that fall due wait,
        /// and the wait counts as latency.
        in_flight_max: u32,
    },
}

/// Distribution of the intervals between the intended instants of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Equal intervals.
    Uniform,
    /// Exponentially distributed intervals (a Poisson process).
    Poisson,
}

/// A range of an LU, device or file, in bytes. Both fields are multiples of the block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Offset of the first byte.
    pub offset_bytes: u64,
    /// Length; 0 means to the end.
    pub length_bytes: u64,
}

/// Destination of a VM's requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Destination {
    /// An LU behind an iSCSI portal. Each VM has its own session, unless `share_sessions` is set.
    Iscsi {
        /// `address:port`; IPv6 as `[address]:port`.
        portal: String,
        /// iSCSI name of the target.
        target_name: String,
        /// Logical unit number, 0 to 255.
        lun: u8,
        /// iSCSI name of the initiator: of the VM, or of the host whose session the VM shares.
        initiator_name: String,
        /// Further portals that lead to the same LU, as `portal`. Each is a path with a session of
        /// its own, used as `multipath` says. Default: none.
        #[serde(default)]
        other_portals: Vec<String>,
    },
    /// A block device or a file of this machine.
    File {
        /// Path of the device or file.
        path: String,
        /// Bypass the page cache (`O_DIRECT`).
        #[serde(default)]
        direct: bool,
        /// The device joins several paths of the kernel to an LU (dm-multipath), and has the
        /// counters `paths/NAME`. Needs root.
        #[serde(default)]
        multipath: bool,
    },
}

/// One emulated VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vm {
    /// Name, unique within the engine; appears in samples as entity `vm/NAME`.
    pub name: String,
    /// Destination of the VM's requests.
    pub destination: Destination,
    /// Part of the destination that this VM uses.
    pub region: Region,
    /// Access pattern of the VM's requests.
    pub pattern: Pattern,
    /// Arrival of the VM's requests.
    pub load: Load,
    /// Seed of every random choice of this VM.
    pub seed: u64,
    /// Position in `groups` of the group that the VM belongs to. Default: none.
    #[serde(default)]
    pub group: Option<u8>,
}

/// Configuration of the `initiator` engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitiatorConfig {
    /// The VMs, 1 to 20 000.
    pub vms: Vec<Vm>,
    /// Names of groups of VMs, at most 16, each once. Samples contain the sums of the VMs of each as
    /// entity `vms/NAME`, and their latencies. Default: none.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Login keys of all sessions.
    #[serde(default)]
    pub login: LoginKeys,
    /// Options of all sockets.
    #[serde(default)]
    pub socket: SocketOptions,
    /// Sessions per VM, 1 to 64; commands are distributed round-robin. Default 1.
    #[serde(default = "default_one")]
    pub sessions_per_vm: u32,
    /// Longest command, bytes, like Linux's `max_sectors_kb`: a multiple of the LU's block size,
    /// 4096 to 16 MiB. A longer request is split into several commands and completes with the last
    /// of them. Default: requests are not split.
    #[serde(default)]
    pub command_bytes_max: Option<u32>,
    /// Queue depth of each LU of a session: maximum number of outstanding commands, 1 to 4096.
    /// Further commands wait in the initiator, first come, first served. Default 4096, which leaves
    /// the limit to the load and the target.
    #[serde(default)]
    pub commands_max: Option<u32>,
    /// Maximum number of outstanding commands of each session, over all of its LUs, 1 to 4096.
    /// Further commands wait in the initiator, first come, first served. Default 4096.
    #[serde(default)]
    pub session_commands_max: Option<u32>,
    /// Share sessions, as VMs do whose host is the initiator: VMs with the same portal, target and
    /// initiator name use one session, at most 1024 VMs. Requires one session per VM. Default
    /// false: each VM has its own session.
    #[serde(default)]
    pub share_sessions: bool,
    /// Use of several paths per VM: timers, and the choice of the path of each command. Every VM then
    /// has the same number of portals, and one session over each. Default: one path.
    #[serde(default)]
    pub multipath: Option<Box<Multipath>>,
    /// Queue between each VM and its disk. Default: requests reach the initiator without a limit.
    #[serde(default)]
    pub guest_queue: Option<GuestQueue>,
    /// CHAP of all VMs. Default: none.
    #[serde(default)]
    pub chap: Option<ChapConfig>,
    /// Seconds of load before measuring starts.
    pub warmup_s: f64,
    /// Duration of the measurement, seconds; 0 means until `stop`.
    pub measure_s: f64,
    /// Interval between samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "default_sample_interval_ms")]
    pub sample_interval_ms: u32,
    /// Data verification: stamp every block written and check every block read.
    #[serde(default)]
    pub verify: bool,
    /// Timeout of a command, seconds; a command that exceeds it fails its session. Default 30.
    #[serde(default = "default_command_timeout_s")]
    pub command_timeout_s: f64,
    /// Interrupt coalescing: longest wait between two polls of the sockets, 0 to 1000 microseconds.
    /// Data that arrives meanwhile is handled in one batch, as in hypervisors and network cards.
    /// The wait never exceeds `coalesce_percent` of the mean latency of recent requests. It is
    /// skipped if it would be below 20 µs, so fast targets are measured without it. It saves CPU
    /// time of the initiator and of the target if many requests are in flight, and it lengthens the
    /// reported latencies. Default 0: never wait.
    #[serde(default)]
    pub coalesce_us: u32,
    /// Upper limit of the coalescing wait, percent of the mean latency of recent requests (of reads
    /// or writes, whichever is lower), 0 to 50. It bounds the error: reported latencies may be up
    /// to this much too high, half of it on average. A higher value, with a higher `coalesce_us`,
    /// lets an initiator that is short of CPU carry more load. Latencies measured with different
    /// values are not comparable. 0 means never wait. Default 10.
    #[serde(default = "default_coalesce_percent")]
    pub coalesce_percent: f64,
    /// Allow writes. Set to false if the data of a destination must be preserved. Default true.
    #[serde(default = "default_true")]
    pub allow_writes: bool,
    /// Run with real-time priority where the system permits it, so that other work on this machine
    /// does not delay requests. Not for a machine that also serves the storage, which would be
    /// delayed instead. Default false.
    #[serde(default)]
    pub real_time: bool,
}

fn default_sample_interval_ms() -> u32 {
    1000
}
fn default_coalesce_percent() -> f64 {
    10.0
}
fn default_command_timeout_s() -> f64 {
    30.0
}
fn default_true() -> bool {
    true
}
