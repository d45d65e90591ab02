//! Thin-provisioned pools: virtual LUs larger than the storage behind them, snapshots, clones, and
//! what of it survives a crash.
//!
//! A **pool** is made of **groups** (RAID groups, each one data file) and gives their **pages** to
//! **volumes** (virtual LUs) at the first write. [`Pool`] decides *where*; it moves no byte itself:
//!
//! ```text
//! handle_request(now, RequestId, Request)          Read, Write, Unmap, Flush, Create, Snapshot, …
//! poll_reply() -> Reply                            Ready: move these pieces, then handle_moved(now, access, ok)
//!                                                  Done, Created, Grown, Failed: over
//! poll_action() -> Action                          Copy, Zero, Discard, Sync, Commit: do it, then handle_action_done(now, id, result)
//! poll_event() -> Event                            threshold crossed, pool is now read-only
//! poll_timeout() -> Time                           when handle_timeout(now) is wanted
//! ```
//!
//! A write is answered `Ready` with the pieces of group files its data goes to, and is over when
//! the caller has moved the data and said so; with `fua` a `Done` (or `Failed`) follows once
//! everything is on stable storage. After any call take all replies, actions and events that are
//! there.
//!
//! Metadata are records in [`metadata::Store`] (redb over a [`disk::Disk`]), which is synchronous:
//! the caller runs [`metadata::Store::commit`] on a thread of its own when [`Action`] says
//! `Commit`.
//!
//! # Crash rules
//! 1. A page that may be given out reads as zeros, and that is on stable storage. So what is not written reads as zeros, after a crash too.
//! 2. Data are synced before the commit that names their page. Mappings become durable at a flush or a `fua` write.
//! 3. A reference counts until the commit that drops it is durable *and* every access that was in flight has ended. Until then
//!    the page is neither given out nor overwritten in place for another volume that shares it. Then it is discarded and synced (rule 1).
//! 4. At opening every page that no map names is discarded before it is given out: whatever was written to it was never flushed.
//! 5. A failed sync or commit makes the pool read-only until it is opened again. Nothing is tried twice.
//!
//! | file | contents |
//! |---|---|
//! | `pool` | the state of a pool; requests that wait |
//! | `access/` | reads, writes and unmappings |
//! | `alloc/` | the pages of groups, and their way back |
//! | `commit/` | rounds of sync and commit, the metadata store, headers |
//! | `manage` `status` | groups and volumes made and deleted; figures |
//! | `action` `actions` | what the caller does for the pool |
//! | `open` `check` `finding` `owners` | a pool opened or checked, and what is wrong with it |
//! | `map` `volume` `place` `disk/` | a volume's map; a disk, also one that fails |
#![forbid(unsafe_code)]

mod access;
mod action;
mod actions;
mod alloc;
mod check;
mod commit;
mod config;
pub mod disk;
mod finding;
mod manage;
mod map;
mod open;
mod owners;
mod place;
mod pool;
mod status;
mod volume;

pub use access::pieces::{Piece, Pieces};
pub use access::request::{Access, Failure, Outcome, Range, Reply, Request, RequestId};
pub use action::{Action, ActionFailure, ActionId, ActionKind, Event};
pub use check::{Checked, check};
pub use commit::{header, metadata};
pub use config::{
    GROUPS_MAX, NAME_BYTES_MAX, PAGE_BYTES_DEFAULT, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PoolConfig,
    SIZE_BYTES_MAX, VOLUMES_MAX, name_is_valid,
};
pub use finding::{Fault, Finding, Object};
pub use map::{LEAF_ENTRIES, Leaf, PageId};
pub use open::{OpenError, OpenGroup, create, open};
pub use place::{GroupId, Place};
pub use pool::Pool;
pub use status::{GroupStatus, PoolStatus, VolumeStatus};
pub use volume::VolumeId;
