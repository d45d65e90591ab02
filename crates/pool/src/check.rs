//! The check: everything is walked, nothing is changed. What is found is data.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::config::PoolConfig;
use crate::disk::{Disk, OverlayDisk};
use crate::group::GroupId;
use crate::map::PageId;
use crate::metadata::{RecordError, Store, StoreError};
use crate::open::{self, OpenGroup};
use crate::pool::{Kind, Pool};
use crate::volume::VolumeId;

/// What something is wrong with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// The superblock.
    Superblock,
    /// The record of a group.
    Group(GroupId),
    /// The data file of a group.
    GroupFile(GroupId),
    /// The record of a volume.
    Volume(VolumeId),
    /// A part of a volume's map.
    Leaf {
        /// Whose.
        volume: VolumeId,
        /// Which: it maps the volume's pages from `512 * leaf` on.
        leaf: u32,
    },
    /// One entry of a volume's map.
    Entry {
        /// Whose.
        volume: VolumeId,
        /// Page of the volume.
        page: u64,
    },
    /// A page of a group.
    Page(PageId),
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The record, or header, is not whole or not what belongs there.
    Record(RecordError),
    /// It should be there.
    Missing,
    /// It names something that is not there, or lies beyond the end.
    OutOfRange,
    /// It names a page that another entry names as well, which is not a copy of it.
    UsedTwice {
        /// The page.
        page: PageId,
        /// The other entry: volume, and page of it.
        other: (VolumeId, u64),
    },
    /// A count differs from what was counted.
    Count {
        /// Of what.
        what: &'static str,
        /// As kept.
        kept: u64,
        /// As counted.
        counted: u64,
    },
    /// Two volumes have one name, or two groups.
    NameTaken,
    /// The file belongs to another pool, or is another group's.
    Foreign,
    /// The file is shorter than the group.
    Short {
        /// Bytes it has.
        length_bytes: u64,
        /// Bytes it should have.
        needed_bytes: u64,
    },
    /// The metadata are older than they were when the pool was opened before: commits were lost that were on stable storage once.
    Older {
        /// Generation of the metadata.
        generation: u64,
        /// Generation in the header.
        header: u64,
    },
    /// The file cannot be read.
    Unreadable(io::ErrorKind),
}

impl From<RecordError> for Fault {
    fn from(error: RecordError) -> Self {
        Fault::Record(error)
    }
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// With what.
    pub object: Object,
    /// What.
    pub fault: Fault,
}

