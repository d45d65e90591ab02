//! The metadata store: opened, read completely, then only written.

use std::collections::BTreeMap;
use std::sync::Arc;

use redb::{
    Builder, Database, Key, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
    TableError, Value,
};

use super::Batch;
use super::backend::{Backend, Reserved};
use super::frame::RecordError;
use super::record::{self, GroupRecord, Superblock, VolumeRecord};
use crate::disk::Disk;
use crate::finding::{Fault, Finding, Object};
use crate::map::Leaf;
use crate::place::GroupId;
use crate::volume::VolumeId;

const SUPERBLOCK: TableDefinition<u8, &[u8]> = TableDefinition::new("superblock");
const GROUPS: TableDefinition<u16, &[u8]> = TableDefinition::new("groups");
const VOLUMES: TableDefinition<u32, &[u8]> = TableDefinition::new("volumes");
const LEAVES: TableDefinition<u64, &[u8]> = TableDefinition::new("leaves");

/// Memory for redb's cache. Commits write each leaf once and read little.
const CACHE_BYTES: usize = 16 << 20;

/// Error of opening, reading or writing the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is empty, or is not a redb file.
    #[error("the file is not the metadata file of a pool")]
    NotAPool,
    /// redb reports that its own structure is damaged.
    #[error("the metadata is damaged: {0}")]
    Damaged(String),
    /// A record is damaged or has a newer format.
    #[error("{0}")]
    Record(Finding),
    /// Reading or writing failed.
    #[error("the metadata file cannot be read or written: {0}")]
    Io(#[from] std::io::Error),
    /// Any other error of redb.
    #[error("the metadata store failed: {0}")]
    Store(#[source] Box<redb::Error>),
}

impl StoreError {
    fn of(error: impl Into<redb::Error>) -> StoreError {
        match error.into() {
            redb::Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                StoreError::NotAPool
            }
            redb::Error::Io(error) => StoreError::Io(error),
            redb::Error::Corrupted(reason) => StoreError::Damaged(reason),
            error => StoreError::Store(Box::new(error)),
        }
    }
}

/// Contents of a store.
#[derive(Debug)]
pub struct Loaded {
    /// The record of the pool.
    pub superblock: Superblock,
    /// Records of the groups, in order.
    pub groups: Vec<GroupRecord>,
    pub(crate) volumes: BTreeMap<VolumeId, VolumeRecord>,
    pub(crate) leaves: Vec<(VolumeId, u32, Arc<Leaf>)>,
    /// Damaged records, and gaps in the numbering.
    pub(crate) findings: Vec<Finding>,
}

/// The metadata of one pool. Calls block while the disk works, so they belong on a dedicated
/// thread.
#[derive(Debug)]
pub struct Store {
    database: Database,
    reserved: Arc<Reserved>,
}

