//! Building, checking and deleting trees, in threads that take one tree at a time.
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hakaru_contract::ErrorClass;
use hakaru_contract::files::TreesConfig;
use hakaru_files::{BuildState, FileId, Forest, Role, Total, Units, folder_name};
use hakaru_runtime::file::folder::{Folder, drop_from_cache, is_no_folder};
use hakaru_runtime::{Reactor, clock};
use hakaru_units::Time;
use serde_json::json;

use super::crew::{self, Report, Shared, Watched};
use super::place::Place;
use crate::control::{Control, Counters};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;

/// Threads that delete.
pub const REMOVERS: u32 = 4;
/// Interval of the samples of deletion, milliseconds.
pub const SAMPLES_MS: u32 = 1000;
/// Entity of the counters.
pub const ENTITY: &str = "trees";
/// Bytes that are written or read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Wrong files that are reported one by one.
const REPORTED_MAX: u64 = 20;
/// Share of the free space that trees may take; metadata need the rest.
const FREE_SHARE: u128 = 98;

/// Work on each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Write files that are missing or have the wrong size.
    Build,
    /// Compare files with the description.
    Verify,
    /// Drop files from the page cache.
    DropFromCache,
    /// Delete files and folders.
    Remove,
}

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

/// Progress of all threads.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    bytes: AtomicU64,
    kept: AtomicU64,
    wrong: AtomicU64,
}

