//! Thin-provisioned pools: virtual LUs larger than the storage behind them, snapshots, clones, and
//! crash consistency of all of them.
//!
//! A **pool** consists of **groups** (RAID groups, each one data file) and allocates their
//! **pages** to **volumes** (virtual LUs) at the first write. [`Pool`] determines the *location* of
//! data; it transfers no data itself:
//!
//! ```text
//! handle_request(now, RequestId, Request)   Read, Write, Unmap, Flush, Create, Snapshot, …
//! poll_reply() -> Reply
//!     Ready                                 transfer these pieces, then
//!                                           handle_moved(now, access, ok)
//!     Done, Created, Grown, Failed          complete
//! poll_action() -> Action
//!     Copy, Zero, Discard, Sync, Commit     carry it out, then
//!                                           handle_action_done(now, id, result)
//! poll_event() -> Event                     threshold crossed, pool is now read-only
//! poll_timeout() -> Time                    deadline for handle_timeout(now)
//! ```
//!
//! A write is answered `Ready` with the pieces of group files for its data. It is complete when the
//! caller has transferred the data and called `handle_moved`. With `fua`, a `Done` (or `Failed`)
//! follows once everything is on stable storage. After any call, drain all replies, actions and
//! events.
//!
//! Metadata consists of records in [`metadata::Store`] (redb over a [`disk::Disk`]). Calls to the
//! store block, so the caller runs [`metadata::Store::commit`] on a dedicated thread for each
//! `Commit` action.
//!
//! # Crash rules
//! 1. A page that may be allocated reads as zeros, and the zeros are on stable storage. Unwritten
//!    ranges therefore read as zeros, even after a crash.
//! 2. Data is synced before the commit that references its page. Mappings become durable at a flush
//!    or a `fua` write.
//! 3. A reference counts until the commit that drops it is durable *and* every access that was in
//!    flight has ended. Until then the page is neither allocated nor overwritten in place for
//!    another volume that shares it. Then it is discarded and synced (rule 1).
//! 4. When a pool is opened, every page that no map references is discarded before it is allocated,
//!    because its data was never flushed.
//! 5. A failed sync or commit makes the pool read-only until it is opened again. The pool retries
//!    neither.
//!
//! | file | contents |
//! |---|---|
//! | `pool` `waiting` `threshold` | the state of a pool; waiting requests; the soft threshold |
//! | `access/` | reads, writes and unmappings |
//! | `alloc/` | the pages of groups, and their recycling |
//! | `commit/` | rounds of sync and commit, the metadata store, headers |
//! | `manage` `status` | creation and deletion of groups and volumes; figures |
//! | `action` `actions` | operations that the caller carries out for the pool |
//! | `open` `check` `finding` `owners` | opening and checking a pool, and its damage |
//! | `map` `volume` `place` | a volume, its map, and locations of data |
//! | `disk/` | the disk trait, and disks for tests, with fault injection |
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
mod threshold;
mod volume;
mod waiting;

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
