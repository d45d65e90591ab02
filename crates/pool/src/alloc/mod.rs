//! Pages of groups: free pages, references to used pages, and recycling of dropped pages.
//!
//! | file | contents |
//! |---|---|
//! | `allocator` | the pages of all groups |
//! | `group` | the pages of one group |
//! | `epoch` | accesses that may still touch a dropped page |
//! | `recycler` | recycling of a page: committed, discarded, synced, free |
pub(crate) mod allocator;
pub(crate) mod epoch;
pub(crate) mod group;
pub(crate) mod recycler;
