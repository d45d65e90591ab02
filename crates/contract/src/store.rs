//! Storage of the data of an LU.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Storage of an LU's data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StoreConfig {
    /// Sparse memory: blocks that were never written occupy none.
    Memory {
        /// Seed of the contents of blocks that were never written; each block differs. Unmapped
        /// blocks read as zeros. Default: blocks that were never written read as zeros.
        #[serde(default)]
        fill_seed: Option<u64>,
        /// Share of these contents that a compressor can remove, percent, 0 to 100. Default 0.
        #[serde(default)]
        fill_compressible_percent: u8,
    },
    /// A sparse file, created if absent, or a block device. An existing file is accepted if it is
    /// empty or has exactly the LU's size.
    File {
        /// Path of the file or device.
        path: String,
        /// Accept a block device, or an existing file of another length, whatever it contains. A
        /// shorter file is extended to the LU's size. Default false.
        #[serde(default)]
        adopt: bool,
        /// Bypass the page cache (`O_DIRECT`). `block_bytes` must then be a multiple of the
        /// device's block size. Default false.
        #[serde(default)]
        direct: bool,
    },
    /// Volume of a pool, created with the LU's size if absent and extended if smaller. Always
    /// thin-provisioned.
    Thin {
        /// Name of the pool.
        pool: String,
        /// Name of the volume: 1 to 64 letters, digits, `.`, `_` and `-`. A snapshot is read-only.
        volume: String,
        /// Quota: maximum bytes of pages allocated to the volume. Default: no limit.
        #[serde(default)]
        quota_bytes: Option<u64>,
    },
}
