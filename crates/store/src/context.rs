//! State that all stores share during a call: the time, the timing model, requests to the shell,
//! and results.
use std::collections::VecDeque;
use std::ops::Range;

use hakaru_pool::VolumeId;
use hakaru_scsi_device::{Io, IoId, IoResult};
use hakaru_units::Time;
use slab::Slab;

use crate::gate::Gate;
use crate::request::{FileId, FileOp, FileRequest, FileRequestId, Request};

/// State shared by all stores.
#[derive(Debug)]
pub(crate) struct StoreContext {
    /// Time of the current call.
    pub(crate) now: Time,
    pub(crate) gate: Option<Gate<Held>>,
    pub(crate) requests: VecDeque<Request>,
    /// Finished accesses.
    pub(crate) done: VecDeque<(IoId, IoResult)>,
    /// Purpose of each file request in flight, by its id.
    purposes: Slab<Purpose>,
}

/// An operation that the model holds.
#[derive(Debug)]
pub(crate) enum Held {
    /// An access that has not started.
    Io {
        io: Io,
        /// Pool and volume behind the LU when the access was submitted. The LU may have been
        /// withdrawn since, and its number given to another volume.
        volume: Option<(usize, VolumeId)>,
    },
    /// The data of an access to a pool.
    PoolAccess { pool: usize, access: usize },
    /// A step of a pool's own work.
    PoolWork { pool: usize, work: usize },
}

/// An event to report to the operator or to initiators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The use of a pool has reached its soft threshold.
    Threshold {
        /// Number of the pool.
        pool: usize,
    },
    /// A pool has become read-only.
    ReadOnly {
        /// Number of the pool.
        pool: usize,
    },
    /// The metadata of a pool could not be written.
    Broken {
        /// Number of the pool.
        pool: usize,
        /// The error.
        error: String,
    },
}

/// Purpose of a request to a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// An access to an LU in a file.
    File { lun: u8, io: IoId },
    /// An access to a part of an LU whose parts are files.
    Part { lun: u8, part: usize, io: IoId },
    /// A step of a sweep over an LU in a file.
    Sweep { lun: u8, sweep: usize },
    /// A piece of an access to a pool.
    PoolAccess { pool: usize, access: usize },
    /// A step of a pool's own work.
    PoolWork { pool: usize, work: usize },
}

/// A transfer between a buffer and a file.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) file: FileId,
    pub(crate) op: FileOp,
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) range: Range<usize>,
    pub(crate) at_once: bool,
}

impl StoreContext {
    pub(crate) fn new(gate: Option<Gate<Held>>) -> StoreContext {
        StoreContext {
            now: Time::ZERO,
            gate,
            requests: VecDeque::new(),
            done: VecDeque::new(),
            purposes: Slab::new(),
        }
    }

    /// Requests a transfer.
    pub(crate) fn transfer(&mut self, transfer: Transfer, purpose: Purpose) {
        let id = FileRequestId(self.purposes.insert(purpose));
        let Transfer {
            file,
            op,
            offset_bytes,
            bytes,
            range,
            at_once,
        } = transfer;
        self.requests.push_back(Request::File(FileRequest {
            id,
            file,
            op,
            offset_bytes,
            bytes,
            range,
            at_once,
        }));
    }

    /// Requests an operation without data: a sync, a hole, a list of extents.
    pub(crate) fn command(
        &mut self,
        file: FileId,
        op: FileOp,
        offset_bytes: u64,
        purpose: Purpose,
    ) {
        let transfer = Transfer {
            file,
            op,
            offset_bytes,
            bytes: Vec::new(),
            range: 0..0,
            at_once: true,
        };
        self.transfer(transfer, purpose);
    }

    /// Removes and returns the purpose of a completed request.
    ///
    /// # Panics
    /// If there is no such request. Each request is answered exactly once.
    pub(crate) fn take_purpose(&mut self, id: FileRequestId) -> Purpose {
        self.purposes.remove(id.0)
    }
}