impl Progress {
    fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Returns the counters by name.
    pub fn counters(&self) -> BTreeMap<String, f64> {
        [
            ("files_done", &self.files),
            ("bytes_done", &self.bytes),
            ("files_kept", &self.kept),
            ("files_wrong", &self.wrong),
        ]
        .map(|(name, counter)| (name.to_owned(), counter.load(Ordering::Relaxed) as f64))
        .into()
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
    let mut wait = |until| threads.watch(reactor, control, until, &mut samples, &mut |_, _| ());
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
        &mut |threads, _| threads.watch(reactor, control, None, &mut samples, &mut sample),
    )?;
    if done == Watched::Stopped {
        threads.end(reactor, control, &mut samples, &mut sample)?;
    } else if work == Work::Remove {
        let place = Arc::into_inner(place).ok_or_else(|| {
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
    BTreeMap::from([
        ("directory".to_owned(), json!(place.directory())),
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
    ])
}

/// Runs `work` on all trees in threads. `watch` waits for them.
///
/// # Errors
/// The file system refused something.
pub fn process(
    work: Work,
    forest: &Arc<Forest>,
    place: &Arc<Place>,
    workers: u32,
    progress: &Arc<Progress>,
    threads: &mut crew::Crew,
    watch: &mut dyn FnMut(&mut crew::Crew, Work) -> Result<Watched, Failure>,
) -> Result<Watched, Failure> {
    let state = place.read_marker()?.map(|marker| marker.state);
    match work {
        Work::Build => {
            if state.is_none() {
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
            let task = Task {
                work,
                forest: &forest,
                place: &place,
                progress: &progress,
                shared,
            };
            while let Some(tree) = take(&units) {
                if !task.process_tree(tree)? {
                    break;
                }
            }
            // Released before the end is reported, because deleting needs the only reference.
            drop(place);
            Ok(())
        })?;
    }
    let watched = watch(threads, work)?;
    if work == Work::Build && watched == Watched::Ended {
        place.folder().sync_file_system().or_environment(
            format_args!("write {} to stable storage", place.directory().display()),
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

fn check_space(forest: &Forest, place: &Place) -> Result<(), Failure> {
    let needed = forest.space_bytes();
    let shown = place.directory().display();
    let free = place.folder().free_bytes().or_environment(
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

struct Task<'a> {
    work: Work,
    forest: &'a Forest,
    place: &'a Place,
    progress: &'a Progress,
    shared: &'a Shared,
}

impl Task<'_> {
    /// Processes a tree. Returns `false` if the threads must end.
    fn process_tree(&self, tree: u32) -> Result<bool, Failure> {
        let folders = self.forest.config().folders;
        let mut by_folder: Vec<Vec<FileId>> = vec![Vec::new(); folders as usize];
        for file in self.forest.files(tree) {
            by_folder[self.forest.folder(file) as usize].push(file);
        }
        let mut buffers = [vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]];
        // Every folder's parent is on the level above, and levels do not rise with the number.
        let mut order: Vec<u32> = (0..folders).collect();
        order.sort_by_key(|folder| self.forest.shape().level(*folder));
        if self.work == Work::Remove {
            order.reverse();
        }
        for folder in order {
            let Some(opened) = self.open(tree, folder)? else {
                continue;
            };
            for file in &by_folder[folder as usize] {
                if self.shared.is_stopped() {
                    return Ok(false);
                }
                self.process_file(&opened, *file, &mut buffers)?;
            }
            if self.work == Work::Remove {
                self.remove_folder(tree, folder, &opened, &by_folder[folder as usize])?;
            }
        }
        Ok(true)
    }

    /// Opens a folder. Creates the last one on the way if a build needs it. Returns `None` if it
    /// is missing and nothing is to be built.
    fn open(&self, tree: u32, folder: u32) -> Result<Option<Folder>, Failure> {
        let chain = self.forest.shape().chain(tree, folder);
        let mut opened: Option<Folder> = None;
        for (depth, &next) in chain.iter().enumerate() {
            let above = opened.as_ref().unwrap_or(self.place.folder());
            let name = folder_name(tree, next);
            let created = if self.work == Work::Build && depth + 1 == chain.len() {
                above.create_folder(&name)
            } else {
                Ok(())
            };
            let below = match created.and_then(|()| above.lookup(&name)) {
                Err(error) if self.is_missing(&error) => {
                    self.missing_folder(tree, folder);
                    return Ok(None);
                }
                other => other.map_err(|error| {
                    self.failure(
                        "open or create",
                        &self.forest.folder_path(tree, next),
                        &error,
                    )
                })?,
            };
            opened = Some(below);
        }
        Ok(opened)
    }

    /// Returns whether the error of a lookup says that there is no such folder, and the work
    /// continues without it. For a check, a file or a symbolic link in its place is none either.
    fn is_missing(&self, error: &io::Error) -> bool {
        match self.work {
            Work::Build => false,
            Work::Verify => error.kind() == io::ErrorKind::NotFound || is_no_folder(error),
            Work::DropFromCache | Work::Remove => error.kind() == io::ErrorKind::NotFound,
        }
    }

    fn missing_folder(&self, tree: u32, folder: u32) {
        if self.work == Work::Verify {
            let path = self.forest.folder_path(tree, folder);
            let files = self
                .forest
                .files(tree)
                .filter(|f| self.forest.folder(*f) == folder);
            // A folder without files counts too.
            let missing = files.count().max(1) as u64;
            self.complain(&path, "the folder is missing", missing);
        }
    }

    fn process_file(
        &self,
        folder: &Folder,
        file: FileId,
        buffers: &mut [Vec<u8>; 2],
    ) -> Result<(), Failure> {
        let name = self.forest.file_name(file);
        let size = self.forest.size(file);
        let failed =
            |doing, error: &io::Error| Err(self.failure(doing, &self.forest.path(file), error));
        match self.work {
            Work::Build => match folder.file_bytes(&name) {
                Ok(Some(bytes)) if bytes == size => Progress::add(&self.progress.kept, 1),
                Ok(_) => {
                    let written = folder
                        .write_file(&name)
                        .and_then(|opened| self.write(opened, file, size, &mut buffers[0]));
                    if let Err(error) = written {
                        return failed("write", &error);
                    }
                }
                Err(error) => return failed("read the size of", &error),
            },
            Work::Verify => {
                let compared = folder
                    .open_file(&name)
                    .and_then(|opened| self.compare(opened, file, size, buffers));
                match compared {
                    Ok(None) => {}
                    Ok(Some(problem)) => self.complain(&self.forest.path(file), &problem, 1),
                    Err(error) => {
                        let problem = format!("cannot be read: {error}");
                        self.complain(&self.forest.path(file), &problem, 1);
                    }
                }
            }
            Work::DropFromCache => {
                let dropped = folder
                    .open_file(&name)
                    .and_then(|file| drop_from_cache(&file));
                if let Err(error) = dropped {
                    return failed("drop from the page cache", &error);
                }
            }
            Work::Remove => match folder.delete_file(&name) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => return failed("delete", &error),
            },
        }
        Progress::add(&self.progress.files, 1);
        Progress::add(&self.progress.bytes, size);
        Ok(())
    }

    fn write(&self, mut to: File, file: FileId, size: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut offset = 0;
        while offset < size {
            let length = (size - offset).min(buffer.len() as u64) as usize;
            self.forest.fill(file, offset, &mut buffer[..length]);
            to.write_all(&buffer[..length])?;
            offset += length as u64;
        }
        Ok(())
    }

    /// Returns the first difference between a file and its description.
    fn compare(
        &self,
        mut from: File,
        file: FileId,
        size: u64,
        [read, expected]: &mut [Vec<u8>; 2],
    ) -> io::Result<Option<String>> {
        let metadata = from.metadata()?;
        if !metadata.is_file() {
            return Ok(Some("it is not a regular file".to_owned()));
        }
        if metadata.len() != size {
            return Ok(Some(format!(
                "it has {} bytes instead of {size}",
                metadata.len()
            )));
        }
        let mut offset = 0;
        while offset < size {
            let length = (size - offset).min(read.len() as u64) as usize;
            from.read_exact(&mut read[..length])?;
            self.forest.fill(file, offset, &mut expected[..length]);
            let mut pairs = read[..length].iter().zip(&expected[..length]);
            if let Some(at) = pairs.position(|(is, should)| is != should) {
                return Ok(Some(format!("byte {} is wrong", offset + at as u64)));
            }
            offset += length as u64;
        }
        Ok(None)
    }

    /// Deletes a folder whose described `files` are deleted.
    fn remove_folder(
        &self,
        tree: u32,
        folder: u32,
        opened: &Folder,
        files: &[FileId],
    ) -> Result<(), Failure> {
        let parent = match self.forest.shape().parent(tree, folder) {
            Some(parent) => self.open(tree, parent)?,
            None => None,
        };
        let above = parent.as_ref().unwrap_or(self.place.folder());
        let name = folder_name(tree, folder);
        let deleted = match above.delete_folder(&name) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => files
                .iter()
                .filter(|file| file.role == Role::Target)
                .flat_map(|file| self.forest.passing_names(*file))
                // A load that was killed leaves them.
                .try_for_each(|name| opened.delete_file(&name).map(drop))
                .and_then(|()| above.delete_folder(&name)),
            other => other,
        };
        deleted
            .map(drop)
            .map_err(|error| self.failure("delete", &self.forest.folder_path(tree, folder), &error))
    }

    /// Counts wrong files, and reports the first ones.
    fn complain(&self, path: &str, problem: &str, files: u64) {
        if self.progress.wrong.fetch_add(files, Ordering::Relaxed) < REPORTED_MAX {
            let path = self.place.directory().join(path);
            self.shared.send(Report::Complaint(Failure::new(
                ErrorClass::Verification,
                format_args!("{}: {problem}", path.display()),
                "build the trees again",
            )));
        }
    }

    fn failure(&self, doing: &str, path: &str, error: &io::Error) -> Failure {
        let path = self.place.directory().join(path);
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some space and repeat the command, which continues"
            }
            io::ErrorKind::DirectoryNotEmpty => "delete what others put there, and repeat",
            _ => "check the rights and the file system, and repeat the command, which continues",
        };
        Failure::environment(
            format_args!("cannot {doing} {}: {error}", path.display()),
            hint,
        )
    }
}
