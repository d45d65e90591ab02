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
    /// The jobs, 1 to 1000; all run at the same time.
    pub jobs: Vec<BackupJob>,
    /// Login keys of every session.
    #[serde(default)]
    pub login: LoginKeys,
    /// CHAP of every session. Default: none.
    #[serde(default)]
    pub chap: Option<ChapConfig>,
    /// Time limit, seconds. Jobs still running then are stopped. 0 means no limit.
    pub time_limit_s: f64,
    /// Timeout of a command, seconds, at least 0.1; a command that exceeds it fails its session.
    /// Commands to tape drives and their changer have `tape_command_timeout_s`. Default 30.
    #[serde(default = "default_command_timeout_s")]
    pub command_timeout_s: f64,
    /// Timeout of a command to a tape drive or its changer, seconds, at least 0.1. A rewind, a locate
    /// or the move of a cartridge takes minutes. Default 900, which is the timeout of the `st` driver
    /// of Linux.
    #[serde(default = "default_tape_command_timeout_s")]
    pub tape_command_timeout_s: f64,
    /// Interval between samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "default_sample_interval_ms")]
    pub sample_interval_ms: u32,
}

/// The copy of one disk image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupJob {
    /// Name, unique within the engine; appears in samples as entity `backup/NAME`. 1 to 128
    /// printable bytes.
    pub name: String,
    /// The LU that holds the image.
    pub source: Lu,
    /// Offset of the image on the source, bytes, a multiple of the LU's block size. Default 0.
    #[serde(default)]
    pub source_offset_bytes: u64,
    /// The LU that receives the copy.
    pub destination: Lu,
    /// Offset of the copy on the destination, bytes, a multiple of the LU's block size. Default 0.
    #[serde(default)]
    pub destination_offset_bytes: u64,
    /// Length of the image, bytes, a multiple of both LUs' block sizes. 0 means to the end of the
    /// source.
    pub length_bytes: u64,
    /// Bytes read and written at a time, 4 KiB to 16 MiB, a multiple of both LUs' block sizes.
    /// Default 256 KiB.
    #[serde(default = "default_block_bytes")]
    pub block_bytes: u32,
    /// Blocks in flight per stream, reading or writing, 1 to 1024. Default 8.
    #[serde(default = "default_depth")]
    pub depth: u32,
    /// Parts of the image copied concurrently, 1 to 64, each over its own session to the source and
    /// to the destination. Default 1.
    #[serde(default = "default_one")]
    pub streams: u32,
    /// Upper limit of the read rate of all the job's streams together, bytes per second, at least
    /// 1000. Default: no limit.
    #[serde(default)]
    pub rate_limit_bytes_per_s: Option<u64>,
    /// Processing of the blocks between reading and writing. Default: none.
    #[serde(default)]
    pub compression: Compression,
    /// After the copy, read the destination back and compare it with the data read from the source.
    /// Takes 16 bytes of memory per block. Default false.
    #[serde(default)]
    pub verify: bool,
    /// How the copy is written if the destination is a tape drive. Its jobs run one after another,
    /// in their order here. Default: the destination is a disk.
    #[serde(default)]
    pub tape: Option<TapeDestination>,
    /// The disks that this machine's kernel has for both LUs, because it is their initiator. The
    /// job opens no session then. Default: the engine is the initiator.
    #[serde(default)]
    pub disks: Option<Disks>,
}

/// The block devices, or files, through which a job reaches its LUs. They are opened with
/// `O_DIRECT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disks {
    /// Absolute path of the disk that holds the image.
    pub source: String,
    /// Absolute path of the disk that receives the copy.
    pub destination: String,
}

/// The writing of a copy to a tape drive. A job has one stream then, and one command at a time is
/// outstanding at the drive. A filemark ends the copy; it is written when everything before it is on
/// the tape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TapeDestination {
    /// Logical unit number of the medium changer, on the same target as the drive, 0 to 255.
    pub changer_lun: u8,
    /// Number of the drive among the drives that the changer reports, from 0.
    pub drive: u16,
    /// Barcode of the cartridge, 1 to 32 printable characters. It is moved into the drive if it is
    /// not there; a cartridge that is there goes back to its slot. All jobs with this cartridge use
    /// the same drive.
    pub cartridge: String,
    /// Write behind the recorded data. Default false: from the beginning of the tape, which erases
    /// what is recorded.
    #[serde(default)]
    pub append: bool,
    /// Length of the blocks in fixed-block mode, bytes, at most 8 MiB; `block_bytes` is a multiple of
    /// it, and so is the length of the image. Default: variable blocks, one of `block_bytes` for
    /// each command.
    #[serde(default)]
    pub fixed_block_bytes: Option<u32>,
    /// Write a filemark whenever at least so many bytes were written since the last one, at least
    /// `block_bytes`. Default: only at the end of the copy.
    #[serde(default)]
    pub filemark_every_bytes: Option<u64>,
    /// Do not wait until these filemarks are on the tape (IMMED). Default false: each waits until
    /// the drive's buffer is written, which stops the tape.
    #[serde(default)]
    pub immediate_filemarks: bool,
}

/// An LU behind an iSCSI portal, and the initiator name used there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lu {
    /// `address:port`; IPv6 as `[address]:port`.
    pub portal: String,
    /// iSCSI name of the target.
    pub target_name: String,
    /// Logical unit number, 0 to 255.
    pub lun: u8,
    /// iSCSI name of the backup host.
    pub initiator_name: String,
}

/// Processing of blocks between reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Compression {
    /// No processing: the copy is identical to the image.
    #[default]
    None,
    /// Each block becomes a Zstandard frame with a checksum (RFC 8878). The frames of a stream are
    /// stored back to back from the start of its part of the copy. A skippable frame pads the last
    /// block, so that `zstd -d` can read the result.
    Zstd {
        /// Compression level, 1 (fastest) to 19 (smallest). Default 3.
        #[serde(default = "default_level")]
        level: i32,
    },
}

fn default_sample_interval_ms() -> u32 {
    1000
}
fn default_command_timeout_s() -> f64 {
    30.0
}
fn default_tape_command_timeout_s() -> f64 {
    900.0
}
fn default_block_bytes() -> u32 {
    256 << 10
}
fn default_depth() -> u32 {
    8
}
fn default_one() -> u32 {
    1
}
fn default_level() -> i32 {
    3
}
