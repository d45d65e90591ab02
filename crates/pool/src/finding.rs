//! Damage of a pool, as data.

use std::fmt;
use std::io;

use crate::commit::metadata::RecordError;
use crate::map::PageId;
use crate::place::GroupId;
use crate::volume::VolumeId;

/// The part of a pool that is damaged.
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
        /// The volume.
        volume: VolumeId,
        /// Number of the leaf, which maps the 512 pages of the volume from `512 * leaf` on.
        leaf: u32,
    },
    /// One entry of a volume's map.
    Entry {
        /// The volume.
        volume: VolumeId,
        /// Page of the volume.
        page: u64,
    },
    /// A page of a group.
    Page(PageId),
}

/// The kind of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The record or header is damaged, or belongs to another key.
    Record(RecordError),
    /// The object is missing.
    Missing,
    /// The object references another that does not exist, or lies beyond the end.
    OutOfRange,
    /// Another entry references the same page, and the two are not copies of one entry.
    UsedTwice {
        /// The page.
        page: PageId,
        /// The other entry: its volume, and the page of that volume.
        other: (VolumeId, u64),
    },
    /// A stored count differs from the counted value.
    Count {
        /// Name of the count.
        name: &'static str,
        /// Stored value.
        stored: u64,
        /// Counted value.
        counted: u64,
    },
    /// Two volumes, or two groups, have the same name.
    NameTaken,
    /// The file belongs to another pool or another group.
    Foreign,
    /// The file is shorter than the group.
    Short {
        /// Actual length, bytes.
        length_bytes: u64,
        /// Required length, bytes.
        needed_bytes: u64,
    },
    /// The metadata is older than when the pool was last opened: durable commits were lost.
    Older {
        /// Generation of the metadata.
        generation: u64,
        /// Generation in the header.
        header: u64,
    },
    /// The file cannot be read.
    Unreadable(io::ErrorKind),
}

impl Fault {
    /// Returns a fault if a stored count differs from the counted value.
    pub(crate) fn of_count(name: &'static str, stored: u64, counted: u64) -> Option<Fault> {
        (stored != counted).then_some(Fault::Count {
            name,
            stored,
            counted,
        })
    }
}

impl From<RecordError> for Fault {
    fn from(error: RecordError) -> Self {
        Fault::Record(error)
    }
}

/// Damage to a part of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The part.
    pub object: Object,
    /// Its damage.
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
            Fault::OutOfRange => write!(f, "it references an object that does not exist"),
            Fault::UsedTwice { page, other } => write!(
                f,
                "it references page {} of group {}, which belongs to entry {} of volume {}",
                page.page, page.group.0, other.1, other.0.0
            ),
            Fault::Count {
                name,
                stored,
                counted,
            } => write!(f, "{name}: {stored} stored, {counted} counted"),
            Fault::NameTaken => write!(f, "its name is used twice"),
            Fault::Foreign => write!(f, "it belongs to another group or pool"),
            Fault::Short {
                length_bytes,
                needed_bytes,
            } => write!(f, "it has only {length_bytes} of {needed_bytes} bytes"),
            Fault::Older { generation, header } => write!(
                f,
                "the metadata has generation {generation}, but had generation {header} when the pool was last opened"
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
