//! Configuration of the tape library of an `array` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::StoreConfig;

/// A tape library: a medium changer and its drives, each a logical unit of the array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TapeLibraryConfig {
    /// Logical unit number of the medium changer, 0 to 255.
    pub lun: u8,
    /// Drives, 1 to 64.
    pub drives: Vec<TapeDriveConfig>,
    /// Number of storage slots, 1 to 10 000.
    pub slots: u16,
    /// Number of import and export slots, at most 255. Default 0.
    #[serde(default)]
    pub import_export: u16,
    /// Cartridges, at most one for each slot. All are empty when the array starts.
    pub cartridges: Vec<CartridgeConfig>,
    /// Capacity of each cartridge, bytes: a multiple of 512 from 1 MiB to 16 TiB. A block occupies
    /// a multiple of 512 bytes.
    pub capacity_bytes: u64,
    /// Space left on a cartridge at which early warning begins, bytes, at most the capacity.
    pub early_warning_bytes: u64,
    /// Storage of the cartridges; it must be `memory` without `fill_seed`.
    pub store: StoreConfig,
}

/// A tape drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TapeDriveConfig {
    /// Logical unit number, 0 to 255.
    pub lun: u8,
    /// Generation. It determines name and density code.
    pub generation: TapeGeneration,
}

/// A generation of LTO drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TapeGeneration {
    /// LTO-3.
    Lto3,
    /// LTO-4.
    Lto4,
    /// LTO-5.
    Lto5,
    /// LTO-6.
    Lto6,
}

/// A cartridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CartridgeConfig {
    /// Text on its label: 1 to 32 capital letters and digits.
    pub barcode: String,
    /// Slot in which it is when the array starts, from 1.
    pub slot: u16,
    /// Whether its write-protect tab is set. Default false.
    #[serde(default)]
    pub write_protected: bool,
}
