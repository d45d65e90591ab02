//! Configuration of the `files` engine: trees of files, and loads on them.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::smb::SmbDestination;

/// Configuration of the `files` engine, which builds, checks, deletes or loads trees of files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "task", rename_all = "snake_case", deny_unknown_fields)]
pub enum FilesConfig {
    /// Builds trees. An interrupted build continues where it stopped.
    Build {
        /// Place of the trees: missing, empty, or with an unfinished build of the same trees.
        destination: FilesDestination,
        /// Description of the trees.
        trees: Box<TreesConfig>,
        /// Number of threads, 1 to 256. Default 4.
        #[serde(default = "default_workers")]
        workers: u32,
        /// Interval between samples, milliseconds, 100 to 60 000. Default 1000.
        #[serde(default = "default_sample_interval_ms")]
        sample_interval_ms: u32,
    },
    /// Reads all files of built trees and compares them with their description, which their place
    /// contains.
    Verify {
        /// Place of the trees.
        destination: FilesDestination,
        /// Number of threads, 1 to 256. Default 4.
        #[serde(default = "default_workers")]
        workers: u32,
        /// Interval between samples, milliseconds, 100 to 60 000. Default 1000.
        #[serde(default = "default_sample_interval_ms")]
        sample_interval_ms: u32,
    },
    /// Deletes built trees: the files and folders of their description, and nothing else.
    Remove {
        /// Place of the trees. It is deleted too if nothing else is left in it.
        destination: FilesDestination,
    },
    /// Runs a load on built trees.
    Load(FilesLoad),
}

/// A load: tools that copy files of the trees, each one file at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesLoad {
    /// Place of the trees.
    pub destination: FilesDestination,
    /// Description of the trees, which must be that of the destination.
    pub trees: Box<TreesConfig>,
    /// Whether to build the trees before the load, as far as they are missing. Default false.
    #[serde(default)]
    pub build: bool,
    /// Whether to delete the trees after the load. Default false.
    #[serde(default)]
    pub remove: bool,
    /// Operations of a step. Default `whole_files`.
    #[serde(default)]
    pub profile: FilesProfile,
    /// Tools, 1 to 1024.
    pub tools: u32,
    /// First tree that this engine uses; it uses this one, and every `stride`th tree after it.
    /// Default 0.
    #[serde(default)]
    pub first_tree: u32,
    /// Number of engines that share the trees, 1 to 1024. Default 1.
    #[serde(default = "default_one")]
    pub stride: u32,
    /// Operations of the users of the profile `mix`, which has it alone. Default: none.
    #[serde(default)]
    pub mix: Option<FilesMix>,
    /// Share of steps that read, percent, 0 to 100. Not used by `mix`. Default 80.
    #[serde(default = "default_read_percent")]
    pub read_percent: u8,
    /// Bytes of a read or write, 512 to 16 MiB. Default 1 MiB.
    #[serde(default = "default_block_bytes")]
    pub block_bytes: u32,
    /// Whether a written file is flushed to stable storage before it is closed. Default false.
    #[serde(default)]
    pub flush: bool,
    /// Whether to compare what is read with the description. Default false.
    #[serde(default)]
    pub verify: bool,
    /// Whether to drop the files from the page cache of this machine before the load. Refused for
    /// file servers, which have caches of their own. Default false.
    #[serde(default)]
    pub cold: bool,
    /// Whether tools use the trees again once all were used, the one first that was used first, so
    /// that a load with `measure_s` does not end earlier. Refused without `measure_s`; not used by
    /// `mix`. Default false.
    #[serde(default)]
    pub repeat: bool,
    /// Whether to wait for a second `start` once the trees are built and the sessions of all tools
    /// have begun, which the phase `built` reports. Engines whose builds take different times then
    /// begin together. Default false.
    #[serde(default)]
    pub second_start: bool,
    /// Seed of the choices between reading and writing, and of the order of files.
    pub seed: u64,
    /// Load before the measuring phase, seconds, 0 to 86 400. Default 0.
    #[serde(default)]
    pub warmup_s: f64,
    /// Length of the measuring phase, seconds, 0.05 to 86 400. The load ends earlier if every file
    /// was used, unless it has `repeat`. Default: until every file was used.
    #[serde(default)]
    pub measure_s: Option<f64>,
    /// Interval between samples, milliseconds, 100 to 60 000. Default 1000.
    #[serde(default = "default_sample_interval_ms")]
    pub sample_interval_ms: u32,
}

/// Place of trees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FilesDestination {
    /// A directory of this machine, on any mounted file system.
    Directory {
        /// Directory of the trees.
        path: String,
    },
    /// A folder of a share of an SMB server.
    Smb(Box<SmbDestination>),
}

/// Operations of a step of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FilesProfile {
    /// Walk from the root of the tree to a file, and read or write all of it. Each file is used
    /// once, or with `repeat` once in each round.
    #[default]
    WholeFiles,
    /// Walk to the folder of a file, and create, stat, rename and delete an empty file there.
    Metadata,
    /// Each tool is a user, who has one tree and draws operations by weight until the load ends.
    Mix,
}

/// Operations of users. A user begins one, waits for its end, and begins the next one after a think
/// time, or at the instants of a requested rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesMix {
    /// Operations, each at most once.
    pub operations: Vec<WeightedOperation>,
    /// Mean time between the end of an operation and the begin of the next one, milliseconds, 0 to
    /// 3 600 000. Exponentially distributed. Default 0.
    #[serde(default)]
    pub think_ms: f64,
    /// Operations per second that all tools of this engine begin together, above 0 to 1 000 000,
    /// each tool at equal intervals. An operation whose instant has passed begins when the one
    /// before it has ended. Excludes `think_ms`. Default: as fast as think times allow.
    #[serde(default)]
    pub rate_per_s: Option<f64>,
}

