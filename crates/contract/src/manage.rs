//! What an operator orders of an array that serves.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::array::{GroupConfig, LuConfig};

/// An order. What it changes is on stable storage when it is answered, except the state of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ManageAction {
    /// Answers `pools` (figures in bytes, their groups and volumes), `lus`, `portals` and
    /// `sessions_now`.
    Status,
    /// Adds a RAID group to a pool.
    Grow {
        /// Name of the pool.
        pool: String,
        /// The group.
        group: GroupConfig,
    },
    /// Serves a thin LU from now on; its volume is made if it is not there, made larger if it is
    /// smaller.
    Create {
        /// The LU; its store is `thin`.
        lu: LuConfig,
    },
    /// Makes a copy of a volume that takes no writes.
    Snapshot {
        /// Name of the pool.
        pool: String,
        /// Name of the volume.
        volume: String,
        /// Name of the copy.
        name: String,
    },
    /// Makes a copy of a volume that takes writes.
    Clone {
        /// Name of the pool.
        pool: String,
        /// Name of the volume, or snapshot.
        volume: String,
        /// Name of the copy.
        name: String,
        /// Most bytes of pages that the copy may take. Default: as many as there are.
        #[serde(default)]
        quota_bytes: Option<u64>,
    },
    /// Makes a volume, and every LU that it is, larger.
    Resize {
        /// Name of the pool.
        pool: String,
        /// Name of the volume.
        volume: String,
        /// New size, a multiple of the LUs' blocks, not below the present one.
        size_bytes: u64,
    },
    /// Sets or lifts a volume's quota.
    SetQuota {
        /// Name of the pool.
        pool: String,
        /// Name of the volume.
        volume: String,
        /// Most bytes of pages that it may take; absent: as many as there are.
        #[serde(default)]
        quota_bytes: Option<u64>,
    },
    /// Withdraws every LU that the volume is, and forgets the volume.
    Delete {
        /// Name of the pool.
        pool: String,
        /// Name of the volume.
        volume: String,
    },
    /// Withdraws a thin LU; its volume stays.
    Withdraw {
        /// Logical unit number.
        lun: u8,
    },
    /// Sets the asymmetric access state (ALUA) of the target port behind a portal. Not kept over a
    /// restart.
    SetPortState {
        /// Index into the configuration's `portals`.
        portal: u16,
        /// The state.
        state: PortState,
    },
}

/// Asymmetric access states (SPC-4 section 5.15.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    /// Active/optimized.
    Optimized,
    /// Active/non-optimized.
    NonOptimized,
    /// Media are not accessed through it.
    Standby,
    /// Nothing but inquiry is answered through it.
    Unavailable,
}
