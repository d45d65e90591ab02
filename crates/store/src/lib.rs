//! The storage behind the LUs of an array: memory, files and volumes of thin-provisioned pools, and
//! the timing model in front of them. State machines without I/O; the array engine and the
//! simulated world drive the same ones.
//!
//! ```text
//! submit(now, Io, take_buffer)              an access of the device server
//! cancel(now, IoId)                         cancels an access that waits in a pool
//! order(now, pool, number, pool::Request)   a management request for a pool
//! poll_request() -> Request
//!     File                                  carry it out, then handle_file_done(now, FileDone)
//!     Commit                                carry it out, then handle_committed(now, Committed)
//!     Keep                                  carry it out, then handle_kept(IoId, ok)
//! poll_done() -> (IoId, IoResult)           a completed access
//! poll_ordered(pool)                        a completed management request
//! poll_notice() -> Notice                   an event to report to operator and initiators
//! poll_timeout() -> Time                    deadline for handle_timeout(now, take_buffer)
//! ```
//!
//! An access passes two stages. The model holds it until its modelled completion (without a model
//! it passes at once). Then the LU's store carries it out. Memory completes it within the call.
//! Files and pools issue file requests. After any call, drain all requests and results. A file
//! request marked `at_once` may be tried within the call (from the page cache). Any other request
//! goes to a queue, so that a long sweep does not block other accesses.
//!
//! | file | contents |
//! |---|---|
//! | `storage` | the entry points; dispatch of an access to its LU |
//! | `inventory` | the LUs and pools, and their counters |
//! | `lu` | an LU: its store, its position on the modelled drives |
//! | `memory` `written` | an LU in RAM, and the bitmap of its written granules |
//! | `contents` | contents of an LU in RAM that are drawn from a seed |
//! | `chunked` | memory without system calls |
//! | `file` `parts` | an LU in a file or on a block device; an LU whose parts are files |
//! | `volumes` | an LU whose parts are volumes of a pool |
//! | `pool/` | LUs that are volumes of a pool: accesses, and the pool's own work |
//! | `gate` `tapes` | the timing model; the times of tape drives |
//! | `context` `request` | state shared by the stores; requests to the shell |
#![forbid(unsafe_code)]

mod chunked;
mod contents;
mod context;
mod file;
mod gate;
mod inventory;
mod lu;
mod memory;
mod parts;
mod pool;
mod request;
mod storage;
mod tapes;
mod volumes;
mod written;

pub use chunked::ChunkedMemory;
pub use contents::Contents;
pub use context::Notice;
pub use file::FileStore;
pub use lu::{Lu, Place, Store};
pub use memory::{GRANULE_BYTES, LuMemory, MemoryStore};
pub use parts::PartStore;
pub use pool::{GroupFile, PoolStore};
pub use request::{
    CommitRequest, Committed, FileDone, FileId, FileOp, FileRequest, FileRequestId, Request,
};
pub use storage::{Storage, TakeBuffer};
pub use volumes::VolumeParts;
