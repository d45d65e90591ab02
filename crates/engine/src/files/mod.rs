//! The `files` engine: builds trees of files, checks and deletes them, and runs loads on them.
//!
//! `root` is the seam to destinations: `directory` of this machine, or a share of a server (`smb`);
//! `destination` opens them. `place` is a destination of trees with its lock and its marker.
//!
//! `crew` runs threads beside the main thread, which speaks the contract. `trees` runs `build`,
//! `verify` and `remove`, of which `task` is the work of one thread. `load` runs the tools: `worker`
//! is one of them, in its own thread, and `state` has their counters. The operations are those of
//! the core (`hakaru_files`). `survey` is a verb of the command line.
//!
//! A call to a file system cannot be interrupted. When the engine ends, a thread that hangs in one
//! does not hold the others up; it ends with the process.
use std::sync::Arc;

use hakaru_contract::files::FilesConfig;
use hakaru_files::BuildState;
use hakaru_runtime::Reactor;

use crate::control::Control;
use crate::failure::Failure;

mod crew;
mod destination;
mod directory;
mod load;
mod place;
mod root;
mod smb;
mod state;
mod survey;
mod task;
mod trees;
mod worker;

pub use survey::survey;

use place::Place;
use root::CHUNK_BYTES;
use task::Work;

/// Runs the engine: a task until it is done, or until `stop`.
///
/// # Errors
/// The configuration is invalid. The destination belongs to something else, is locked, too small, or
/// refused by the operating system or its server. Files differ from their description.
pub fn run(config: &FilesConfig, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    match config {
        FilesConfig::Build {
            destination,
            trees: description,
            workers,
            sample_interval_ms,
        } => {
            let forest = Arc::new(trees::forest_of(description)?);
            let root = destination::open(destination, true, CHUNK_BYTES as u32)?;
            let place = Place::for_build(root, &forest)?;
            let crew = trees::Crew::new(*workers, *sample_interval_ms)?;
            trees::run(Work::Build, forest, place, crew, reactor, control)
        }
        FilesConfig::Verify {
            destination,
            workers,
            sample_interval_ms,
        } => {
            let root = destination::open(destination, false, CHUNK_BYTES as u32)?;
            let (place, marker) = Place::of_trees(root, false)?;
            place.require(&marker, &[BuildState::Complete])?;
            let forest = Arc::new(trees::forest_of(&marker.trees)?);
            let crew = trees::Crew::new(*workers, *sample_interval_ms)?;
            trees::run(Work::Verify, forest, place, crew, reactor, control)
        }
        FilesConfig::Remove { destination } => {
            let root = destination::open(destination, false, CHUNK_BYTES as u32)?;
            let (place, marker) = Place::of_trees(root, true)?;
            let forest = Arc::new(trees::forest_of(&marker.trees)?);
            let crew = trees::Crew::new(trees::REMOVERS, trees::SAMPLES_MS)?;
            trees::run(Work::Remove, forest, place, crew, reactor, control)
        }
        FilesConfig::Load(config) => load::run(config, reactor, control),
    }
}
