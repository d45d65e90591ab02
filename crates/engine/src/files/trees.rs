//! Building, checking and deleting trees, in threads that take one tree at a time.
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use hakaru_contract::ErrorClass;
use hakaru_contract::files::TreesConfig;
use hakaru_files::{BuildState, Forest, Total, Units};
use hakaru_runtime::{Reactor, clock};
use hakaru_units::Time;
use serde_json::json;

use super::crew::{self, Watched};
use super::place::Place;
use super::task::{Progress, Task, Work};
use crate::control::{Control, Counters};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;

/// Threads that delete.
pub const REMOVERS: u32 = 4;
/// Interval of the samples of deletion, milliseconds.
pub const SAMPLES_MS: u32 = 1000;
/// Entity of the counters.
pub const ENTITY: &str = "trees";
/// Share of the free space that trees may take; metadata need the rest.
const FREE_SHARE: u128 = 98;

/// Threads and samples.
pub struct Crew {
    workers: u32,
    samples: Schedule,
}

impl Crew {
    /// Checks the number of threads and the interval of the samples.
    ///
    /// # Errors
    /// They are out of bounds.
    pub fn new(workers: u32, sample_interval_ms: u32) -> Result<Crew, Failure> {
        if !(1..=256).contains(&workers) {
            let message = format!("workers is {workers}; it must be 1 to 256");
            return Err(Failure::usage(message, "correct the configuration"));
        }
        Ok(Crew {
            workers,
            samples: Schedule::new(sample_interval_ms)?,
        })
    }
}

/// Runs a task: ready, start, all trees, result.
///
/// # Errors
/// As [`super::run`].
pub fn run(
    work: Work,
    forest: Arc<Forest>,
    place: Place,
    crew: Crew,
    reactor: &Reactor,
    control: &mut Control,
) -> Result<(), Failure> {
    let Crew {
        workers,
        mut samples,
    } = crew;
    control.ready(facts(&forest, &place));
    let mut threads = crew::Crew::new(reactor)?;
    let mut wait = |until| {
        let sample = &mut |_: Time, _: &Control| ();
        threads.watch(reactor, control, &mut |_| until, &mut samples, sample)
    };
    let started = match wait(None)? {
        Watched::Started(at) => (wait(Some(at))? != Watched::Stopped).then_some(at),
        _ => None,
    };
    let Some(at) = started else {
        control.result(clock::now(), Progress::default().counters(), Vec::new());
        return Ok(());
    };
    samples.start(at);
    let place = Arc::new(place);
    let progress = Arc::new(Progress::default());
    let mut sample = |now: Time, control: &Control| {
        let counters = Counters::from([(ENTITY.to_owned(), progress.counters())]);
        control.sample(now, counters, Vec::new());
    };
    let done = process(
        work,
        &forest,
        &place,
        workers,
        &progress,
        &mut threads,
        &mut |threads, _| threads.watch(reactor, control, &mut |_| None, &mut samples, &mut sample),
    )?;
    if done == Watched::Stopped {
        threads.end(reactor, control, &mut samples, &mut sample)?;
    } else if work == Work::Remove {
        let place = Arc::into_inner(place).filter(|place| !place.is_in_use());
        let place = place.ok_or_else(|| {
            let message = "a thread still uses the trees after their deletion";
            Failure::peer(message, "repeat `hakaru files remove`")
        })?;
        place.remove()?;
    }
    let now = clock::now();
    sample(now, control);
    let wrong = progress.wrong.load(Ordering::Relaxed);
    if wrong > 0 {
        return Err(Failure::new(
            ErrorClass::Verification,
            format_args!("{wrong} files differ from their description"),
            "the messages before this one name the first of them",
        ));
    }
    control.result(now, progress.counters(), Vec::new());
    Ok(())
}

