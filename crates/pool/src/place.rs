//! Groups and places in their files.

/// Number of a group in its pool, from 0 in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u16);

impl GroupId {
    /// Returns the number as an index into a table of all groups.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A place in a group's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The group.
    pub group: GroupId,
    /// Offset from the start of the group's file, bytes.
    pub offset_bytes: u64,
}

impl Place {
    /// Returns the start of a page.
    pub(crate) fn of_page(group: GroupId, page: u32, page_bytes: u32) -> Place {
        Place {
            group,
            offset_bytes: u64::from(page) * u64::from(page_bytes),
        }
    }
}
