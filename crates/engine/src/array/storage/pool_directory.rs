//! The directory of a pool.
//!
//! ```text
//! DIRECTORY/
//!   lock          PID of the process that has the pool open
//!   metadata      the store (redb)
//!   NAME.group    data of the group NAME; may be a link to a file elsewhere
//! ```
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hakaru_contract::{GroupConfig, PoolConfig};
use hakaru_pool::disk::Disk;
use hakaru_pool::metadata::{Store, StoreError};
use hakaru_pool::{Checked, GroupId, OpenError, OpenGroup, Pool};
use hakaru_runtime::file::FileHandle;
use hakaru_runtime::file::disk::{FileDisk, LockError, PoolLock};
use hakaru_runtime::process::entropy;
use hakaru_runtime::process::worker::Worker;
use hakaru_runtime::{Reactor, Token};
use hakaru_store::{CommitRequest, Committed, FileId, GroupFile, Place, PoolStore};

use super::files::{Files, OpenFile};

/// Reason why a pool cannot be opened, extended or checked.
#[derive(Debug, thiserror::Error)]
pub enum PoolFailure {
    /// Another process has the pool open, or the pool cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The directory contains no pool.
    #[error("there is no pool in {0}")]
    Absent(PathBuf),
    /// The directory contains files of groups but no metadata. A new pool would overwrite their
    /// data.
    #[error("the pool in {0} has lost its metadata: group files exist, but no file `metadata`")]
    Lost(PathBuf),
    /// The metadata or the headers of the pool cannot be read, or are damaged.
    #[error("the pool in {directory} cannot be opened: {error}")]
    Open {
        /// The directory of the pool.
        directory: PathBuf,
        /// The cause.
        error: OpenError,
    },
    /// A file cannot be created, opened, read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// The directory of an open pool, and the thread that commits its metadata.
pub struct PoolDirectory {
    path: PathBuf,
    direct: bool,
    commits: Worker<Store, Committed>,
    /// The group that was prepared last.
    prepared: Option<PreparedGroup>,
    _lock: PoolLock,
}

struct PreparedGroup {
    file: FileId,
    /// Path of the file if it was created for the group; `None` if it existed before.
    created: Option<PathBuf>,
}

impl PoolDirectory {
    /// Opens the pool in a directory, or creates one.
    ///
    /// # Errors
    /// See [`PoolFailure`].
    pub fn open(
        config: &PoolConfig,
        number: usize,
        reactor: &Reactor,
        token: Token,
        files: &mut Files,
    ) -> Result<(PoolStore, PoolDirectory), PoolFailure> {
        let path = PathBuf::from(&config.directory);
        fs::create_dir_all(&path).map_err(file_error(&path))?;
        let lock = PoolLock::acquire(&path)?;
        let mut groups = Vec::new();
        let (core, store) = if path.join("metadata").exists() {
            open_metadata(config, &path, &mut |_, name| {
                let group = group_path(&path, name);
                let file = files.add(open_group(&group, config.direct)?);
                let config = config.groups.iter().find(|group| group.name == name);
                groups.push(group_file(file, config));
                Ok(Arc::new(FileDisk::open(&group, true)?))
            })?
        } else {
            create_metadata(config, &path)?
        };
        let name = format!("pool-{number}");
        let commits = Worker::new(reactor, token, &name, store).map_err(file_error(&path))?;
        let directory = PoolDirectory {
            path,
            direct: config.direct,
            commits,
            prepared: None,
            _lock: lock,
        };
        Ok((PoolStore::new(config.name.clone(), core, groups), directory))
    }

    /// Creates the file of a new group. A file that was created here is removed again if it cannot
    /// be used, or if the group is not added ([`PoolDirectory::forget_prepared_group`]).
    ///
    /// # Errors
    /// See [`PoolFailure`].
    pub fn prepare_group(
        &mut self,
        core: &Pool,
        config: &GroupConfig,
        files: &mut Files,
    ) -> Result<GroupFile, PoolFailure> {
        let path = group_path(&self.path, &config.name);
        let page_bytes = u64::from(core.page_bytes());
        let size_bytes = config.size_bytes / page_bytes * page_bytes;
        let created = (!path.exists()).then(|| path.clone());
        let prepared = FileDisk::create(&path)
            .and_then(|disk| core.prepare_group(&disk, size_bytes))
            .and_then(|()| open_group(&path, self.direct));
        match prepared {
            Ok(file) => {
                let file = files.add(file);
                self.prepared = Some(PreparedGroup { file, created });
                Ok(group_file(file, Some(config)))
            }
            Err(error) => {
                remove(created);
                Err(PoolFailure::File { path, error })
            }
        }
    }

