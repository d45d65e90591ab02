//! The `files` engine: builds trees of files, checks and deletes them, and runs loads on them.
//!
//! `crew` runs threads beside the main thread, which speaks the contract. `place` owns the directory
//! of the trees: its lock and its marker. `trees` does the work of one tree for `build`, `verify`
//! and `remove`. `load` runs the tools, each in its own thread, with the operations of the core
//! (`hakaru_files`) carried out by `directory`. `survey` is a verb of the command line.
//!
//! A call to a file system cannot be interrupted. When the engine ends, a thread that hangs in one
//! does not hold the others up; it ends with the process.
use std::path::Path;
use std::sync::Arc;

use hakaru_contract::files::FilesConfig;
use hakaru_files::BuildState;
use hakaru_runtime::Reactor;

use crate::control::Control;
use crate::failure::Failure;

mod crew;
mod directory;
mod load;
mod place;
mod survey;
mod trees;

pub use survey::survey;

use place::Place;
use trees::Work;

/// Runs the engine: a task until it is done, or until `stop`.
///
/// # Errors
/// The configuration is invalid. The directory belongs to something else, is locked, too small, or
/// refused by the operating system. Files differ from their description.
pub fn run(config: &FilesConfig, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    match config {
        FilesConfig::Build {
            directory,
            trees: description,
            workers,
            sample_interval_ms,
        } => {
            let forest = Arc::new(trees::forest_of(description)?);
            let place = Place::for_build(Path::new(directory), &forest)?;
            let crew = trees::Crew::new(*workers, *sample_interval_ms)?;
            trees::run(Work::Build, forest, place, crew, reactor, control)
        }
        FilesConfig::Verify {
            directory,
            workers,
            sample_interval_ms,
        } => {
            let (place, marker) = Place::of_trees(Path::new(directory), false)?;
            place.require(&marker, &[BuildState::Complete])?;
            let forest = Arc::new(trees::forest_of(&marker.trees)?);
            let crew = trees::Crew::new(*workers, *sample_interval_ms)?;
            trees::run(Work::Verify, forest, place, crew, reactor, control)
        }
        FilesConfig::Remove { directory } => {
            let (place, marker) = Place::of_trees(Path::new(directory), true)?;
            let forest = Arc::new(trees::forest_of(&marker.trees)?);
            let crew = trees::Crew::new(trees::REMOVERS, trees::SAMPLES_MS)?;
            trees::run(Work::Remove, forest, place, crew, reactor, control)
        }
        FilesConfig::Load(config) => load::run(config, reactor, control),
    }
}
