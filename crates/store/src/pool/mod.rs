//! LUs that are volumes of a thin-provisioned pool.
//!
//! The pool decides where the bytes of a volume lie; here they are moved. Three kinds of events
//! drive it: accesses and orders that come in, requests to files that end, commits that are done.
//! After each the pool's answers and actions are taken (`PoolStore::settle`).
//!
//! | file | contents |
//! |---|---|
//! | `store` | a pool, its files, its figures |
//! | `transfer` | an access under way |
//! | `access` | accesses: asked of the pool, moved piece by piece, answered |
//! | `work` `action` | what the pool wants done besides: copies, holes, syncs, commits |
mod access;
mod action;
mod store;
mod transfer;
mod work;

pub use store::{GroupFile, PoolStore};
