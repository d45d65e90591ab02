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
        /// The leaf: it maps the volume's pages from `512 * leaf` on.
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
    /// The metadata are older than they were when the pool was opened before: commits were lost
    /// that were on stable storage once.
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
