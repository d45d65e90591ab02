//! The directory of trees: its lock, and the marker that names their description.
//!
//! Nothing is ever written to a directory that holds anything else.
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use hakaru_files::{BuildState, Forest, MARKER_BYTES_MAX, MARKER_NAME, Marker};
use hakaru_runtime::file::folder::{self, EntryKind, Folder};

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
        let folder = open_folder(directory)?;
        if read_marker(&folder, directory)?.is_none() {
            let mut foreign = None;
            let listed = folder.list(&mut |entry| {
                // An interrupted start leaves these two, and nothing else.
                let is_own = entry.kind == EntryKind::File
                    && (entry.name == LOCK_NAME || entry.name == NEW_MARKER_NAME);
                if !is_own {
                    foreign.get_or_insert(entry.name);
                }
            });
            listed.or_environment(format_args!("list {shown}"), "choose another directory")?;
            if let Some(name) = foreign {
                return Err(Failure::usage(
                    format_args!("{shown} is not empty: it contains {name:?}"),
                    "choose an empty or a new directory",
                ));
            }
        }
        let place = Place::lock(directory, folder, true)?;
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
        let folder = open_folder(directory)?;
        let without_trees = || {
            Failure::usage(
                format_args!(
                    "{} holds no trees: it has no {MARKER_NAME}",
                    directory.display()
                ),
                "build them first (`hakaru files build`), or correct the path",
            )
        };
        // Also before the lock, which is not created in a directory of others.
        read_marker(&folder, directory)?.ok_or_else(without_trees)?;
        let place = Place::lock(directory, folder, exclusive)?;
        let marker = place.read_marker()?.ok_or_else(without_trees)?;
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
        read_marker(&self.folder, &self.directory)
    }

    /// Replaces the marker, atomically and durably.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write_marker(&self, state: BuildState, forest: &Forest) -> Result<(), Failure> {
        let marker = Marker::new(state, forest.digest(), forest.config().clone());
        // A file of this name is never written to: it may belong to somebody else.
        let written = self
            .folder
            .delete_file(NEW_MARKER_NAME)
            .and_then(|_| self.folder.create_file(NEW_MARKER_NAME))
            .and_then(|mut file| {
                file.write_all(marker.emit().as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| self.folder.rename_file(NEW_MARKER_NAME, MARKER_NAME))
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

    fn lock(directory: &Path, folder: Folder, exclusive: bool) -> Result<Place, Failure> {
        let shown = directory.display();
        let lock = if exclusive {
            folder
                .open_or_create(LOCK_NAME)
                .and_then(only_file)
                .map(Some)
        } else {
            // Trees on a read-only file system can be read without a lock.
            Ok(folder.open_file(LOCK_NAME).and_then(only_file).ok())
        };
        let lock = lock.or_environment(
            format_args!("create {}", directory.join(LOCK_NAME).display()),
            "choose a directory that you may write to and that has nothing of this name",
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

fn open_folder(directory: &Path) -> Result<Folder, Failure> {
    Folder::open(directory).or_environment(
        format_args!("open the directory {}", directory.display()),
        "correct the path",
    )
}

fn read_marker(folder: &Folder, directory: &Path) -> Result<Option<Marker>, Failure> {
    let path = directory.join(MARKER_NAME);
    let mut bytes = Vec::new();
    let read = folder
        .open_file(MARKER_NAME)
        .and_then(only_file)
        .and_then(|file| file.take(MARKER_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.or_environment(
            format_args!("read {}", path.display()),
            "make it a readable file, or choose another directory",
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

fn only_file(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}
