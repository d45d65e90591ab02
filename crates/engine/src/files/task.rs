//! The work of one thread on one tree after the other: building, checking and deleting.
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use hakaru_contract::ErrorClass;
use hakaru_files::{FileId, Forest, Role, folder_name};
use hakaru_runtime::file::folder::is_no_folder;

use super::crew::{Report, Shared};
use super::place::Place;
use super::root::{CHUNK_BYTES, Visitor};
use crate::failure::Failure;

/// Wrong files that are reported one by one.
const REPORTED_MAX: u64 = 20;

/// Work on each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Write files that are missing or have the wrong size, and delete what a load that was killed
    /// left beside them.
    Build,
    /// Compare files with the description.
    Verify,
    /// Drop files from the page cache.
    DropFromCache,
    /// Delete files and folders.
    Remove,
}

/// Progress of all threads.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    bytes: AtomicU64,
    kept: AtomicU64,
    /// Files that differ from their description.
    pub wrong: AtomicU64,
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

/// The work of one thread.
pub struct Task<'a> {
    work: Work,
    forest: &'a Forest,
    place: &'a Place,
    progress: &'a Progress,
    shared: &'a Shared,
    visitor: Box<dyn Visitor>,
    /// Whether there were trees before, so that loads may have left files in them.
    found: bool,
    /// Described contents, to compare what is read with them.
    expected: Vec<u8>,
}

