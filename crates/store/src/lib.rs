//! The storage behind the LUs of an array: memory, files and volumes of thin-provisioned pools, and
//! the timing model in front of them. State machines without I/O; the array engine and the
//! simulated world drive the same ones.
//!
//! ```text
//! submit(now, Io, take_buffer)               an access of the device server
//! cancel(now, IoId)                          ends one that a pool still holds
//! order(now, pool, number, pool::Request)    an order of the operator for a pool
//! poll_request() -> Request                  File: do it, then handle_file_done(now, FileDone)
//!                                            Commit: do it, then handle_committed(now, Committed)
//!                                            Keep: do it, then handle_kept(IoId, ok)
//! poll_done() -> (IoId, IoResult)            a finished access
//! poll_ordered(pool)                         how an order ended
//! poll_notice() -> Notice                    something that operator and initiators should know
//! poll_timeout() -> Time                     when handle_timeout(now, take_buffer) is wanted
//! ```
//!
//! An access passes two stations: the model holds it until its modelled instant (without a model it
//! passes at once), then the LU's store does it. Memory does it within the call. Files and pools
//! ask for requests to files; after any call take all requests, and the results that there are. A
//! request to a file that is marked `at_once` may be tried within the call (from the page cache);
//! any other one goes to a queue, so that a long sweep does not hold up other accesses.
//!
//! | file | contents |
//! |---|---|
//! | `storage` | the entry points; which LU an access is for |
//! | `inventory` | which LUs and pools there are, and their counters |
//! | `lu` | an LU: its store, its place on the modelled drives |
//! | `memory` `written` `contents` `chunked` | an LU in RAM; which of it was written; contents drawn from a seed; memory without system calls |
//! | `file` | an LU in a file or on a block device |
//! | `pool/` | LUs that are volumes of a pool: accesses, and the pool's own work |
//! | `gate` | the timing model |
//! | `context` `request` | what the stores share; what is asked of the shell |
#![forbid(unsafe_code)]

mod chunked;
mod contents;
mod context;
mod file;
mod gate;
mod inventory;
mod lu;
mod memory;
mod pool;
mod request;
mod storage;
mod written;

pub use chunked::ChunkedMemory;
pub use contents::Contents;
pub use context::Notice;
pub use file::FileStore;
pub use lu::{Lu, Place, Store};
pub use memory::{GRANULE_BYTES, LuMemory, MemoryStore};
pub use pool::{GroupFile, PoolStore};
pub use request::{
    CommitRequest, Committed, FileDone, FileId, FileOp, FileRequest, FileRequestId, Request,
};
pub use storage::{Storage, TakeBuffer};
