//! Trees of files and loads on them, without I/O.
//!
//! A **forest** is a number of trees of equal shape. Every folder, name, size and byte follows from
//! its description ([`hakaru_contract::files::TreesConfig`]) by counter-based draws: each is a hash
//! of the seed and of the place where it is used. So any machine builds the same trees, and checks
//! any file without a second copy.
//!
//! # Calls of a shell, in order
//!
//! 1. [`Forest::new`] checks a description. [`Forest::digest`] identifies it.
//! 2. To build or check: for each tree, [`Forest::folder_path`] of each folder and, for each of
//!    [`Forest::files`], [`Forest::path`], [`Forest::size`] and [`Forest::fill`]. A [`Marker`] in
//!    the directory holds the description and the state of the build.
//! 3. To load: [`Tool::assign`] gives a tool a tree from [`Units`]. [`Tool::poll_operations`]
//!    returns its next operations, which a transport carries out: a mounted file system or a client
//!    of a file protocol. [`Tool::fill`] provides the data of a write, [`Tool::check`] judges that
//!    of a read. [`Tool::handle_completion`] records the outcome and its times in a [`Journal`],
//!    which [`Meter::absorb`] adds to the counters and histograms.
//!
//! A tool has one operation in flight, or with [`Conduct::ahead`] those of one file. It does not
//! retry. When its tree is used up, [`Tool::is_idle`] is true until it gets another one. Users of a
//! mix keep their tree and think: [`Tool::due`] is the instant at which the next operation begins.
//!
//! | module | contents |
//! |---|---|
//! | `draw`, `normal` | random bits of a place; the normal distribution |
//! | `sizes`, `shape`, `content` | sizes of files; folders of a tree; bytes of files |
//! | `forest` | checked descriptions |
//! | `marker` | the file that names the description of built trees |
//! | `survey` | sizes and depths of an existing directory, as a table |
//! | `operation`, `step`, `tool`, `units` | operations of a load; the use of one file; one tool; the trees that tools share |
//! | `mix`, `user` | weighted operations; the draws, files and times of one user |
//! | `meter` | counters and histograms |
//!
//! **Not supported**: several files at once in one tool, partial reads and writes of files.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod content;
mod draw;
mod forest;
mod marker;
mod meter;
mod mix;
mod normal;
mod operation;
mod settings;
mod shape;
mod sizes;
mod step;
mod survey;
mod tool;
mod units;
mod user;

pub use content::BLOCK_BYTES;
pub use forest::{FILES_MAX, FileId, Forest, Role, Total};
pub use marker::{BuildState, MARKER_BYTES_MAX, MARKER_NAME, Marker};
pub use meter::{Journal, Meter};
pub use operation::{
    Action, Completion, Failed, Measured, OpenMode, Operation, OperationId, Outcome,
};
pub use settings::Settings;
pub use shape::{Shape, folder_name};
pub use sizes::{SIZE_MAX, Sizes};
pub use survey::{Entry, Survey};
pub use tool::{Ahead, Conduct, Mismatch, Tool};
pub use units::Units;