    /// Closes the file of the last prepared group, which is not added. Removes the file if it was
    /// created for the group.
    pub fn forget_prepared_group(&mut self, files: &mut Files) {
        if let Some(prepared) = self.prepared.take() {
            files.close(prepared.file);
            remove(prepared.created);
        }
    }

    /// Begins a commit.
    pub fn commit(&mut self, request: CommitRequest) {
        let CommitRequest {
            pool,
            action,
            batch,
        } = request;
        self.commits.submit(move |store| Committed {
            pool,
            action,
            result: store.commit(&batch).map_err(|error| error.to_string()),
            metadata_is_low: store.space_is_low(),
        });
    }

    /// Handles an event of the token of the commits.
    pub fn handle_event(&mut self) {
        self.commits.handle_event();
    }

    /// Returns the next completed commit.
    pub fn poll_committed(&mut self) -> Option<Committed> {
        self.commits.poll_done()
    }
}

fn open_metadata(
    config: &PoolConfig,
    directory: &Path,
    open_group: OpenGroup<'_>,
) -> Result<(Pool, Store), PoolFailure> {
    let path = directory.join("metadata");
    let file = FileDisk::open(&path, true).map_err(file_error(&path))?;
    hakaru_pool::open(settings(config), Arc::new(file), open_group)
        .map_err(|error| not_opened(directory, error))
}

/// Creates the metadata of a new pool under a temporary name and renames it, so that a crash leaves
/// either a complete pool or none.
fn create_metadata(config: &PoolConfig, directory: &Path) -> Result<(Pool, Store), PoolFailure> {
    // A pool is created with its metadata first, so group files belong to a pool that had metadata.
    if has_groups(directory).map_err(file_error(directory))? {
        return Err(PoolFailure::Lost(directory.to_owned()));
    }
    let new_path = directory.join("metadata.new");
    let _ = fs::remove_file(&new_path);
    let file = FileDisk::create(&new_path).map_err(file_error(&new_path))?;
    let mut uuid = [0; 16];
    entropy::fill(&mut uuid);
    let created = hakaru_pool::create(settings(config), uuid, config.page_bytes, Arc::new(file))
        .map_err(|error| not_opened(directory, error))?;
    let metadata = directory.join("metadata");
    fs::rename(&new_path, &metadata)
        .and_then(|()| File::open(directory)?.sync_all())
        .map_err(file_error(&metadata))?;
    Ok(created)
}

fn settings(config: &PoolConfig) -> hakaru_pool::PoolConfig {
    hakaru_pool::PoolConfig {
        soft_threshold_percent: config.soft_threshold_percent,
        hold_when_full: Duration::from_secs(config.hold_when_full_s.into()),
        ..hakaru_pool::PoolConfig::default()
    }
}

fn file_error(path: &Path) -> impl Fn(io::Error) -> PoolFailure {
    let path = path.to_owned();
    move |error| PoolFailure::File {
        path: path.clone(),
        error,
    }
}

fn not_opened(directory: &Path, error: impl Into<OpenError>) -> PoolFailure {
    PoolFailure::Open {
        directory: directory.to_owned(),
        error: error.into(),
    }
}

/// Checks the pool in a directory without changing it.
///
/// # Errors
/// The directory contains no pool, the pool is in use, or its metadata cannot be opened.
pub fn check(directory: &Path) -> Result<Checked, PoolFailure> {
    let metadata = directory.join("metadata");
    if !metadata.exists() {
        return Err(PoolFailure::Absent(directory.to_owned()));
    }
    let _lock = PoolLock::acquire(directory)?;
    let file = FileDisk::open(&metadata, false).map_err(file_error(&metadata))?;
    let mut open_group = |_: GroupId, name: &str| -> io::Result<Arc<dyn Disk>> {
        let path = group_path(directory, name);
        Ok(Arc::new(FileDisk::open(&path, false)?))
    };
    hakaru_pool::check(Arc::new(file), &mut open_group)
        .map_err(|error: StoreError| not_opened(directory, error))
}

fn remove(created: Option<PathBuf>) {
    if let Some(path) = created {
        let _ = fs::remove_file(path);
    }
}

fn has_groups(directory: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        if entry?
            .path()
            .extension()
            .is_some_and(|extension| extension == "group")
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn group_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.group"))
}

/// Opens the file of a group for data transfer.
fn open_group(path: &Path, direct: bool) -> io::Result<OpenFile> {
    let handle = FileHandle::open(path, true, direct)?;
    Ok(OpenFile { handle, direct })
}

fn group_file(file: FileId, config: Option<&GroupConfig>) -> GroupFile {
    let place = config.and_then(|config| config.placement);
    let place = place.map_or_else(Place::default, |place| Place {
        group: place.group,
        offset_bytes: place.offset_bytes,
    });
    GroupFile { file, place }
}
