//! The directory of trees: its lock, and the marker that names their description.
//!
//! Nothing is ever written to a directory that holds anything else.
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use hakaru_files::{BuildState, Forest, MARKER_BYTES_MAX, MARKER_NAME, Marker};
use hakaru_runtime::file::folder::{self, Folder};

use crate::failure::{Failure, OrEnvironment};

/// Name of the file that is locked while a process works on the trees.
const LOCK_NAME: &str = ".hakaru-files.lock";
/// Name of a marker that is being written.
const NEW_MARKER_NAME: &str = ".hakaru-files.new";

/// A locked directory of trees.
pub struct Place {
    directory: PathBuf,
    /// Open folder, from which lookups begin.
    folder: Folder,
    /// Keeps the lock; `None` if a reader may not open it.
    _lock: Option<File>,
}

impl Place {
    /// Takes a directory for building: a missing or empty one, or one with trees of the same
    /// description.
    ///
    /// # Errors
    /// It holds something else, is in use, or is not accessible.
    pub fn for_build(directory: &Path, forest: &Forest) -> Result<Place, Failure> {
        let shown = directory.display();
        fs::create_dir_all(directory).or_environment(
            format_args!("create the directory {shown}"),
            "choose a directory that you may write to",
        )?;
        if !directory.join(MARKER_NAME).exists() {
            // An interrupted start leaves these two, and nothing else.
            let is_foreign = |name: &std::ffi::OsStr| name != LOCK_NAME && name != NEW_MARKER_NAME;
            let entries = fs::read_dir(directory)
                .and_then(Iterator::collect::<io::Result<Vec<_>>>)
                .or_environment(format_args!("list {shown}"), "choose another directory")?;
            if let Some(entry) = entries.iter().find(|entry| is_foreign(&entry.file_name())) {
                return Err(Failure::usage(
                    format_args!("{shown} is not empty: it contains {:?}", entry.file_name()),
                    "choose an empty or a new directory",
                ));
            }
        }
        let place = Place::lock(directory, true)?;
        match place.read_marker()? {
            Some(marker) if marker.digest != forest.digest() => Err(Failure::usage(
                format_args!(
                    "{shown} holds trees of another description (digest {}, not {})",
                    marker.digest,
                    forest.digest()
                ),
                "choose another directory, or delete those trees with `hakaru files remove`",
            )),
            _ => Ok(place),
        }
    }

    /// Opens a directory of trees. With `exclusive`, no other process may use them meanwhile.
    ///
    /// # Errors
    /// It holds no trees, is in use, or is not accessible.
    pub fn of_trees(directory: &Path, exclusive: bool) -> Result<(Place, Marker), Failure> {
        let place = Place::lock(directory, exclusive)?;
        let marker = place.read_marker()?.ok_or_else(|| {
            Failure::usage(
                format_args!(
                    "{} holds no trees: it has no {MARKER_NAME}",
                    directory.display()
                ),
                "build them first (`hakaru files build`), or correct the path",
            )
        })?;
        Ok((place, marker))
    }

    /// Checks the state of the trees.
    ///
    /// # Errors
    /// It is none of `states`.
    pub fn require(&self, marker: &Marker, states: &[BuildState]) -> Result<(), Failure> {
        if states.contains(&marker.state) {
            return Ok(());
        }
        let (problem, hint) = match marker.state {
            BuildState::Building => ("not complete", "repeat the same `build`, which continues"),
            BuildState::Removing => ("partly deleted", "build them again, or repeat `remove`"),
            BuildState::Complete => ("complete", "nothing is left to do"),
        };
        let shown = self.directory.display();
        Err(Failure::usage(
            format_args!("the trees in {shown} are {problem}"),
            hint,
        ))
    }

    /// Returns the path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the open directory.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns the marker; `None` if there is none.
    ///
    /// # Errors
    /// The file is no marker, or cannot be read.
    pub fn read_marker(&self) -> Result<Option<Marker>, Failure> {
        let path = self.directory.join(MARKER_NAME);
        let mut bytes = Vec::new();
        let read = File::open(&path)
            .and_then(|file| file.take(MARKER_BYTES_MAX + 1).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.or_environment(
                format_args!("read {}", path.display()),
                "make the file readable",
            )?,
        };
        let marker = if bytes.len() as u64 > MARKER_BYTES_MAX {
            Err(format!("more than {MARKER_BYTES_MAX} bytes"))
        } else {
            Marker::parse(&bytes)
        };
        marker.map(Some).map_err(|problem| {
            Failure::usage(
                format_args!("{} is damaged: {problem}", path.display()),
                "the directory cannot be used; choose another one",
            )
        })
    }

    /// Replaces the marker, atomically and durably.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write_marker(&self, state: BuildState, forest: &Forest) -> Result<(), Failure> {
        let marker = Marker::new(state, forest.digest(), forest.config().clone());
        let new = self.directory.join(NEW_MARKER_NAME);
        let written = File::create(&new)
            .and_then(|mut file| {
                file.write_all(marker.emit().as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&new, self.directory.join(MARKER_NAME)))
            .and_then(|()| File::open(&self.directory)?.sync_all());
        written.or_environment(
            format_args!("write {MARKER_NAME} in {}", self.directory.display()),
            "check the space and the rights of the directory",
        )
    }

    /// Deletes the marker and the lock, and the directory if it is empty then.
    ///
    /// # Errors
    /// They cannot be deleted.
    pub fn remove(self) -> Result<(), Failure> {
        for name in [MARKER_NAME, LOCK_NAME] {
            self.folder.delete_file(name).or_environment(
                format_args!("delete {}", self.directory.join(name).display()),
                "check the rights of the directory",
            )?;
        }
        // Files of others may be left in it, and it may be a mount point.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }

    fn lock(directory: &Path, exclusive: bool) -> Result<Place, Failure> {
        let shown = directory.display();
        let folder = Folder::open(directory).or_environment(
            format_args!("open the directory {shown}"),
            "correct the path",
        )?;
        let path = directory.join(LOCK_NAME);
        let opened = if exclusive {
            let mut options = File::options();
            options
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map(Some)
        } else {
            // Trees on a read-only file system can be read without a lock.
            Ok(File::open(&path).ok())
        };
        let lock = opened.or_environment(
            format_args!("create {}", path.display()),
            "choose a directory that you may write to",
        )?;
        if let Some(file) = &lock {
            // Without locks (some network file systems), concurrent use is the user's affair.
            if let Ok(false) = folder::lock(file, exclusive) {
                return Err(Failure::environment(
                    format_args!("the trees in {shown} are in use by another process"),
                    "wait until it has ended",
                ));
            }
        }
        Ok(Place {
            directory: directory.to_owned(),
            folder,
            _lock: lock,
        })
    }
}