/// Checks a description.
///
/// # Errors
/// A field is out of bounds.
pub fn forest_of(config: &TreesConfig) -> Result<Forest, Failure> {
    Forest::new(config).map_err(|error| Failure::usage(&error, &error.hint))
}

/// Returns the facts for `ready`.
pub fn facts(forest: &Forest, place: &Place) -> BTreeMap<String, serde_json::Value> {
    let Total { files, bytes } = forest.targets();
    let dummies = forest.dummies();
    let config = forest.config();
    let mut facts = place.root().facts();
    facts.extend([
        ("directory".to_owned(), json!(place.shown())),
        ("digest".to_owned(), json!(forest.digest())),
        ("trees".to_owned(), json!(config.trees)),
        (
            "folders".to_owned(),
            json!(u64::from(config.trees) * u64::from(config.folders)),
        ),
        ("files".to_owned(), json!(files)),
        ("bytes".to_owned(), json!(bytes)),
        ("dummy_files".to_owned(), json!(dummies.files)),
        ("dummy_bytes".to_owned(), json!(dummies.bytes)),
    ]);
    facts
}

/// Runs `work` on all trees in threads. `watch` waits for them.
///
/// # Errors
/// The file system or the server refused something.
pub fn process(
    work: Work,
    forest: &Arc<Forest>,
    place: &Arc<Place>,
    workers: u32,
    progress: &Arc<Progress>,
    threads: &mut crew::Crew,
    watch: &mut dyn FnMut(&mut crew::Crew, Work) -> Result<Watched, Failure>,
) -> Result<Watched, Failure> {
    let found = place.read_marker()?.is_some();
    match work {
        Work::Build => {
            if !found {
                check_space(forest, place)?;
            }
            place.write_marker(BuildState::Building, forest)?;
        }
        Work::Verify | Work::DropFromCache => {}
        Work::Remove => place.write_marker(BuildState::Removing, forest)?,
    }
    let units = Arc::new(Mutex::new(Units::new(0, 1, forest.config().trees)));
    for number in 0..workers.min(forest.config().trees) {
        let (forest, place) = (Arc::clone(forest), Arc::clone(place));
        let (units, progress) = (Arc::clone(&units), Arc::clone(progress));
        threads.spawn(format!("tree-{number}"), move |shared| {
            let visitor = Arc::clone(place.root()).visitor()?;
            let mut task = Task::new(work, &forest, &place, &progress, shared, visitor, found);
            while let Some(tree) = take(&units) {
                if !task.process_tree(tree)? {
                    break;
                }
            }
            // Released before the end is reported, because deleting needs the only reference.
            drop(task);
            drop(place);
            Ok(())
        })?;
    }
    let watched = watch(threads, work)?;
    if work == Work::Build && watched == Watched::Ended {
        place.root().sync().or_environment(
            format_args!("write {} to stable storage", place.shown()),
            "check the disk",
        )?;
        place.write_marker(BuildState::Complete, forest)?;
    }
    Ok(watched)
}

/// Takes the next tree. A thread that panicked while it held the lock ended the process.
pub fn take(units: &Mutex<Units>) -> Option<u32> {
    units.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Gives a used tree back and takes the next one, which is the same if no other is free.
pub fn exchange(units: &Mutex<Units>, used: Option<u32>) -> Option<u32> {
    let mut units = units.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tree) = used {
        units.give_back(tree);
    }
    units.take()
}

fn check_space(forest: &Forest, place: &Place) -> Result<(), Failure> {
    let needed = forest.space_bytes();
    let shown = place.shown();
    let free = place.root().free_bytes().or_environment(
        format_args!("read the free space of {shown}"),
        "choose another directory",
    )?;
    if needed > u128::from(free) * FREE_SHARE / 100 {
        return Err(Failure::environment(
            format_args!("the trees take {needed} bytes, and {shown} has {free} bytes free"),
            "free some space, choose another directory, or divide the sizes (`scale`)",
        ));
    }
    Ok(())
}
