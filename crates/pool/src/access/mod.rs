//! Accesses to volumes.
//!
//! | file | contents |
//! |---|---|
//! | `request` | requests and replies |
//! | `pieces` | where the bytes of an access lie |
//! | `in_flight` | accesses under way |
//! | `write` `unmap` | changes of pages |
pub(crate) mod in_flight;
pub(crate) mod pieces;
pub(crate) mod request;
pub(crate) mod unmap;
pub(crate) mod write;
