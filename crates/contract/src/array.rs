//! Configuration of the `array` engine: logical units, stores, pools; and of the `probe` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::AccessConfig;
use crate::drive::Model;
use crate::login_keys::LoginKeys;
use crate::socket::SocketOptions;

/// Configuration of the `array` engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayConfig {
    /// iSCSI name of the target.
    pub target_name: String,
    /// `address:port` to listen on, 1 to 16; port 0 lets the system choose (`ready` tells which).
    pub portals: Vec<String>,
    /// Thin-provisioned pools, at most 16; each is made where there is none.
    #[serde(default)]
    pub pools: Vec<PoolConfig>,
    /// Logical units, 1 to 256; none only if there are pools, whose volumes can be served later.
    pub lus: Vec<LuConfig>,
    /// How long requests take.
    pub model: Model,
    /// Directory, made if absent, for what outlives a restart beside the LUs' bytes: reservations
    /// that initiators ask to be kept (APTPL). Default: nowhere, and none are kept.
    #[serde(default)]
    pub state_directory: Option<String>,
    /// Who may log in, and what each finds. Default: everyone, every LU.
    #[serde(default)]
    pub access: AccessConfig,
    /// Addresses that other machines reach may be listened on; wants CHAP of everyone and
    /// `access.rules`. Default false.
    #[serde(default)]
    pub allow_external: bool,
    /// The array runs in a network of its own that has no way out, a lab's: it may listen on any
    /// address there. Said by who has built that network. Default false.
    #[serde(default)]
    pub isolated_network: bool,
    /// iSCSI login keys.
    #[serde(
        default = "LoginKeys::of_array",
        deserialize_with = "LoginKeys::deserialize_of_array"
    )]
    pub login: LoginKeys,
    /// Options of the sockets of all connections.
    #[serde(default)]
    pub socket: SocketOptions,
    /// Seed of the model (rotational phase, …).
    #[serde(default)]
    pub seed: u64,
    /// Distance of samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "second")]
    pub sample_interval_ms: u32,
    /// Sessions accepted, 1 to 20 000. Default 16 384.
    #[serde(default = "sessions")]
    pub sessions_max: u32,
    /// After an event, look for the next one for this long before sleeping, microseconds, 0 to 1000. It costs a core while
    /// there is load and saves the wake-up (25 to 30 µs on a virtual machine) that a lone request otherwise pays. Default 0.
    #[serde(default)]
    pub spin_us: u32,
}

fn second() -> u32 {
    1000
}
fn sessions() -> u32 {
    16_384
}

/// A logical unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LuConfig {
    /// Logical unit number, 0 to 255.
    pub lun: u8,
    /// Capacity in bytes, a multiple of `block_bytes`.
    pub size_bytes: u64,
    /// Logical block length: 512 or 4096. Default 512.
    #[serde(default = "block")]
    pub block_bytes: u32,
    /// Physical block length, told to initiators so that they align what they do: `block_bytes` to
    /// 65 536, a power of two. Default `block_bytes`.
    #[serde(default)]
    pub physical_block_bytes: Option<u32>,
    /// Where its bytes are.
    pub store: StoreConfig,
    /// Place on the modelled drives; needed when `model` is an array of drives, except for a thin
    /// LU, whose pages lie on its pool's groups.
    #[serde(default)]
    pub placement: Option<Placement>,
    /// Writes are refused with WRITE PROTECTED. Default false.
    #[serde(default)]
    pub read_only: bool,
    /// SCSI is told that blocks take space when they are first written and give it back when they
    /// are unmapped (UNMAP, WRITE SAME with UNMAP, GET LBA STATUS). Memory and files are sparse
    /// whatever is said here. Default false.
    #[serde(default)]
    pub thin: bool,
    /// WRITE SAME with UNMAP gives blocks back whatever block was sent, as LIO and tgt do. Else it
    /// writes a block that is not all zeros, as SBC-3 says. Default false.
    #[serde(default)]
    pub unmap_any_data: bool,
    /// The medium can be taken out (RMB; START STOP UNIT ejects and loads it). Default false.
    #[serde(default)]
    pub removable: bool,
    /// SANITIZE may overwrite the whole LU. Default false.
    #[serde(default)]
    pub sanitize: bool,
}

