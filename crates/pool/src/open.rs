//! Creates and opens pools. Opening reads and checks all metadata, and refuses a damaged pool.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::alloc::group::Group;
use crate::commit::header::{GroupHeader, HEADERS_BYTES};
use crate::commit::metadata::{GroupRecord, Loaded, Store, StoreError, Superblock, VolumeRecord};
use crate::config::{PAGE_BYTES_MAX, PAGE_BYTES_MIN, PoolConfig, page_bytes_are_valid};
use crate::disk::Disk;
use crate::finding::{Fault, Finding, Object};
use crate::map::LEAF_ENTRIES;
use crate::owners::Owners;
use crate::place::GroupId;
use crate::pool::Pool;
use crate::volume::{Volume, VolumeId};

/// Opens the file of the group with this number and name.
pub type OpenGroup<'a> = &'a mut dyn FnMut(GroupId, &str) -> io::Result<Arc<dyn Disk>>;

/// Error of creating or opening a pool.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The page size is not a power of two within the bounds.
    #[error("a page of {0} bytes is not a power of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}")]
    PageSize(u32),
    /// The store could not be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file of a group could not be opened, read or written.
    #[error("the file of group {0} cannot be opened, read or written: {1}", group.0, error)]
    GroupFile {
        /// The group.
        group: GroupId,
        /// The error.
        error: io::Error,
    },
    /// The pool is damaged. It is unchanged; nothing was repaired.
    #[error("the pool is damaged: {first}{more}", first = .0[0], more = count_more(.0))]
    Damaged(Vec<Finding>),
}

/// Describes the number of findings after the first.
fn count_more(findings: &[Finding]) -> String {
    match findings.len() {
        1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    }
}

/// Creates a pool without groups on an empty disk. `uuid` must differ from that of every other
/// pool.
///
/// # Errors
/// [`OpenError::PageSize`], [`OpenError::Store`] (also if the disk is not empty).
pub fn create(
    config: PoolConfig,
    uuid: [u8; 16],
    page_bytes: u32,
    metadata: Arc<dyn Disk>,
) -> Result<(Pool, Store), OpenError> {
    if !page_bytes_are_valid(page_bytes) {
        return Err(OpenError::PageSize(page_bytes));
    }
    let superblock = Superblock {
        uuid,
        page_bytes,
        generation: 0,
        volume_next: 0,
        groups: 0,
        volumes: 0,
    };
    let store = Store::create(metadata, &superblock)?;
    Ok((Pool::empty(config, uuid, page_bytes), store))
}

/// Opens a pool; `group` opens the file of a group by number and name. Every record is read and
/// checked, and a damaged pool is refused. The pool's first actions discard all unreferenced space.
///
/// # Errors
/// [`OpenError`].
pub fn open(
    config: PoolConfig,
    metadata: Arc<dyn Disk>,
    group: OpenGroup<'_>,
) -> Result<(Pool, Store), OpenError> {
    let store = Store::open(metadata)?;
    let mut loaded = store.load()?;
    let mut findings = core::mem::take(&mut loaded.findings);
    let files = check_group_files(&loaded, group, &mut findings);
    let mut pool = Pool::from_loaded(config, loaded, &mut findings);
    if !findings.is_empty() {
        return Err(OpenError::Damaged(findings));
    }
    for (index, disk) in files.into_iter().enumerate() {
        let id = GroupId(index as u16);
        let renewed = pool.header(id).renew(disk.as_ref());
        renewed.map_err(|error| OpenError::GroupFile { group: id, error })?;
    }
    pool.settle();
    Ok((pool, store))
}

