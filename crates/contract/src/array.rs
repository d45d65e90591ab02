//! Configuration of the `array` engine: logical units, stores, pools; and of the `probe` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::AccessConfig;
use crate::drive::Model;
use crate::login_keys::LoginKeys;
use crate::socket::SocketOptions;
use crate::store::StoreConfig;
use crate::tape::TapeLibraryConfig;

/// Configuration of the `array` engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayConfig {
    /// iSCSI name of the target.
    pub target_name: String,
    /// Addresses to listen on as `address:port`, 1 to 16. With port 0 the kernel chooses a port,
    /// which `ready` reports.
    pub portals: Vec<String>,
    /// Target port groups (ALUA): portals that share an access state, at most 16. Each portal that
    /// is in none of them is a group of its own; these follow. Default: none.
    #[serde(default)]
    pub port_groups: Vec<PortGroupConfig>,
    /// Thin-provisioned pools, at most 16. A pool that does not exist is created.
    #[serde(default)]
    pub pools: Vec<PoolConfig>,
    /// Disks, 1 to 256. The list may be empty only if there is a tape library, or if there are
    /// pools, because their volumes can be served later.
    pub lus: Vec<LuConfig>,
    /// Tape library. Default: none.
    #[serde(default)]
    pub tape_library: Option<Box<TapeLibraryConfig>>,
    /// Timing model: how long requests take.
    pub model: Model,
    /// Caps on the rates of accesses, at most 256. An access passes every cap that applies to it, in
    /// this order. Default: none.
    #[serde(default)]
    pub caps: Vec<CapConfig>,
    /// Shares of the accesses in flight, behind the caps. Default: no limit of these accesses.
    #[serde(default)]
    pub shares: Option<Box<SharesConfig>>,
    /// Directory for state other than the LUs' data that survives a restart: persistent
    /// reservations that initiators register with APTPL. Created if absent. Default: none, and
    /// APTPL is refused.
    #[serde(default)]
    pub state_directory: Option<String>,
    /// Access control. Default: any initiator may log in and sees every LU.
    #[serde(default)]
    pub access: AccessConfig,
    /// Allow listening on addresses that other machines can reach. Requires CHAP for every
    /// initiator and `access.rules`. Default false.
    #[serde(default)]
    pub allow_external: bool,
    /// The array runs in an isolated network namespace, such as a lab's, with no route to other
    /// networks, and may listen on any address there. Set by the program that built the namespace.
    /// Default false.
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
    /// Seed of the timing model (rotational phase, …).
    #[serde(default)]
    pub seed: u64,
    /// Interval between samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "default_sample_interval_ms")]
    pub sample_interval_ms: u32,
    /// Interval between samples of the busy times and `queue_ns` of the modelled drives alone,
    /// milliseconds, 100 to 60 000, at most `sample_interval_ms`. Default: none, so that the drives
    /// are sampled with all other counters only.
    #[serde(default)]
    pub drive_sample_interval_ms: Option<u32>,
    /// Maximum number of sessions, 1 to 20 000. Default 16 384.
    #[serde(default = "default_sessions_max")]
    pub sessions_max: u32,
    /// Busy polling: poll for the next event for this long before sleeping, microseconds, 0 to
    /// 1000. Uses a whole core under load and saves the wake-up (25 to 30 µs on a virtual machine)
    /// that a lone request otherwise pays. Default 0.
    #[serde(default)]
    pub spin_us: u32,
}

fn default_sample_interval_ms() -> u32 {
    1000
}
fn default_sessions_max() -> u32 {
    16_384
}

/// A target port group. Groups are numbered from 1, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortGroupConfig {
    /// Indices into `portals`, at least one. A portal is in one group at most.
    pub portals: Vec<u16>,
    /// Report the group as the preferred one (PREF), of which there is one at most. Default false.
    #[serde(default)]
    pub preferred: bool,
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
    #[serde(default = "default_block_bytes")]
    pub block_bytes: u32,
    /// Physical block length, reported to initiators so that they can align their requests:
    /// `block_bytes` to 65 536, a power of two. Default `block_bytes`.
    #[serde(default)]
    pub physical_block_bytes: Option<u32>,
    /// Storage of the LU's data.
    pub store: StoreConfig,
    /// Position on the modelled drives. Required if `model` is an array of drives, except for a
    /// thin LU, because its pages lie on its pool's groups.
    #[serde(default)]
    pub placement: Option<Placement>,
    /// Refuse writes with WRITE PROTECTED. Default false.
    #[serde(default)]
    pub read_only: bool,
    /// Report the LU as thin-provisioned: a block is allocated by its first write and deallocated
    /// by an unmap (UNMAP, WRITE SAME with UNMAP, GET LBA STATUS). Memory and files are sparse
    /// regardless of this setting. Default false.
    #[serde(default)]
    pub thin: bool,
    /// Let WRITE SAME with UNMAP deallocate the blocks regardless of the data sent, as LIO and tgt
    /// do. Otherwise a block that is not all zeros is written, as SBC-3 requires. Default false.
    #[serde(default)]
    pub unmap_any_data: bool,
    /// Removable medium (RMB): START STOP UNIT ejects and loads it. Default false.
    #[serde(default)]
    pub removable: bool,
    /// Allow SANITIZE to overwrite the whole LU. Default false.
    #[serde(default)]
    pub sanitize: bool,
    /// Explicit ALUA: let initiators set the access states of the target's ports with SET TARGET
    /// PORT GROUPS. Default false: only `set_port_state` changes them.
    #[serde(default)]
    pub explicit_alua: bool,
}

