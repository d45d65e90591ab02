//! Configuration of the `backup` engine: jobs, each a copy from one LU to another.
mod validate;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chap::ChapConfig;
use crate::login_keys::LoginKeys;

/// Configuration of the `backup` engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupConfig {
    /// The jobs, 1 to 1000, all at once.
    pub jobs: Vec<BackupJob>,
    /// Login keys of every session.
    #[serde(default)]
    pub login: LoginKeys,
    /// CHAP of every session. Default: none.
    #[serde(default)]
    pub chap: Option<ChapConfig>,
    /// Seconds after which jobs that are not done end where they are; 0: they may take as long as
    /// they do.
    pub time_limit_s: f64,
    /// A command unanswered for this long fails its session, seconds, at least 0.1. Default 30.
    #[serde(default = "thirty")]
    pub command_timeout_s: f64,
    /// Distance of samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "second")]
    pub sample_interval_ms: u32,
}

/// The copy of one disk image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupJob {
    /// Unique within the engine; appears in samples as entity `backup/NAME`. 1 to 128 printable
    /// bytes.
    pub name: String,
    /// The LU that holds the image.
    pub source: Lu,
    /// Its first byte there, a multiple of the LU's block. Default 0.
    #[serde(default)]
    pub source_offset_bytes: u64,
    /// The LU that takes the copy.
    pub destination: Lu,
    /// The copy's first byte there, a multiple of the LU's block. Default 0.
    #[serde(default)]
    pub destination_offset_bytes: u64,
    /// Length of the image, a multiple of both LUs' blocks; 0: to the source's end.
    pub length_bytes: u64,
    /// Bytes read and written at a time, 4 KiB to 16 MiB, a multiple of both LUs' blocks. Default
    /// 256 KiB.
    #[serde(default = "block")]
    pub block_bytes: u32,
    /// Blocks of each stream that are being read or written at a time, 1 to 1024. Default 8.
    #[serde(default = "eight")]
    pub depth: u32,
    /// Parts of the image that are copied at the same time, 1 to 64, each over a session of its own
    /// to the source and one to the destination. Default 1.
    #[serde(default = "one")]
    pub streams: u32,
    /// The job reads no faster than this, all its streams together, bytes per second, at least 1000. Default: as fast as it goes.
    #[serde(default)]
    pub rate_limit_bytes_per_s: Option<u64>,
    /// Processing of the blocks between reading and writing. Default: none.
    #[serde(default)]
    pub compression: Compression,
    /// After the copy, read the destination back and compare it with what was read. Takes 16 bytes
    /// of memory per block. Default false.
    #[serde(default)]
    pub verify: bool,
}

/// An LU behind an iSCSI portal, and who goes there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lu {
    /// `address:port`; IPv6 as `[address]:port`.
    pub portal: String,
    /// iSCSI name of the target.
    pub target_name: String,
    /// Logical unit number, 0 to 255.
    pub lun: u8,
    /// iSCSI name of the host.
    pub initiator_name: String,
}

/// Processing of blocks between reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Compression {
    /// Nothing: block by block, the copy lies as the image did.
    #[default]
    None,
    /// Each block becomes a Zstandard frame with a checksum (RFC 8878). The frames of a stream lie
    /// one behind the other from where its part of the copy begins, and a skippable frame fills the
    /// last block: `zstd -d` reads it.
    Zstd {
        /// 1 (quick) to 19 (small). Default 3.
        #[serde(default = "three")]
        level: i32,
    },
}

fn second() -> u32 {
    1000
}
fn thirty() -> f64 {
    30.0
}
fn block() -> u32 {
    256 << 10
}
fn eight() -> u32 {
    8
}
fn one() -> u32 {
    1
}
fn three() -> i32 {
    3
}