impl Finding {
    pub(crate) fn new(object: Object, fault: Fault) -> Finding {
        Finding { object, fault }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Superblock => write!(f, "superblock"),
            Object::Group(group) => write!(f, "record of group {}", group.0),
            Object::GroupFile(group) => write!(f, "file of group {}", group.0),
            Object::Volume(volume) => write!(f, "record of volume {}", volume.0),
            Object::Leaf { volume, leaf } => write!(f, "leaf {leaf} of volume {}", volume.0),
            Object::Entry { volume, page } => write!(f, "entry {page} of volume {}", volume.0),
            Object::Page(page) => write!(f, "page {} of group {}", page.page, page.group.0),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Record(error) => error.fmt(f),
            Fault::Missing => write!(f, "it is missing"),
            Fault::OutOfRange => write!(f, "it names something that is not there"),
            Fault::UsedTwice { page, other } => write!(
                f,
                "it names page {} of group {}, which belongs to entry {} of volume {}",
                page.page, page.group.0, other.1, other.0.0
            ),
            Fault::Count {
                what,
                kept,
                counted,
            } => write!(f, "{what}: {kept} kept, {counted} counted"),
            Fault::NameTaken => write!(f, "its name is another's"),
            Fault::Foreign => write!(f, "it is another group's or pool's"),
            Fault::Short {
                length_bytes,
                needed_bytes,
            } => write!(f, "it has {length_bytes} bytes of {needed_bytes}"),
            Fault::Older { generation, header } => write!(
                f,
                "the metadata are of generation {generation}, but were of generation {header} when the pool was opened before"
            ),
            Fault::Unreadable(kind) => write!(f, "it cannot be read: {kind}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.fault)
    }
}

/// Figures of a pool that was checked, and all that is wrong with it.
#[derive(Debug)]
pub struct Checked {
    /// Commits the pool has seen.
    pub generation: u64,
    /// Volumes whose records are whole.
    pub volumes: usize,
    /// Entries of maps that were walked.
    pub entries: u64,
    /// What is wrong; empty: nothing.
    pub findings: Vec<Finding>,
}

/// Checks a pool that is not open. Not a byte of it is changed, also where a crash left something to finish: that is done in memory.
///
/// `group` opens the file of a group, for reading.
///
/// # Errors
/// [`StoreError`] if there is nothing to walk: the store cannot be opened, or has no superblock.
pub fn check(metadata: Arc<dyn Disk>, group: OpenGroup<'_>) -> Result<Checked, StoreError> {
    let store = Store::open(Arc::new(OverlayDisk::new(metadata)?))?;
    let mut loaded = store.load()?;
    let mut findings = core::mem::take(&mut loaded.findings);
    open::check_group_files(&loaded, group, &mut findings);
    let entries = loaded
        .leaves
        .iter()
        .map(|(_, _, leaf)| u64::from(leaf.mapped()))
        .sum();
    let checked = Checked {
        generation: loaded.superblock.generation,
        volumes: loaded.volumes.len(),
        entries,
        findings: Vec::new(),
    };
    let pool = Pool::from_loaded(PoolConfig::default(), loaded, &mut findings);
    if findings.is_empty() {
        findings = pool.check();
    }
    Ok(Checked {
        findings,
        ..checked
    })
}

impl Pool {
    /// Compares every count and reference that is kept with a walk over all maps. Costs about as much as opening.
    #[must_use]
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut counted: Vec<Vec<u32>> = self
            .groups
            .iter()
            .map(|group| vec![0; group.pages() as usize])
            .collect();
        let mut owners = Owners::new(self.groups.iter().map(|group| group.pages()));
        for (id, volume) in &self.volumes {
            let mut mapped = 0;
            for (page, at) in volume.map.iter() {
                mapped += 1;
                counted[at.group.index()][at.page as usize] += 1;
                if let Some(fault) = owners.claim(at, *id, volume.family, page) {
                    findings.push(Finding::new(Object::Entry { volume: *id, page }, fault));
                }
            }
            count(
                &mut findings,
                Object::Volume(*id),
                "pages",
                volume.map.mapped(),
                mapped,
            );
        }
        for copy in self.copies_under_way() {
            counted[copy.group.index()][copy.page as usize] += 1;
        }
        for (index, group) in self.groups.iter().enumerate() {
            let id = GroupId(index as u16);
            let (mut used, mut free) = (0, 0);
            for page in 1..group.pages() {
                let kept = group.references(page);
                let object = Object::Page(PageId { group: id, page });
                let found = counted[index][page as usize];
                count(
                    &mut findings,
                    object,
                    "references",
                    kept.live.into(),
                    found.into(),
                );
                used += u64::from(kept.live > 0);
                free += u64::from(group.is_free(page));
                if group.is_free(page) && (kept.live > 0 || kept.dropping > 0) {
                    findings.push(Finding::new(
                        object,
                        Fault::Count {
                            what: "references of a free page",
                            kept: kept.live.into(),
                            counted: found.into(),
                        },
                    ));
                }
            }
            count(
                &mut findings,
                Object::Group(id),
                "pages in use",
                group.used_pages().into(),
                used,
            );
            count(
                &mut findings,
                Object::Group(id),
                "free pages",
                group.free_pages().into(),
                free,
            );
        }
        findings
    }

    /// Pages that are being copied to.
    fn copies_under_way(&self) -> impl Iterator<Item = PageId> + '_ {
        let copies = self
            .accesses
            .iter()
            .filter_map(|(_, access)| match &access.kind {
                Kind::Read => None,
                Kind::Write(writing) => Some(&writing.copies),
                Kind::Unmap(zeroing) => Some(&zeroing.copies),
            });
        copies.flat_map(|copies| copies.all.iter().map(|copy| copy.to))
    }
}

fn count(findings: &mut Vec<Finding>, object: Object, what: &'static str, kept: u64, counted: u64) {
    if kept != counted {
        findings.push(Finding::new(
            object,
            Fault::Count {
                what,
                kept,
                counted,
            },
        ));
    }
}

/// For every page of every group: the first entry that names it.
pub(crate) struct Owners {
    groups: Vec<Vec<Option<Owner>>>,
}

#[derive(Clone, Copy)]
struct Owner {
    volume: VolumeId,
    family: VolumeId,
    page: u64,
}

impl Owners {
    pub(crate) fn new(pages: impl Iterator<Item = u32>) -> Owners {
        Owners {
            groups: pages.map(|pages| vec![None; pages as usize]).collect(),
        }
    }

    /// An entry names `at`. Only copies of one volume may name the same page, each for the same page of theirs.
    pub(crate) fn claim(
        &mut self,
        at: PageId,
        volume: VolumeId,
        family: VolumeId,
        page: u64,
    ) -> Option<Fault> {
        let owner = &mut self.groups[at.group.index()][at.page as usize];
        match owner {
            None => {
                *owner = Some(Owner {
                    volume,
                    family,
                    page,
                });
                None
            }
            Some(first)
                if first.family == family && first.page == page && first.volume != volume =>
            {
                None
            }
            Some(first) => Some(Fault::UsedTwice {
                page: at,
                other: (first.volume, first.page),
            }),
        }
    }
}
