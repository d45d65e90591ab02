//! LUs that are volumes of a thin-provisioned pool.
//!
//! The pool determines the location of a volume's data; this module transfers the data. Three kinds
//! of events drive it: new accesses and management requests, completed file requests, and completed
//! commits. After each of them, `PoolStore::settle` drains the pool's answers and actions.
//!
//! | file | contents |
//! |---|---|
//! | `store` | a pool, its files, its figures |
//! | `transfer` | an access in flight |
//! | `access` | accesses: requested from the pool, transferred piece by piece, answered |
//! | `write_same` | WRITE SAME, in steps |
//! | `failure` | failures of a pool or a file, as failures of an access |
//! | `work` `action` | the pool's own work: copies, holes, syncs, commits |
mod access;
mod action;
mod failure;
mod store;
mod transfer;
mod work;
mod write_same;

pub use store::{GroupFile, PoolStore};