impl Store {
    /// Creates a durable store with only `superblock` on an empty disk.
    ///
    /// # Errors
    /// [`StoreError::NotAPool`] if the disk is not empty, and errors of the disk.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        superblock: &Superblock,
    ) -> Result<Store, StoreError> {
        if !disk.is_empty()? {
            return Err(StoreError::NotAPool);
        }
        let reserved = Reserved::new(disk);
        let database = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(Backend(reserved.clone()))
            .map_err(StoreError::of)?;
        let mut store = Store { database, reserved };
        store.commit(&Batch {
            superblock: superblock.clone(),
            groups: Vec::new(),
            volumes: Vec::new(),
            leaves: Vec::new(),
            deleted: Vec::new(),
        })?;
        Ok(store)
    }

    /// Opens a store. An interrupted commit is rolled back on disk, and all of redb's own checksums
    /// are verified.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(disk: Arc<dyn Disk>) -> Result<Store, StoreError> {
        if disk.is_empty()? {
            return Err(StoreError::NotAPool);
        }
        let length_bytes = disk.len()?;
        let reserved = Reserved::new(disk);
        match reserved.refill(length_bytes) {
            // `space_is_low` reports this.
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {}
            other => other?,
        }
        let database = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .set_check_integrity_on_open(true)
            .create_with_backend(Backend(reserved.clone()))
            .map_err(StoreError::of)?;
        Ok(Store { database, reserved })
    }

    /// Reads all records. Damaged records are omitted and reported as findings; only a missing
    /// superblock is an error.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn load(&self) -> Result<Loaded, StoreError> {
        let read = self.database.begin_read().map_err(StoreError::of)?;
        let mut loaded = Loaded {
            superblock: load_superblock(&read)?,
            groups: Vec::new(),
            volumes: BTreeMap::new(),
            leaves: Vec::new(),
            findings: Vec::new(),
        };
        for_each(&read, GROUPS, |id, record| {
            loaded.take_group(GroupId(id), record);
        })?;
        for_each(&read, VOLUMES, |id, record| {
            loaded.take_volume(VolumeId(id), record);
        })?;
        for_each(&read, LEAVES, |key, record| {
            let (volume, leaf) = (VolumeId((key >> 32) as u32), key as u32);
            loaded.take_leaf(volume, leaf, record);
        })?;
        Ok(loaded)
    }

    /// Writes a batch. `Ok` means that the batch is on stable storage.
    ///
    /// # Errors
    /// [`StoreError`]. It is then unknown whether the batch survives a crash, and the store accepts
    /// no further batch.
    pub fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.reserved.refill_if_low();
        let mut write = self.database.begin_write().map_err(StoreError::of)?;
        // Otherwise redb would silently use the previous root if the newest root is damaged.
        write.set_two_phase_commit(true);
        {
            let mut superblock = write.open_table(SUPERBLOCK).map_err(StoreError::of)?;
            let record = batch.superblock.emit();
            superblock
                .insert(0, record.as_slice())
                .map_err(StoreError::of)?;
            let mut groups = write.open_table(GROUPS).map_err(StoreError::of)?;
            for (id, group) in &batch.groups {
                groups
                    .insert(id.0, group.emit(*id).as_slice())
                    .map_err(StoreError::of)?;
            }
            let mut volumes = write.open_table(VOLUMES).map_err(StoreError::of)?;
            let mut leaves = write.open_table(LEAVES).map_err(StoreError::of)?;
            for id in &batch.deleted {
                volumes.remove(id.0).map_err(StoreError::of)?;
                leaves
                    .retain_in(leaf_key(*id, 0)..=leaf_key(*id, u32::MAX), |_, _| false)
                    .map_err(StoreError::of)?;
            }
            for (id, volume) in &batch.volumes {
                volumes
                    .insert(id.0, volume.emit(*id).as_slice())
                    .map_err(StoreError::of)?;
            }
            for (volume, index, leaf) in &batch.leaves {
                let key = leaf_key(*volume, *index);
                match leaf {
                    Some(leaf) => {
                        let record = record::emit_leaf(leaf, *volume, *index);
                        leaves
                            .insert(key, record.as_slice())
                            .map_err(StoreError::of)?;
                    }
                    None => {
                        leaves.remove(key).map_err(StoreError::of)?;
                    }
                }
            }
        }
        write.commit().map_err(StoreError::of)
    }

    /// Returns whether the file system below lacks space for the store to grow. Pass the result to
    /// the pool after each commit: [`crate::Pool::set_metadata_is_low`].
    #[must_use]
    pub fn space_is_low(&self) -> bool {
        self.reserved.is_low()
    }

    /// Closes the store. This is optional: commits are durable without it, but it makes the next
    /// opening faster.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn close(self) -> Result<(), StoreError> {
        self.database.close().map_err(StoreError::of)
    }
}

impl Loaded {
    /// Adds the record of a group. Groups are numbered from 0 without gaps.
    fn take_group(&mut self, id: GroupId, record: &[u8]) {
        match GroupRecord::parse(record, id) {
            Ok(group) if id.index() == self.groups.len() => self.groups.push(group),
            Ok(_) => self.report(
                Object::Group(GroupId(self.groups.len() as u16)),
                Fault::Missing,
            ),
            Err(error) => self.report(Object::Group(id), error.into()),
        }
    }

    fn take_volume(&mut self, id: VolumeId, record: &[u8]) {
        match VolumeRecord::parse(record, id) {
            Ok(record) => {
                self.volumes.insert(id, record);
            }
            Err(error) => self.report(Object::Volume(id), error.into()),
        }
    }

    fn take_leaf(&mut self, volume: VolumeId, leaf: u32, record: &[u8]) {
        match record::parse_leaf(record, volume, leaf) {
            Ok(entries) => self.leaves.push((volume, leaf, Arc::new(entries))),
            Err(error) => self.report(Object::Leaf { volume, leaf }, error.into()),
        }
    }

    fn report(&mut self, object: Object, fault: Fault) {
        self.findings.push(Finding::new(object, fault));
    }
}

fn load_superblock(read: &ReadTransaction) -> Result<Superblock, StoreError> {
    let table = read.open_table(SUPERBLOCK).map_err(table_error)?;
    match table.get(0).map_err(StoreError::of)? {
        Some(record) => Superblock::parse(record.value())
            .map_err(|error| record_error(Object::Superblock, error)),
        None => Err(StoreError::Record(Finding::new(
            Object::Superblock,
            Fault::Missing,
        ))),
    }
}

/// Calls `visit` with the key and record of every entry of `table`, in order of the keys.
fn for_each<K>(
    read: &ReadTransaction,
    table: TableDefinition<K, &[u8]>,
    mut visit: impl FnMut(K, &[u8]),
) -> Result<(), StoreError>
where
    K: Key + for<'a> Value<SelfType<'a> = K> + 'static,
{
    let table = read.open_table(table).map_err(table_error)?;
    for entry in table.iter().map_err(StoreError::of)? {
        let (key, record) = entry.map_err(StoreError::of)?;
        visit(key.value(), record.value());
    }
    Ok(())
}

fn leaf_key(volume: VolumeId, leaf: u32) -> u64 {
    u64::from(volume.0) << 32 | u64::from(leaf)
}

fn record_error(object: Object, error: RecordError) -> StoreError {
    StoreError::Record(Finding::new(object, error.into()))
}

fn table_error(error: TableError) -> StoreError {
    match error {
        TableError::TableDoesNotExist(_) => StoreError::NotAPool,
        error => StoreError::of(error),
    }
}
