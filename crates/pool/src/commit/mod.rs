//! Stable storage: what is on it, and how it gets there.
//!
//! | file | contents |
//! |---|---|
//! | `rounds` `round` | data synced, then the maps that name them committed |
//! | `metadata/` | the records and their store |
//! | `header` | the header of a group's file |
pub mod header;
pub mod metadata;
pub(crate) mod round;
pub(crate) mod rounds;