impl<'a> Task<'a> {
    /// Creates the work of a thread that reaches the files through `visitor`. `found`: whether
    /// there were trees before.
    pub fn new(
        work: Work,
        forest: &'a Forest,
        place: &'a Place,
        progress: &'a Progress,
        shared: &'a Shared,
        visitor: Box<dyn Visitor>,
        found: bool,
    ) -> Task<'a> {
        Task {
            work,
            forest,
            place,
            progress,
            shared,
            visitor,
            found,
            expected: vec![0; CHUNK_BYTES],
        }
    }

    /// Processes a tree. Returns `false` if the threads must end.
    ///
    /// # Errors
    /// The file system or the server refused something.
    pub fn process_tree(&mut self, tree: u32) -> Result<bool, Failure> {
        let folders = self.forest.config().folders;
        let mut by_folder: Vec<Vec<FileId>> = vec![Vec::new(); folders as usize];
        for file in self.forest.files(tree) {
            by_folder[self.forest.folder(file) as usize].push(file);
        }
        // Every folder's parent is on the level above, and levels do not rise with the number.
        let mut order: Vec<u32> = (0..folders).collect();
        order.sort_by_key(|folder| self.forest.shape().level(*folder));
        if self.work == Work::Remove {
            order.reverse();
        }
        for folder in order.iter().copied() {
            if !self.enter(tree, folder)? {
                continue;
            }
            for file in &by_folder[folder as usize] {
                if self.shared.is_stopped() {
                    return Ok(false);
                }
                self.process_file(*file)?;
            }
            if self.work == Work::Remove {
                self.remove_folder(tree, folder, &by_folder[folder as usize])?;
            }
        }
        if self.work == Work::Build && self.found {
            // After all folders exist, which count as entries.
            let mut entries: Vec<usize> = by_folder.iter().map(Vec::len).collect();
            for above in (0..folders).filter_map(|f| self.forest.shape().parent(tree, f)) {
                entries[above as usize] += 1;
            }
            for folder in order {
                if self.shared.is_stopped() {
                    return Ok(false);
                }
                let described = entries[folder as usize] as u64;
                self.tidy(tree, folder, described, &by_folder[folder as usize])?;
            }
        }
        Ok(true)
    }

    /// Moves to a folder, which a build creates if necessary. Returns `false` if it is missing and
    /// nothing is to be built.
    fn enter(&mut self, tree: u32, folder: u32) -> Result<bool, Failure> {
        let names = self.names(tree, folder);
        match self.visitor.enter(&names, self.work == Work::Build) {
            Ok(()) => Ok(true),
            Err(error) if self.is_missing(&error) => {
                self.missing_folder(tree, folder);
                Ok(false)
            }
            Err(error) => {
                let path = self.forest.folder_path(tree, folder);
                Err(self.failure("open or create", &path, &error))
            }
        }
    }

    /// Returns the names of the folders from the destination down to one.
    fn names(&self, tree: u32, folder: u32) -> Vec<String> {
        let chain = self.forest.shape().chain(tree, folder);
        chain.iter().map(|each| folder_name(tree, *each)).collect()
    }

    /// Returns whether the error of a lookup says that there is no such folder, and the work
    /// continues without it. For a check, a file or a symbolic link in its place is none either.
    fn is_missing(&self, error: &io::Error) -> bool {
        match self.work {
            Work::Build => false,
            Work::Verify => {
                let is_missing = matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                );
                is_missing || is_no_folder(error)
            }
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

    fn process_file(&mut self, file: FileId) -> Result<(), Failure> {
        let name = self.forest.file_name(file);
        let size = self.forest.size(file);
        let (doing, result) = match self.work {
            Work::Build => match self.visitor.file_bytes(&name) {
                Ok(Some(bytes)) if bytes == size => {
                    Progress::add(&self.progress.kept, 1);
                    ("write", Ok(()))
                }
                Ok(_) => {
                    let forest = self.forest;
                    let fill = &mut |offset, out: &mut [u8]| forest.fill(file, offset, out);
                    ("write", self.visitor.write(&name, size, fill))
                }
                Err(error) => ("read the size of", Err(error)),
            },
            Work::Verify => {
                let problem = match self.compare(&name, file, size) {
                    Ok(problem) => problem,
                    Err(error) => Some(format!("cannot be read: {error}")),
                };
                if let Some(failure) = self.visitor.lost() {
                    return Err(failure);
                }
                if let Some(problem) = problem {
                    self.complain(&self.forest.path(file), &problem, 1);
                }
                ("read", Ok(()))
            }
            Work::DropFromCache => (
                "drop from the page cache",
                self.visitor.drop_from_cache(&name),
            ),
            Work::Remove => match self.visitor.delete_file(&name) {
                Ok(true) => ("delete", Ok(())),
                Ok(false) => return Ok(()),
                Err(error) => ("delete", Err(error)),
            },
        };
        result.map_err(|error| self.failure(doing, &self.forest.path(file), &error))?;
        Progress::add(&self.progress.files, 1);
        Progress::add(&self.progress.bytes, size);
        Ok(())
    }

    /// Returns the first difference between a file and its description.
    fn compare(&mut self, name: &str, file: FileId, size: u64) -> io::Result<Option<String>> {
        let (forest, expected) = (self.forest, &mut self.expected);
        let mut problem = None;
        let wrong_size = Cell::new(None);
        let mut accept = |bytes| {
            if bytes != size {
                wrong_size.set(Some(format!("it has {bytes} bytes instead of {size}")));
            }
            bytes == size
        };
        let mut check = |offset, is: &[u8]| {
            let should = &mut expected[..is.len()];
            forest.fill(file, offset, should);
            let wrong = is.iter().zip(should).position(|(is, should)| is != should);
            problem = wrong.map(|at| format!("byte {} is wrong", offset + at as u64));
            problem.is_none()
        };
        self.visitor.read(name, &mut accept, &mut check)?;
        Ok(wrong_size.take().or(problem))
    }

    /// Deletes a folder, the current one, whose described `files` are deleted.
    fn remove_folder(&mut self, tree: u32, folder: u32, files: &[FileId]) -> Result<(), Failure> {
        let names = self.names(tree, folder);
        let deleted = match self.visitor.delete_folder(&names) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                self.remove_passing(&names, files)
            }
            other => other,
        };
        deleted.map_err(|error| {
            let path = self.forest.folder_path(tree, folder);
            self.failure("delete", &path, &error)
        })
    }

    /// Deletes what a load that was killed left in a folder, and the folder.
    fn remove_passing(&mut self, names: &[String], files: &[FileId]) -> io::Result<()> {
        self.visitor.enter(names, false)?;
        self.delete_passing(files)?;
        self.visitor.delete_folder(names)
    }

    /// Deletes what a load that was killed left in a folder, if it has more than its `described`
    /// number of entries. Files of others stay.
    fn tidy(
        &mut self,
        tree: u32,
        folder: u32,
        described: u64,
        files: &[FileId],
    ) -> Result<(), Failure> {
        self.enter(tree, folder)?;
        let tidied = self
            .visitor
            .entries()
            .and_then(|entries| match entries > described {
                true => self.delete_passing(files),
                false => Ok(()),
            });
        tidied.map_err(|error| {
            let path = self.forest.folder_path(tree, folder);
            self.failure("list and tidy", &path, &error)
        })
    }

    /// Deletes the files that a load creates beside `files` of the current folder. They are empty, so
    /// a file of somebody else with contents stays even if it has such a name.
    fn delete_passing(&mut self, files: &[FileId]) -> io::Result<()> {
        let targets = files.iter().filter(|file| file.role == Role::Target);
        for name in targets.flat_map(|file| self.forest.passing_names(*file)) {
            if let Ok(Some(0)) = self.visitor.file_bytes(&name) {
                self.visitor.delete_file(&name)?;
            }
        }
        Ok(())
    }

    /// Counts wrong files, and reports the first ones.
    fn complain(&self, path: &str, problem: &str, files: u64) {
        if self.progress.wrong.fetch_add(files, Ordering::Relaxed) < REPORTED_MAX {
            let path = self.place.root().locate(path);
            self.shared.send(Report::Complaint(Failure::new(
                ErrorClass::Verification,
                format_args!("{path}: {problem}"),
                "build the trees again",
            )));
        }
    }

    fn failure(&self, doing: &str, path: &str, error: &io::Error) -> Failure {
        let path = self.place.root().locate(path);
        // A session that ended has a reason of its own.
        if let Some(lost) = self.visitor.lost() {
            let message = format!("cannot {doing} {path}: {}", lost.message);
            return Failure::new(lost.class, message, lost.hint);
        }
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some space and repeat the command, which continues"
            }
            io::ErrorKind::DirectoryNotEmpty => "delete what others put there, and repeat",
            _ => "check the rights and the file system, and repeat the command, which continues",
        };
        Failure::environment(format_args!("cannot {doing} {path}: {error}"), hint)
    }
}
