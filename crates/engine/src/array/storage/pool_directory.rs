//! A pool's directory.
//!
//! ```text
//! DIRECTORY/
//!   lock          number of the process that has the pool open
//!   metadata      the store (redb)
//!   NAME.group    data of the group called NAME; may be a link to a file elsewhere
//! ```
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hakaru_contract::{GroupConfig, PoolConfig};
use hakaru_pool::disk::Disk;
use hakaru_pool::metadata::StoreError;
use hakaru_pool::{Checked, GroupId, OpenError};
use hakaru_runtime::disk::{FileDisk, LockError, PoolLock};
use hakaru_runtime::file::FileHandle;
use hakaru_runtime::worker::Worker;
use hakaru_runtime::{Reactor, Token, entropy};

use super::{GroupFile, PoolStore};
use crate::array::storage::files::OpenFile;
use crate::array::storage::slab::Slab;

/// Why a pool was not opened.
#[derive(Debug, thiserror::Error)]
pub enum PoolFailure {
    /// Another process has it open, or it cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// There is none.
    #[error("there is no pool in {0}")]
    Absent(PathBuf),
    /// Data are there, and nothing that says whose: a new pool would overwrite them.
    #[error(
        "the pool in {0} has lost its metadata: there are files of groups, and no file `metadata`"
    )]
    Lost(PathBuf),
    /// Its metadata or headers cannot be, or say no.
    #[error("the pool in {directory} cannot be opened: {error}")]
    Open {
        /// Where.
        directory: PathBuf,
        /// Why.
        error: OpenError,
    },
    /// A file cannot be made, opened, read or written.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl PoolStore {
    /// Opens the pool of a directory, or makes one. Nothing of the configuration's groups is looked at but their
    /// places on the modelled drives; add those that are missing.
    ///
    /// # Errors
    /// See [`PoolFailure`].
    pub fn open(
        config: &PoolConfig,
        number: usize,
        reactor: &Reactor,
        token: Token,
    ) -> Result<PoolStore, PoolFailure> {
        let directory = PathBuf::from(&config.directory);
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| PoolFailure::File { path, error }
        };
        fs::create_dir_all(&directory).map_err(at(&directory))?;
        let lock = PoolLock::acquire(&directory)?;
        let settings = hakaru_pool::PoolConfig {
            soft_threshold_percent: config.soft_threshold_percent,
            hold_when_full: Duration::from_secs(config.hold_when_full_s.into()),
            ..hakaru_pool::PoolConfig::default()
        };
        let refused = |error| PoolFailure::Open {
            directory: directory.clone(),
            error,
        };
        let metadata = directory.join("metadata");
        let mut groups = Vec::new();
        let (core, store) = if metadata.exists() {
            let file = FileDisk::open(&metadata, true).map_err(at(&metadata))?;
            let mut open_group = |_, name: &str| -> io::Result<Arc<dyn Disk>> {
                let path = group_path(&directory, name);
                let file = open_group(&path, config.direct)?;
                groups.push(place(file, config.groups.iter().find(|g| g.name == name)));
                Ok(Arc::new(FileDisk::open(&path, true)?))
            };
            hakaru_pool::open(settings, Arc::new(file), &mut open_group).map_err(refused)?
        } else {
            // The metadata come first when a pool is made, so these are of one that was.
            if has_groups(&directory).map_err(at(&directory))? {
                return Err(PoolFailure::Lost(directory));
            }
            // Made aside: a pool is there as a whole, or not at all.
            let aside = directory.join("metadata.new");
            let _ = fs::remove_file(&aside);
            let file = FileDisk::create(&aside).map_err(at(&aside))?;
            let mut uuid = [0; 16];
            entropy::fill(&mut uuid);
            let made = hakaru_pool::create(settings, uuid, config.page_bytes, Arc::new(file))
                .map_err(refused)?;
            fs::rename(&aside, &metadata)
                .and_then(|()| File::open(&directory)?.sync_all())
                .map_err(at(&metadata))?;
            made
        };
        let name = format!("pool-{number}");
        let store = Worker::new(reactor, token, &name, store).map_err(at(&directory))?;
        Ok(PoolStore {
            number,
            name: config.name.clone(),
            core,
            groups,
            store,
            asked: Slab::default(),
            acting: Slab::default(),
            ordered: Default::default(),
            notices: Default::default(),
            directory,
            direct: config.direct,
            prepared_file: None,
            _lock: lock,
        })
    }

    /// Makes the file of a new group. Ask the core to add it next. A file that was made here is removed
    /// if it cannot be a group's, or the group is not added ([`PoolStore::forget_prepared_group`]).
    ///
    /// # Errors
    /// See [`PoolFailure`].
    pub fn prepare_group(&mut self, config: &GroupConfig) -> Result<(), PoolFailure> {
        let path = group_path(&self.directory, &config.name);
        let at = |error| PoolFailure::File {
            path: path.clone(),
            error,
        };
        let page_bytes = u64::from(self.core.page_bytes());
        let size_bytes = config.size_bytes / page_bytes * page_bytes;
        let is_new = !path.exists();
        let prepared = FileDisk::create(&path)
            .and_then(|made| self.core.prepare_group(&made, size_bytes))
            .and_then(|()| open_group(&path, self.direct));
        let made = is_new.then(|| path.clone());
        match prepared {
            Ok(file) => {
                self.groups.push(place(file, Some(config)));
                self.prepared_file = made;
                Ok(())
            }
            Err(error) => {
                remove(made);
                Err(at(error))
            }
        }
    }

    /// The group that was prepared last is not added after all.
    pub fn forget_prepared_group(&mut self) {
        let added = self.core.groups().count();
        if self.groups.len() > added {
            self.groups.truncate(added);
            remove(self.prepared_file.take());
        }
    }
}

/// Checks the pool of a directory, of which not a byte is changed.
///
/// # Errors
/// There is none, it is in use, or there is nothing to walk.
pub fn check(directory: &Path) -> Result<Checked, PoolFailure> {
    let metadata = directory.join("metadata");
    if !metadata.exists() {
        return Err(PoolFailure::Absent(directory.to_owned()));
    }
    let _lock = PoolLock::acquire(directory)?;
    let refused = |error: StoreError| PoolFailure::Open {
        directory: directory.to_owned(),
        error: error.into(),
    };
    let file = FileDisk::open(&metadata, false).map_err(|error| PoolFailure::File {
        path: metadata.clone(),
        error,
    })?;
    let mut open_group = |_: GroupId, name: &str| -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(FileDisk::open(
            &group_path(directory, name),
            false,
        )?))
    };
    hakaru_pool::check(Arc::new(file), &mut open_group).map_err(refused)
}

fn remove(made: Option<PathBuf>) {
    if let Some(path) = made {
        let _ = fs::remove_file(path);
    }
}

fn has_groups(directory: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        if entry?
            .path()
            .extension()
            .is_some_and(|kind| kind == "group")
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn group_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.group"))
}

/// The file as data go through it.
fn open_group(path: &Path, direct: bool) -> io::Result<OpenFile> {
    let handle = FileHandle::open(path, true, direct)?;
    Ok(OpenFile { handle, direct })
}

fn place(file: OpenFile, config: Option<&GroupConfig>) -> GroupFile {
    let place = config.and_then(|config| config.placement);
    GroupFile {
        file,
        model_group: place.map_or(0, |place| place.group),
        model_offset_bytes: place.map_or(0, |place| place.offset_bytes),
    }
}
