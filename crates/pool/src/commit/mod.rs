//! Stable storage: its contents, and the rounds that write them.
//!
//! | file | contents |
//! |---|---|
//! | `rounds` `round` | syncs data, then commits the maps that reference it |
//! | `metadata/` | the records and their store |
//! | `header` | the header of a group's file |
pub mod header;
pub mod metadata;
pub(crate) mod round;
pub(crate) mod rounds;
