//! Pages: which are free, which are used and by how many, and how they come back.
//!
//! | file | contents |
//! |---|---|
//! | `allocator` | the pages of all groups |
//! | `group` | the pages of one group |
//! | `epoch` | which accesses may still touch a dropped page |
//! | `recycler` | the way back of a page: committed, discarded, synced, free |
pub(crate) mod allocator;
pub(crate) mod epoch;
pub(crate) mod group;
pub(crate) mod recycler;