fn block() -> u32 {
    512
}

/// Where an LU's bytes are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StoreConfig {
    /// Sparse memory: what was never written takes none.
    Memory {
        /// What was never written reads as contents drawn from this seed, every block another,
        /// instead of zeros; a block that is unmapped reads as zeros. Default: zeros.
        #[serde(default)]
        fill_seed: Option<u64>,
        /// How much of these contents a compressor can take away, percent, 0 to 100. Default 0.
        #[serde(default)]
        fill_compressible_percent: u8,
    },
    /// A sparse file, made if absent, or a block device. An existing file is taken if it is empty
    /// or has exactly the LU's size.
    File {
        /// Its path.
        path: String,
        /// Take an existing file of another length, which is made as long as the LU if it is
        /// shorter, or a block device, whatever it holds. Default false.
        #[serde(default)]
        adopt: bool,
        /// Past the page cache (`O_DIRECT`): `block_bytes` must then be a multiple of the device's
        /// block. Default false.
        #[serde(default)]
        direct: bool,
    },
    /// A volume of a pool: made with the LU's size if absent, made larger if it is smaller. Always
    /// thin.
    Thin {
        /// Name of the pool.
        pool: String,
        /// Name of the volume: 1 to 64 letters, digits, `.`, `_` and `-`. A snapshot's takes no
        /// writes.
        volume: String,
        /// Most bytes of pages that the volume may take. Default: as many as there are.
        #[serde(default)]
        quota_bytes: Option<u64>,
    },
}

/// A thin-provisioned pool: virtual LUs larger than the storage behind them, snapshots, clones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolConfig {
    /// Its name: 1 to 64 letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Directory of its metadata and data, made if absent. One array at a time has it open.
    pub directory: String,
    /// Bytes that are taken and given back together, a power of two from 64 KiB to 16 MiB; fixed
    /// when the pool is made. Default 256 KiB.
    #[serde(default = "page")]
    pub page_bytes: u32,
    /// Used share at which initiators are told (THIN PROVISIONING SOFT THRESHOLD REACHED), percent,
    /// 1 to 100. Default 70.
    #[serde(default = "seventy")]
    pub soft_threshold_percent: u8,
    /// How long a write is held where the pool has no page for it, seconds, at most 3600, before it
    /// is refused; space that comes back meanwhile (UNMAP, another group) lets it go on. dm-thin's
    /// queue mode holds 60 s. Initiators give a command up after 30 s or so unless told otherwise.
    /// A volume at its quota refuses at once. Default 0: refused at once.
    #[serde(default)]
    pub hold_when_full_s: u32,
    /// Data go past the page cache (`O_DIRECT`). Default false.
    #[serde(default)]
    pub direct: bool,
    /// RAID groups. One that the pool does not have yet is added; one that it has besides stays.
    pub groups: Vec<GroupConfig>,
}

fn page() -> u32 {
    256 << 10
}
fn seventy() -> u8 {
    70
}

/// A RAID group of a pool: a sparse file `NAME.group` in the pool's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// Its name: 1 to 64 letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Bytes, at least two pages; cut down to whole pages, the first of which is not for data. Not
    /// looked at once the pool has it.
    pub size_bytes: u64,
    /// Place on the modelled drives; needed when `model` is an array of drives.
    #[serde(default)]
    pub placement: Option<Placement>,
}

/// Place of an LU on the modelled drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// RAID group, counted from 0.
    pub group: u32,
    /// First byte of the group's usable space.
    pub offset_bytes: u64,
}

/// Configuration of the `probe` engine: measures a path before it is trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
pub enum ProbeConfig {
    /// Accepts probes: drains or sends TCP, echoes small messages.
    Server {
        /// `address:port`; port 0 lets the system choose.
        listen: String,
    },
    /// Measures round-trip time, then the rate of each direction over TCP.
    Client {
        /// The server's `address:port`.
        connect: String,
        /// Seconds per direction.
        seconds: f64,
        /// Round trips to time.
        round_trips: u32,
    },
}