fn default_block_bytes() -> u32 {
    512
}

/// A thin-provisioned pool: virtual LUs larger than the storage behind them, with snapshots and
/// clones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolConfig {
    /// Name: 1 to 64 letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Directory of the pool's metadata and data, created if absent. Only one array at a time can
    /// open it.
    pub directory: String,
    /// Allocation unit, bytes: a power of two from 64 KiB to 16 MiB, fixed when the pool is
    /// created. Default 256 KiB.
    #[serde(default = "default_page_bytes")]
    pub page_bytes: u32,
    /// Used share at which initiators are notified (THIN PROVISIONING SOFT THRESHOLD REACHED),
    /// percent, 1 to 100. Default 70.
    #[serde(default = "default_soft_threshold_percent")]
    pub soft_threshold_percent: u8,
    /// Seconds that a write waits while the pool has no free page, at most 3600, before it is
    /// refused. It proceeds once space becomes free (UNMAP, another group). dm-thin's queue mode
    /// waits 60 s. Initiators time a command out after about 30 s by default. A volume at its quota
    /// refuses at once. Default 0: refuse at once.
    #[serde(default)]
    pub hold_when_full_s: u32,
    /// Bypass the page cache for data (`O_DIRECT`). Default false.
    #[serde(default)]
    pub direct: bool,
    /// RAID groups. A listed group that the pool lacks is added; a group of the pool that is not
    /// listed stays.
    pub groups: Vec<GroupConfig>,
}

fn default_page_bytes() -> u32 {
    256 << 10
}
fn default_soft_threshold_percent() -> u8 {
    70
}

/// A RAID group of a pool: a sparse file `NAME.group` in the pool's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// Name: 1 to 64 letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Size, bytes, at least two pages, rounded down to whole pages. The first page holds no data.
    /// Ignored if the pool already has the group.
    pub size_bytes: u64,
    /// Position on the modelled drives. Required if `model` is an array of drives.
    #[serde(default)]
    pub placement: Option<Placement>,
}

/// Position of an LU on the modelled drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// RAID group, counting from 0.
    pub group: u32,
    /// Offset of the first byte in the group's usable space.
    pub offset_bytes: u64,
}

/// A cap on the rates of the accesses of some initiators to some LUs, all of them together: a token
/// bucket. Reads, writes, unmaps and flushes count; commands that do not access the medium do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapConfig {
    /// Name: 1 to 64 letters, digits, `.`, `_` and `-`; the counters are those of `cap/NAME`.
    pub name: String,
    /// Logical unit. Default: all.
    #[serde(default)]
    pub lun: Option<u8>,
    /// iSCSI name of the initiator. Default: all.
    #[serde(default)]
    pub initiator_name: Option<String>,
    /// Accesses per second, 1 to 10 000 000. Default: no limit.
    #[serde(default)]
    pub iops: Option<u32>,
    /// Bytes per second, 4096 to 10^12. Default: no limit.
    #[serde(default)]
    pub bytes_per_s: Option<u64>,
    /// Content of a full bucket, as time at the capped rate, milliseconds, 0 to 60 000: accesses of
    /// this time pass without delay after an idle time. With 0, single accesses are spaced evenly.
    /// Default 10.
    #[serde(default = "default_burst_ms")]
    pub burst_ms: u32,
}

fn default_burst_ms() -> u32 {
    10
}

/// A limit of the accesses in flight. Those that wait for it are dispatched in proportion to the
/// shares of their classes. An access costs its bytes and 16 KiB more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharesConfig {
    /// Maximum number of accesses in flight, 1 to 4096. A small number makes the shares exact, a
    /// large one keeps drives busy.
    pub in_flight: u32,
    /// Classes, 1 to 64. An access belongs to the first one that it matches.
    pub classes: Vec<ShareClass>,
    /// Share of all other accesses together, 1 to 1 000 000. Default 100.
    #[serde(default = "default_share")]
    pub others: u32,
}

/// A class of accesses with a share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareClass {
    /// Name: 1 to 64 letters, digits, `.`, `_` and `-`, except `others`; the counters are those of
    /// `share/NAME`.
    pub name: String,
    /// Logical unit. Default: all.
    #[serde(default)]
    pub lun: Option<u8>,
    /// iSCSI name of the initiator. Default: all.
    #[serde(default)]
    pub initiator_name: Option<String>,
    /// Share relative to that of the other classes, 1 to 1 000 000.
    pub share: u32,
}

fn default_share() -> u32 {
    100
}
