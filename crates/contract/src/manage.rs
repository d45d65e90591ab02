//! Management requests to a running array.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::array::{GroupConfig, LuConfig};

/// A management request. When it is answered, its effect is on stable storage; only the states of
/// ports and portals are not persistent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ManageAction {
    /// Report `pools` (figures in bytes, groups and volumes), `lus`, `portals` (each with the state
    /// and number of its target port group) and `sessions_now`.
    Status,
    /// Add a RAID group to a pool.
    Grow {
        /// Name of the pool.
        pool: String,
        /// The group.
        group: GroupConfig,
    },
    /// Start serving a thin LU. Its volume is created if absent, extended if smaller.
    Create {
        /// The LU; its store must be `thin`.
        lu: LuConfig,
    },
    /// Create a read-only copy of a volume.
    Snapshot {
        /// Name of the pool.
        pool: String,
        /// Name of the volume.
        volume: String,
        /// Name of the snapshot.
        name: String,
    },
    /// Create a writable copy of a volume.
    Clone {
        /// Name of the pool.
        pool: String,
        /// Name of the volume or snapshot.
        volume: String,
        /// Name of the clone.
        name: String,
        /// Quota: maximum bytes of pages allocated to the clone. Default: no limit.
        #[serde(default)]
        quota_bytes: Option<u64>,
    },
    /// Extend a volume and every LU that it backs.
    Resize {
        /// Name of the pool.
        pool: String,
        /// Name of the volume.
        volume: String,
        /// New size, a multiple of the LUs' block size, not below the present size.
        size_bytes: u64,
    },
    /// Set or remove a volume's quota.
    SetQuota {
        /// Name of the pool.
        pool: String,
        /// Name of the volume.
        volume: String,
        /// Maximum bytes of pages allocated to the volume. Default: no limit.
        #[serde(default)]
        quota_bytes: Option<u64>,
    },
    /// Withdraw every LU that the volume backs, and delete the volume.
    Delete {
        /// Name of the pool.
        pool: String,
        /// Name of the volume.
        volume: String,
    },
    /// Stop serving a thin LU; its volume stays.
    Withdraw {
        /// Logical unit number.
        lun: u8,
    },
    /// Set the asymmetric access state (ALUA) of the target port group of a portal. A restart
    /// resets it.
    SetPortState {
        /// Index into the configuration's `portals`.
        portal: u16,
        /// The state.
        state: PortState,
        /// Length of the transition, during which the group refuses access, milliseconds, at most
        /// 255 000. Default 0: the state changes at once.
        #[serde(default)]
        transition_ms: u32,
    },
    /// Refuse or accept connections at a portal. While it refuses them, connection attempts are
    /// reset. Refusal also ends the connections over the portal. A restart resets it.
    SetPortal {
        /// Index into the configuration's `portals`.
        portal: u16,
        /// Whether the portal accepts connections.
        accepts: bool,
    },
    /// Drop the data that the modelled cache holds from it. Data that is not on the drives yet
    /// stays. Report `dropped_bytes`, and `write_pending_bytes` as the size of the segments that
    /// stay; both 0 without a modelled cache.
    EmptyCache,
}

/// Asymmetric access states (SPC-4 section 5.15.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    /// Active/optimized.
    Optimized,
    /// Active/non-optimized.
    NonOptimized,
    /// Media access through the port is refused.
    Standby,
    /// Only inquiry commands are answered through the port.
    Unavailable,
}