/// An operation and its weight in a mix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedOperation {
    /// Operation.
    pub operation: UserOperation,
    /// Weight, finite and above 0.
    pub weight: f64,
}

/// Operation of a user, behind the walk to its folder. Files of the tree are drawn evenly, and stay
/// as described. Files that a user creates are empty; there are at most 16, and they are deleted at
/// the end of the load. With none left to rename or delete, one is created instead; with 16, one
/// is deleted instead of created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UserOperation {
    /// List a folder entirely.
    List,
    /// Read the attributes of a file.
    Stat,
    /// Open a file for reading, and close it.
    Open,
    /// Open, read and close a whole file.
    Read,
    /// Open, write and close a whole file. Its contents stay the same.
    Write,
    /// Create an empty file.
    Create,
    /// Rename a file that the user created.
    Rename,
    /// Delete a file that the user created.
    Delete,
}

/// Description of trees of files. Every name, size and byte follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreesConfig {
    /// Seed of all draws.
    pub seed: u64,
    /// Number of trees, 1 to 65 536.
    pub trees: u32,
    /// Levels of folders in a tree, 1 to 64. The tree's root is level 1.
    pub depth: u32,
    /// Folders in a tree with its root, `depth` to 65 536. Those beyond one per level are spread
    /// evenly over the levels below the root.
    pub folders: u32,
    /// Files in a tree that a load uses, 1 to 1 000 000.
    pub targets: u32,
    /// Files in a tree that a load does not use, 0 to 1 000 000. Default 0.
    #[serde(default)]
    pub dummies: u32,
    /// Distribution of files over the folders of a tree. Default `even`.
    #[serde(default)]
    pub placement: FilePlacement,
    /// Sizes of targets.
    pub sizes: FileSizes,
    /// Sizes of dummies. Default: those of targets.
    #[serde(default)]
    pub dummy_sizes: Option<FileSizes>,
    /// Exact sum of the sizes of all targets before they are divided. The largest files are
    /// stretched to reach it; if they are not enough, more of them, by at most a factor of 4.
    /// Default: the sum as drawn.
    #[serde(default)]
    pub total_bytes: Option<u64>,
    /// Divisor of every size, and of the sum, 1 to 1 000 000 000; counts are kept. Default 1.
    #[serde(default = "default_divisor")]
    pub divide_sizes_by: u64,
    /// Contents of files.
    #[serde(default)]
    pub content: FileContent,
}

/// Distribution of files over the folders of a tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FilePlacement {
    /// File `i` is in folder `i` modulo the number of folders.
    #[default]
    Even,
    /// Every folder is equally likely.
    Random,
    /// The level is drawn by weight, then a folder of that level.
    Levels {
        /// Weight of each level, the root's first; at most `depth` finite weights of at least 0,
        /// one of which is above 0.
        weights: Vec<f64>,
    },
}

/// Distribution of file sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FileSizes {
    /// Counts of files by size, as a survey returns them. Sizes within a class are uniform.
    Table {
        /// Classes by size, 1 to 4096, with ascending limits.
        classes: Vec<SizeClass>,
    },
    /// Lognormal sizes with an optional Pareto tail.
    Lognormal {
        /// Median of the lognormal distribution before it is cut at the bounds, bytes, at least 1.
        median_bytes: u64,
        /// Standard deviation of the logarithm (base e) of the size, 0.01 to 10.
        sigma: f64,
        /// Smallest size, bytes. Default 0.
        #[serde(default)]
        min_bytes: u64,
        /// Largest size, bytes, at most 2^50. Default 2^40.
        #[serde(default = "default_max_bytes")]
        max_bytes: u64,
        /// Tail of large files. Default: none.
        #[serde(default)]
        tail: Option<ParetoTail>,
    },
}

/// Files of a class of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeClass {
    /// Largest size of the class, bytes, at most 2^50. The smallest is one byte above that of the
    /// class before; the first class has only this size.
    pub up_to_bytes: u64,
    /// Number or weight of the files, finite and at least 0.
    pub count: f64,
}

/// Pareto distribution of the largest files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParetoTail {
    /// Smallest size of the tail and largest of the lognormal body, bytes, between the bounds.
    pub from_bytes: u64,
    /// Exponent, 0.1 to 10.
    pub alpha: f64,
    /// Share of all files, percent, above 0 and below 100.
    pub percent: f64,
}

/// Contents of files, in blocks of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileContent {
    /// Values of the random bytes. Default `ascii`.
    #[serde(default)]
    pub alphabet: Alphabet,
    /// Share of each block that repeats one byte, percent, 0 to 100. Default 0.
    #[serde(default)]
    pub compressible_percent: u8,
    /// Share of blocks that are copies of one of 64 blocks, percent, 0 to 100. Default 0.
    #[serde(default)]
    pub duplicate_percent: u8,
}

/// Values of random bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Alphabet {
    /// 64 printable characters, 0x20 to 0x5f: 6 bits per byte.
    #[default]
    Ascii,
    /// All values: cannot be compressed.
    Binary,
}

fn default_workers() -> u32 {
    4
}
fn default_one() -> u32 {
    1
}
fn default_divisor() -> u64 {
    1
}
fn default_read_percent() -> u8 {
    80
}
fn default_block_bytes() -> u32 {
    1 << 20
}
fn default_max_bytes() -> u64 {
    1 << 40
}
fn default_sample_interval_ms() -> u32 {
    1000
}