/// Opens the files of all groups and checks that each belongs to its group. Returns the opened
/// files.
pub(crate) fn check_group_files(
    loaded: &Loaded,
    open: OpenGroup<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<Arc<dyn Disk>> {
    let mut files = Vec::with_capacity(loaded.groups.len());
    for (index, group) in loaded.groups.iter().enumerate() {
        let id = GroupId(index as u16);
        let needed_bytes = u64::from(group.pages) * u64::from(loaded.superblock.page_bytes);
        let checked = open(id, &group.name).and_then(|disk| {
            let fault = check_group_file(&loaded.superblock, id, needed_bytes, disk.as_ref())?;
            Ok((disk, fault))
        });
        let fault = match checked {
            Ok((disk, fault)) => {
                files.push(disk);
                fault
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Fault::Missing),
            Err(error) => Some(Fault::Unreadable(error.kind())),
        };
        findings.extend(fault.map(|fault| Finding::new(Object::GroupFile(id), fault)));
    }
    files
}

fn check_group_file(
    superblock: &Superblock,
    group: GroupId,
    needed_bytes: u64,
    disk: &dyn Disk,
) -> io::Result<Option<Fault>> {
    let length_bytes = disk.len()?;
    if length_bytes < needed_bytes {
        return Ok(Some(Fault::Short {
            length_bytes,
            needed_bytes,
        }));
    }
    Ok(match GroupHeader::read(disk)? {
        Err(error) => Some(Fault::Record(error)),
        Ok(header)
            if (header.uuid, header.group, header.page_bytes)
                != (superblock.uuid, group, superblock.page_bytes) =>
        {
            Some(Fault::Foreign)
        }
        Ok(header) if header.generation > superblock.generation => Some(Fault::Older {
            generation: superblock.generation,
            header: header.generation,
        }),
        Ok(_) => None,
    })
}

impl Pool {
    /// Creates the file of the next group: sets its length and writes its header, on stable
    /// storage. The caller then requests [`crate::Request::AddGroup`]. The file must be empty, or
    /// prepared earlier and never added.
    ///
    /// # Errors
    /// `AlreadyExists` if the file contains anything else, and errors of the disk.
    pub fn prepare_group(&self, disk: &dyn Disk, size_bytes: u64) -> io::Result<()> {
        if let Some(owner) = self.owner_of(disk)? {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, owner));
        }
        disk.set_len(0)?;
        disk.set_len(size_bytes)?;
        self.header(self.group_following()).write_new(disk)
    }

    /// Describes the contents of a file that cannot become the file of the next group. Returns
    /// `None` if it can.
    fn owner_of(&self, disk: &dyn Disk) -> io::Result<Option<String>> {
        let length_bytes = disk.len()?;
        if length_bytes >= HEADERS_BYTES
            && let Ok(header) = GroupHeader::read(disk)?
        {
            let index = header.group.0;
            return Ok(
                match (
                    header.uuid == self.uuid,
                    header.group < self.group_following(),
                ) {
                    (false, _) => Some(format!("it is the file of group {index} of another pool")),
                    (true, true) => Some(format!("it is the file of group {index} of this pool")),
                    (true, false) => None,
                },
            );
        }
        // A crash between the creation of the file and its header leaves zeros.
        let mut head = vec![0; length_bytes.min(HEADERS_BYTES) as usize];
        disk.read_at(0, &mut head)?;
        let is_blank = head.iter().all(|byte| *byte == 0);
        Ok((!is_blank).then(|| "it is neither empty nor the file of a group".to_owned()))
    }

    /// Returns the number of the next group.
    #[must_use]
    pub fn group_following(&self) -> GroupId {
        GroupId(self.alloc.groups.len() as u16)
    }

    fn header(&self, group: GroupId) -> GroupHeader {
        GroupHeader {
            uuid: self.uuid,
            group,
            page_bytes: self.page_bytes,
            generation: self.generation,
        }
    }

    /// Builds a pool from its metadata. Damage is appended to `findings`; the pool is then
    /// unusable.
    pub(crate) fn from_loaded(
        config: PoolConfig,
        loaded: Loaded,
        findings: &mut Vec<Finding>,
    ) -> Pool {
        let superblock = loaded.superblock;
        let mut pool = Pool::empty(config, superblock.uuid, superblock.page_bytes);
        pool.generation = superblock.generation;
        pool.volume_next = superblock.volume_next;
        let mut report = |object, fault| findings.push(Finding::new(object, fault));
        for fault in [
            Fault::of_count(
                "groups",
                superblock.groups.into(),
                loaded.groups.len() as u64,
            ),
            Fault::of_count(
                "volumes",
                superblock.volumes.into(),
                loaded.volumes.len() as u64,
            ),
        ]
        .into_iter()
        .flatten()
        {
            report(Object::Superblock, fault);
        }
        pool.load_groups(loaded.groups, &mut report);
        let mapped = pool.load_volumes(loaded.volumes, &mut report);
        pool.load_leaves(loaded.leaves, &mut report);
        for (id, volume) in &pool.volumes {
            if let Some(fault) = Fault::of_count("pages", mapped[id], volume.map.mapped()) {
                report(Object::Volume(*id), fault);
            }
        }
        for (index, group) in pool.alloc.groups.iter().enumerate() {
            pool.alloc
                .recycler
                .add_ready(group.unreferenced(GroupId(index as u16)));
        }
        pool
    }

    fn load_groups(&mut self, records: Vec<GroupRecord>, report: &mut dyn FnMut(Object, Fault)) {
        for (index, record) in records.into_iter().enumerate() {
            let groups = &mut self.alloc.groups;
            if groups.iter().any(|other| other.name == record.name) {
                report(Object::Group(GroupId(index as u16)), Fault::NameTaken);
            }
            // The process before may have written data that is not on stable storage yet. It can be
            // read, so the next flush must sync it.
            let mut group = Group::new(record.name, record.pages, self.page_bytes);
            group.dirty = true;
            groups.push(group);
        }
    }

    /// Adds the volumes with empty maps. Returns the number of mapped pages in each record.
    fn load_volumes(
        &mut self,
        records: BTreeMap<VolumeId, VolumeRecord>,
        report: &mut dyn FnMut(Object, Fault),
    ) -> BTreeMap<VolumeId, u64> {
        let mut mapped = BTreeMap::new();
        for (id, record) in records {
            if id.0 >= self.volume_next {
                report(Object::Volume(id), Fault::OutOfRange);
            }
            if self.volume_named(&record.name).is_some() {
                report(Object::Volume(id), Fault::NameTaken);
            }
            mapped.insert(id, record.mapped);
            let volume = Volume {
                read_only: record.read_only,
                origin: record.origin,
                family: record.family,
                ..Volume::new(id, record.name, record.size_bytes, record.quota_bytes)
            };
            self.volumes.insert(id, volume);
        }
        mapped
    }

    fn load_leaves(
        &mut self,
        leaves: Vec<(VolumeId, u32, Arc<crate::Leaf>)>,
        report: &mut dyn FnMut(Object, Fault),
    ) {
        let mut owners = Owners::new(self.alloc.groups.iter().map(|group| group.pages()));
        let page_bytes = u64::from(self.page_bytes);
        for (id, index, leaf) in leaves {
            let object = Object::Leaf {
                volume: id,
                leaf: index,
            };
            let Some(volume) = self.volumes.get_mut(&id) else {
                report(object, Fault::OutOfRange);
                continue;
            };
            let pages = volume.size_bytes.div_ceil(page_bytes);
            let first = u64::from(index) * LEAF_ENTRIES as u64;
            if first >= pages {
                report(object, Fault::OutOfRange);
                continue;
            }
            for (slot, at) in leaf.iter() {
                let page = first + slot as u64;
                let fault = match self.alloc.groups.get_mut(at.group.index()) {
                    Some(group) if at.page < group.pages() && page < pages => {
                        group.add_reference(at.page);
                        owners.claim(at, id, volume.family, page)
                    }
                    _ => Some(Fault::OutOfRange),
                };
                if let Some(fault) = fault {
                    report(Object::Entry { volume: id, page }, fault);
                }
            }
            volume.map.put_leaf(index, leaf);
        }
    }
}
