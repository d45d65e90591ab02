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
use hakaru_pool::metadata::{Store, StoreError};
use hakaru_pool::{Checked, GroupId, OpenError, OpenGroup, Pool};
use hakaru_runtime::file::FileHandle;
use hakaru_runtime::file::disk::{FileDisk, LockError, PoolLock};
use hakaru_runtime::process::entropy;
use hakaru_runtime::process::worker::Worker;
use hakaru_runtime::{Reactor, Token};
use hakaru_store::{CommitRequest, Committed, FileId, GroupFile, Place, PoolStore};

use super::files::{Files, OpenFile};

/// Why a pool was not opened.
#[derive(Debug, thiserror::Error)]
pub enum PoolFailure {
    /// Another process has it open, or it cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// There is none.
    #[error("there is no pool in {0}")]
    Absent(PathBuf),
    /// The file holds data of an unknown owner, which a new pool would overwrite.
    #[error(
        "the pool in {0} has lost its metadata: there are files of groups, and no file `metadata`"
    )]
    Lost(PathBuf),
    /// Its metadata or headers cannot be read, or do not permit it.
    #[error("the pool in {directory} cannot be opened: {error}")]
    Open {
        /// The directory of the pool.
        directory: PathBuf,
        /// The cause.
        error: OpenError,
    },
    /// A file cannot be made, opened, read or written.
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
    /// The file's path if it was made for the group; `None` if it was there before.
    made: Option<PathBuf>,
}

impl PoolDirectory {
    /// Opens the pool of a directory, or makes one.
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

    /// Makes the file of a new group. A file that was made here is removed again if it cannot be a
    /// group's, or the group is not added ([`PoolDirectory::forget_prepared_group`]).
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
        let made = (!path.exists()).then(|| path.clone());
        let prepared = FileDisk::create(&path)
            .and_then(|disk| core.prepare_group(&disk, size_bytes))
            .and_then(|()| open_group(&path, self.direct));
        match prepared {
            Ok(file) => {
                let file = files.add(file);
                self.prepared = Some(PreparedGroup { file, made });
                Ok(group_file(file, Some(config)))
            }
            Err(error) => {
                remove(made);
                Err(PoolFailure::File { path, error })
            }
        }
    }

    /// The group that was prepared last is not added after all.
    pub fn forget_prepared_group(&mut self, files: &mut Files) {
        if let Some(prepared) = self.prepared.take() {
            files.close(prepared.file);
            remove(prepared.made);
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

    /// The reactor reported the token of the commits.
    pub fn handle_event(&mut self) {
        self.commits.handle_event();
    }

    /// The next commit that is over.
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

/// Makes the metadata of a new pool aside: a pool is there as a whole, or not at all.
fn create_metadata(config: &PoolConfig, directory: &Path) -> Result<(Pool, Store), PoolFailure> {
    // The metadata come first when a pool is made, so files of groups are of a pool that had some.
    if has_groups(directory).map_err(file_error(directory))? {
        return Err(PoolFailure::Lost(directory.to_owned()));
    }
    let aside = directory.join("metadata.new");
    let _ = fs::remove_file(&aside);
    let file = FileDisk::create(&aside).map_err(file_error(&aside))?;
    let mut uuid = [0; 16];
    entropy::fill(&mut uuid);
    let created = hakaru_pool::create(settings(config), uuid, config.page_bytes, Arc::new(file))
        .map_err(|error| not_opened(directory, error))?;
    let metadata = directory.join("metadata");
    fs::rename(&aside, &metadata)
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
    let file = FileDisk::open(&metadata, false).map_err(file_error(&metadata))?;
    let mut open_group = |_: GroupId, name: &str| -> io::Result<Arc<dyn Disk>> {
        let path = group_path(directory, name);
        Ok(Arc::new(FileDisk::open(&path, false)?))
    };
    hakaru_pool::check(Arc::new(file), &mut open_group)
        .map_err(|error: StoreError| not_opened(directory, error))
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

fn group_file(file: FileId, config: Option<&GroupConfig>) -> GroupFile {
    let place = config.and_then(|config| config.placement);
    let place = place.map_or_else(Place::default, |place| Place {
        group: place.group,
        offset_bytes: place.offset_bytes,
    });
    GroupFile { file, place }
}
