//! Configuration of the `initiator` engine: VMs, their patterns, loads and destinations.
mod destination;
#[cfg(test)]
mod fixture;
mod validate;
mod vm;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chap::ChapConfig;
use crate::login_keys::LoginKeys;
use crate::socket::SocketOptions;

/// Most commands of one session that are outstanding at once.
pub const COMMANDS_MAX: u32 = 4096;

/// One size of request and how often it is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeWeight {
    /// Request length in bytes: a multiple of the LU's block size, 512 to 16 MiB.
    pub bytes: u32,
    /// Relative weight, at least 1.
    #[serde(default = "one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

/// Which requests a VM makes. fio's words where fio has one: `bs`, `rwmixread`,
/// `percentage_random`, `blockalign`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Request sizes with weights; at least one.
    pub sizes: Vec<SizeWeight>,
    /// Share of reads, 0 to 100.
    pub read_percent: u8,
    /// Share of requests at a random place, 0 to 100; the rest follow the request before, and wrap
    /// at the region's end.
    pub random_percent: u8,
    /// Alignment of random places in bytes; default: the request's own size.
    #[serde(default)]
    pub align_bytes: Option<u32>,
}

/// How requests are issued in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// A fixed number of requests is always outstanding: a new one starts when one ends.
    Closed {
        /// Requests outstanding per VM, 1 to 1024.
        queue_depth: u32,
    },
    /// Requests are due at given instants whether or not earlier ones have ended; latency counts
    /// from the *intended* instant.
    Open {
        /// Offered requests per second per VM, above 0.
        rate_per_s: f64,
        /// Distance between intended instants.
        arrivals: Arrivals,
        /// Requests that may be in flight at once; those that are due beyond it wait (and the wait
        /// counts). 1 to 1024.
        in_flight_max: u32,
    },
}

/// Distance between the intended instants of an open load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// All equal.
    Uniform,
    /// Exponential (a Poisson process).
    Poisson,
}

/// A range of an LU, device or file, in bytes. Both are multiples of the block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// First byte.
    pub offset_bytes: u64,
    /// Length; 0 means to the end.
    pub length_bytes: u64,
}

/// Destination of a VM's requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Destination {
    /// An LU behind an iSCSI portal, over a session of the VM's own.
    Iscsi {
        /// `address:port`; IPv6 as `[address]:port`.
        portal: String,
        /// iSCSI name of the target.
        target_name: String,
        /// Logical unit number, 0 to 255.
        lun: u8,
        /// iSCSI name of the VM.
        initiator_name: String,
    },
    /// A block device or a file of this machine.
    File {
        /// Its path.
        path: String,
        /// Bypass the page cache (`O_DIRECT`).
        #[serde(default)]
        direct: bool,
    },
}

/// One emulated VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vm {
    /// Unique within the engine; appears in samples as entity `vm/NAME`.
    pub name: String,
    /// Destination of its requests.
    pub destination: Destination,
    /// The part of the destination that is its own.
    pub region: Region,
    /// Its requests.
    pub pattern: Pattern,
    /// The timing of its requests.
    pub load: Load,
    /// Seed of everything random about it.
    pub seed: u64,
}

/// Configuration of the `initiator` engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitiatorConfig {
    /// The VMs, 1 to 20 000.
    pub vms: Vec<Vm>,
    /// Login keys for all of them.
    #[serde(default)]
    pub login: LoginKeys,
    /// Options of all their sockets.
    #[serde(default)]
    pub socket: SocketOptions,
    /// Sessions of each VM with its LU, 1 to 64: commands go to them in turn. Default 1.
    #[serde(default = "one")]
    pub sessions_per_vm: u32,
    /// A longer request goes as several commands of at most this many bytes, as Linux's
    /// `max_sectors_kb` has it: a multiple of the LU's block, 4096 to 16 MiB. The request is done
    /// when its last command is. Default: never split.
    #[serde(default)]
    pub command_bytes_max: Option<u32>,
    /// Commands outstanding per session, 1 to 4096, as an LU's queue depth; further ones wait with
    /// the initiator. Default: 4096, which leaves the limit to the load and the target.
    #[serde(default)]
    pub commands_max: Option<u32>,
    /// CHAP of all VMs. Default: none.
    #[serde(default)]
    pub chap: Option<ChapConfig>,
    /// Seconds of load before measuring starts.
    pub warmup_s: f64,
    /// Seconds measured; 0 means until `stop`.
    pub measure_s: f64,
    /// Distance of samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "second")]
    pub sample_interval_ms: u32,
    /// Stamp every block written and check every block read.
    #[serde(default)]
    pub verify: bool,
    /// A command unanswered for this long fails its session, seconds. Default 30.
    #[serde(default = "thirty")]
    pub command_timeout_s: f64,
    /// After each look at the sockets, wait up to this long before the next one, microseconds, 0 to
    /// 1000: what arrives meanwhile is handled at once, as hypervisors and network cards coalesce
    /// interrupts. The wait is never longer than `coalesce_percent` of the time that requests took
    /// of late, and is left out below 20 µs: quick targets are measured without it. It saves CPU
    /// where many requests are in flight, the target's too. 0: never wait. Default 64.
    #[serde(default = "sixty_four")]
    pub coalesce_us: u32,
    /// The longest such wait, percent of the time that requests took of late (the mean; of reads
    /// and writes, the quicker kind's), 0 to 50. It is what waiting may cost: latencies are told at
    /// most this much too long, half of it on average. Higher values, with a higher `coalesce_us`,
    /// let an initiator that is short of CPU carry more load; latencies that were measured with
    /// different values cannot be compared. 0: never wait. Default 10.
    #[serde(default = "tenth")]
    pub coalesce_percent: f64,
    /// Writes are allowed. A destination that is not expendable is only ever read. Default true.
    #[serde(default = "yes")]
    pub allow_writes: bool,
}

fn second() -> u32 {
    1000
}
fn sixty_four() -> u32 {
    64
}
fn tenth() -> f64 {
    10.0
}
fn thirty() -> f64 {
    30.0
}
fn yes() -> bool {
    true
}
