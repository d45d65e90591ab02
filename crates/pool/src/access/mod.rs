//! Accesses to volumes.
//!
//! | file | contents |
//! |---|---|
//! | `request` | requests and replies |
//! | `pieces` | location of an access's data |
//! | `in_flight` | accesses in flight |
//! | `read` | reads |
//! | `write` `unmap` | accesses that change pages |
pub(crate) mod in_flight;
pub(crate) mod pieces;
mod read;
pub(crate) mod request;
pub(crate) mod unmap;
pub(crate) mod write;
