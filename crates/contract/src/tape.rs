//! Configuration of the tape library of an `array` engine.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tape library: a medium changer and its drives, each a logical unit of the array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TapeLibraryConfig {
    /// Logical unit number of the medium changer, 0 to 255.
    pub lun: u8,
    /// T10 VENDOR IDENTIFICATION of the medium changer, 1 to 8 printable ASCII characters. Default:
    /// HAKARU.
    #[serde(default)]
    pub vendor: Option<String>,
    /// PRODUCT IDENTIFICATION of the medium changer, 1 to 16 printable ASCII characters. Default:
    /// TAPE LIBRARY.
    #[serde(default)]
    pub product: Option<String>,
    /// Drives, 1 to 64.
    pub drives: Vec<TapeDriveConfig>,
    /// Number of storage slots, 1 to 10 000.
    pub slots: u16,
    /// Number of import and export slots, at most 255. Default 0.
    #[serde(default)]
    pub import_export: u16,
    /// Folder of the cartridges, created if absent: one file `BARCODE.tape` for each. Those that do
    /// not exist are created. Others that are found there are put into the first free slots, in the
    /// order of their barcodes. Default: cartridges are in memory, and all are empty when the array
    /// starts.
    #[serde(default)]
    pub folder: Option<String>,
    /// Pool of the cartridges: each is a thin volume `tape-BARCODE` of it. Those that do not exist
    /// are created, and others that are found are put into slots, as in a folder. Excludes
    /// `folder`. Default: no pool.
    #[serde(default)]
    pub pool: Option<String>,
    /// Cartridges, at most one for each slot.
    pub cartridges: Vec<CartridgeConfig>,
    /// Capacity of each cartridge that is created, bytes on the tape: a multiple of 512 from 1 MiB to
    /// 16 TiB. With compression, it takes as many times the bytes of initiators, at most 16 TiB. A
    /// block occupies a multiple of 512 bytes before compression.
    pub capacity_bytes: u64,
    /// Space left on a cartridge at which early warning begins, bytes on the tape, at most the
    /// capacity.
    pub early_warning_bytes: u64,
    /// Times of the drives. Default: their motions take no time.
    #[serde(default)]
    pub times: Option<TapeTimesConfig>,
}

/// Times of the drives of a library, each as its generation has them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TapeTimesConfig {
    /// Bytes of initiators for each byte on the tape, 1 to 100. It multiplies rates, and the bytes
    /// that new cartridges take. Default 1.
    #[serde(default = "one")]
    pub compression: f64,
}

fn one() -> f64 {
    1.0
}

/// A tape drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TapeDriveConfig {
    /// Logical unit number, 0 to 255.
    pub lun: u8,
    /// Generation. It determines the name, and the cartridges that the drive reads and writes.
    pub generation: TapeGeneration,
    /// T10 VENDOR IDENTIFICATION, 1 to 8 printable ASCII characters. Default: HAKARU.
    #[serde(default)]
    pub vendor: Option<String>,
    /// PRODUCT IDENTIFICATION, 1 to 16 printable ASCII characters. Default: TAPE and the generation.
    #[serde(default)]
    pub product: Option<String>,
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
    /// Whether its write-protect tab is set. Default: as it is on a cartridge in a folder, false on
    /// a new one.
    #[serde(default)]
    pub write_protected: Option<bool>,
    /// Generation, which must be that of a cartridge in a folder or a pool that has one. Default: as
    /// it is on such a cartridge; a new one is of the generation of each drive that it is in. A drive
    /// reads its own generation and the two before, and writes its own and the one before.
    #[serde(default)]
    pub generation: Option<TapeGeneration>,
}
