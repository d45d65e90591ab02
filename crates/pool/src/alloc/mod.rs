//! Pages: free ones, references to used ones, and the recycling of dropped ones.
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
