//! The place of trees: its lock, and the marker that names their description.
//!
//! Nothing is ever written to a place that holds anything else.
use std::sync::Arc;

use hakaru_files::{BuildState, Forest, MARKER_BYTES_MAX, MARKER_NAME, Marker};

use super::root::Root;
use crate::failure::{Failure, OrEnvironment};

/// Name of the file that is locked while a process works on the trees.
const LOCK_NAME: &str = ".hakaru-files.lock";
/// Name of a marker that is being written.
const NEW_MARKER_NAME: &str = ".hakaru-files.new";

/// A locked destination of trees.
pub struct Place {
    root: Arc<dyn Root>,
}

impl Place {
    /// Takes a destination for building: an empty one, or one with trees of the same description.
    ///
    /// # Errors
    /// It holds something else, is in use, or is not accessible.
    pub fn for_build(root: Arc<dyn Root>, forest: &Forest) -> Result<Place, Failure> {
        let place = Place { root };
        let shown = place.shown();
        if place.read_marker()?.is_none() {
            let names = place.root.list();
            let names =
                names.or_environment(format_args!("list {shown}"), "choose another directory")?;
            // An interrupted start leaves these two, and nothing else.
            let is_own = |(name, is_file): &(String, bool)| {
                *is_file && (name == LOCK_NAME || name == NEW_MARKER_NAME)
            };
            if let Some((name, _)) = names.iter().find(|entry| !is_own(entry)) {
                return Err(Failure::usage(
                    format_args!("{shown} is not empty: it contains {name:?}"),
                    "choose an empty or a new directory",
                ));
            }
        }
        place.lock(true)?;
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

    /// Takes a destination of trees. With `exclusive`, no other process may use them meanwhile.
    ///
    /// # Errors
    /// It holds no trees, is in use, or is not accessible.
    pub fn of_trees(root: Arc<dyn Root>, exclusive: bool) -> Result<(Place, Marker), Failure> {
        let place = Place { root };
        let without_trees = || {
            Failure::usage(
                format_args!("{} holds no trees: it has no {MARKER_NAME}", place.shown()),
                "build them first (`hakaru files build`), or correct the path",
            )
        };
        // Also before the lock, which is not created in a directory of others.
        place.read_marker()?.ok_or_else(without_trees)?;
        place.lock(exclusive)?;
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
        Err(Failure::usage(
            format_args!("the trees in {} are {problem}", self.shown()),
            hint,
        ))
    }

    /// Returns the place in messages.
    pub fn shown(&self) -> String {
        self.root.locate("")
    }

    /// Returns the destination.
    pub fn root(&self) -> &Arc<dyn Root> {
        &self.root
    }

    /// Returns whether a visitor or transport still uses the destination.
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.root) > 1
    }

    /// Returns the marker; `None` if there is none.
    ///
    /// # Errors
    /// The file is no marker, or cannot be read.
    pub fn read_marker(&self) -> Result<Option<Marker>, Failure> {
        let path = self.root.locate(MARKER_NAME);
        let read = self.root.read(MARKER_NAME, MARKER_BYTES_MAX + 1);
        let bytes = read.or_environment(
            format_args!("read {path}"),
            "make it a readable file, or choose another directory",
        )?;
        let Some(bytes) = bytes else { return Ok(None) };
        let marker = if bytes.len() as u64 > MARKER_BYTES_MAX {
            Err(format!("more than {MARKER_BYTES_MAX} bytes"))
        } else {
            Marker::parse(&bytes)
        };
        marker.map(Some).map_err(|problem| {
            Failure::usage(
                format_args!("{path} is damaged: {problem}"),
                "the directory cannot be used; choose another one",
            )
        })
    }

    /// Replaces the marker, atomically and durably.
    ///
    /// # Errors
    /// The destination cannot be written.
    pub fn write_marker(&self, state: BuildState, forest: &Forest) -> Result<(), Failure> {
        let marker = Marker::new(state, forest.digest(), forest.config().clone());
        let contents = marker.emit();
        let written = self
            .root
            .replace(MARKER_NAME, NEW_MARKER_NAME, contents.as_bytes());
        written.or_environment(
            format_args!("write {MARKER_NAME} in {}", self.shown()),
            "check the space and the rights of the directory",
        )
    }

    /// Deletes the marker and the lock, and the destination if it is empty then.
    ///
    /// # Errors
    /// They cannot be deleted.
    pub fn remove(self) -> Result<(), Failure> {
        for name in [MARKER_NAME, LOCK_NAME] {
            self.root.delete(name).or_environment(
                format_args!("delete {}", self.root.locate(name)),
                "check the rights of the directory",
            )?;
        }
        self.root.delete_if_empty();
        Ok(())
    }

    fn lock(&self, exclusive: bool) -> Result<(), Failure> {
        let locked = self.root.lock(LOCK_NAME, exclusive);
        let locked = locked.or_environment(
            format_args!("create {}", self.root.locate(LOCK_NAME)),
            "choose a directory that you may write to and that has nothing of this name",
        )?;
        if locked {
            return Ok(());
        }
        Err(Failure::environment(
            format_args!(
                "the trees in {} are in use by another process",
                self.shown()
            ),
            "wait until it has ended",
        ))
    }
}
