//! The shell of [`hakaru_store`], which carries out the requests of the stores. Memory is mapped,
//! file I/O goes through a queue, and dedicated threads write commits and reservations.
//!
//! | file | contents |
//! |---|---|
//! | `lu_memory.rs` | sparse memory, which can be lent to sockets |
//! | `files.rs` | the open files and the requests to them |
//! | `pool_directory.rs` | the directory of a pool: creation, opening, locking, check, commits |
//! | `keeper.rs` | reservations that survive a restart |
mod files;
mod keeper;
mod lu_memory;
mod pool_directory;

use std::io;

use hakaru_contract::{GroupConfig, PoolConfig};
use hakaru_drive::Array;
use hakaru_iscsi_target::Target;
use hakaru_pool::{Outcome, Request as PoolRequest};
use hakaru_runtime::file::{FileQueue, IoBuffer, RETRY_AFTER};
use hakaru_runtime::memory::page_pipe::PagePipe;
use hakaru_runtime::{Reactor, Token};
use hakaru_scsi_device::{Io, IoId, IoResult, Returned};
use hakaru_store::{Request, Store};
use hakaru_units::Time;

pub use self::files::OpenFile;
pub use self::keeper::Keeper;
pub use self::lu_memory::LuMemory;
pub use self::pool_directory::{PoolFailure, check};

use self::files::Files;
use self::pool_directory::PoolDirectory;

/// An LU of the array.
pub type Lu = hakaru_store::Lu<LuMemory>;

/// The answer of a pool to an order.
pub type Ordered = Result<Outcome, hakaru_pool::Failure>;

/// The stores, and the parts that carry out their requests.
pub struct Storage {
    /// The state machines of the LUs and pools.
    pub core: hakaru_store::Storage<LuMemory>,
    files: Files,
    /// Directories of the pools, indexed by the number of the pool.
    directories: Vec<PoolDirectory>,
    keeper: Option<Keeper>,
    /// Instant at which requests that the kernel refused are submitted again.
    retry_at: Option<Time>,
}

impl Storage {
    /// Creates storage without LUs and pools. Without a `model`, accesses are as fast as the
    /// machine.
    pub fn new(
        model: Option<Array>,
        queue: FileQueue<IoBuffer>,
        keeper: Option<Keeper>,
    ) -> Storage {
        Storage {
            core: hakaru_store::Storage::new(model),
            files: Files::new(queue),
            directories: Vec::new(),
            keeper,
            retry_at: None,
        }
    }

    /// Opens the pool in a directory, or creates one. Does not add configured groups that the pool
    /// lacks.
    ///
    /// # Errors
    /// See [`PoolFailure`].
    pub fn open_pool(
        &mut self,
        config: &PoolConfig,
        reactor: &Reactor,
        token: Token,
    ) -> Result<(), PoolFailure> {
        let number = self.directories.len();
        let (pool, directory) =
            PoolDirectory::open(config, number, reactor, token, &mut self.files)?;
        self.core.add_pool(pool);
        self.directories.push(directory);
        Ok(())
    }

    /// Creates the file of a new group. The caller then orders [`PoolRequest::AddGroup`].
    ///
    /// # Errors
    /// See [`PoolFailure`].
    pub fn prepare_group(&mut self, pool: usize, config: &GroupConfig) -> Result<(), PoolFailure> {
        let core = self.core.pools()[pool].core();
        let group = self.directories[pool].prepare_group(core, config, &mut self.files)?;
        self.core.pool_mut(pool).push_group(group);
        Ok(())
    }

    /// Closes the file of the last prepared group if the group was not added.
    pub fn forget_prepared_group(&mut self, pool: usize) {
        if self.core.pool_mut(pool).forget_pushed_group() {
            self.directories[pool].forget_prepared_group(&mut self.files);
        }
    }

    /// Adds the file of an LU.
    pub fn add_file(&mut self, file: OpenFile) -> hakaru_store::FileId {
        self.files.add(file)
    }

    /// Submits an access. [`Storage::poll_done`] returns its result.
    pub fn submit(&mut self, now: Time, io: Io, target: &mut Target) {
        let mut take_buffer = |length| target.take_buffer(length);
        self.core.submit(now, io, &mut take_buffer);
    }

    /// Cancels an access that a pool still holds. Returns `false` if no pool holds it.
    pub fn cancel(&mut self, now: Time, io: IoId) -> bool {
        self.core.cancel(now, io)
    }

    /// Passes an order of the operator to a pool, under the number `order`.
    pub fn order(&mut self, now: Time, pool: usize, order: u64, request: PoolRequest) {
        self.core.order(now, pool, order, request);
    }

    /// Handles the deadlines of [`Storage::poll_timeout`] that have passed.
    pub fn handle_timeout(&mut self, now: Time, target: &mut Target) {
        let mut take_buffer = |length| target.take_buffer(length);
        self.core.handle_timeout(now, &mut take_buffer);
    }

    /// Returns when [`Storage::handle_timeout`], followed by [`Storage::flush_files`], is due next.
    pub fn poll_timeout(&self) -> Option<Time> {
        let timeouts = [self.core.poll_timeout(), self.retry_at];
        timeouts.into_iter().flatten().min()
    }

    /// Returns when [`Storage::flush_files`] is due if no event occurs before.
    pub fn poll_retry(&self) -> Option<Time> {
        self.retry_at
    }

    /// Returns the next completed access.
    pub fn poll_done(&mut self) -> Option<(IoId, IoResult)> {
        self.core.poll_done()
    }

    /// Carries out the requests of the stores, and submits all requests to files. Called once per
    /// turn.
    pub fn flush_files(&mut self, now: Time) {
        loop {
            while let Some(request) = self.core.poll_request() {
                self.perform(now, request);
            }
            self.files.flush();
            if !self.take_file_completions(now) {
                break;
            }
        }
        self.retry_at = self.files.must_retry().then(|| now + RETRY_AFTER);
    }

    fn perform(&mut self, now: Time, request: Request) {
        match request {
            Request::File(request) => {
                if let Some(done) = self.files.begin(request) {
                    self.core.handle_file_done(now, done);
                }
            }
            Request::Commit(request) => self.directories[request.pool].commit(request),
            Request::Keep { io, lun, record } => match &mut self.keeper {
                Some(keeper) => keeper.keep(io, lun, record),
                None => self.core.handle_kept(io, false),
            },
        }
    }

    /// Passes completed requests to the stores, which may then issue further requests. Returns
    /// whether any request had completed.
    fn take_file_completions(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(done) = self.files.poll_done() {
            any = true;
            self.core.handle_file_done(now, done);
        }
        any
    }

    /// Handles an event of the files' token.
    pub fn handle_file_event(&mut self, now: Time) {
        self.files.handle_event();
        self.take_file_completions(now);
    }

    /// Handles an event of the token of a pool's commits.
    pub fn handle_store_event(&mut self, now: Time, pool: usize) {
        let directory = &mut self.directories[pool];
        directory.handle_event();
        while let Some(committed) = directory.poll_committed() {
            self.core.handle_committed(now, committed);
        }
    }

    /// Handles an event of the keeper's token.
    pub fn handle_keeper_event(&mut self) {
        let Some(keeper) = &mut self.keeper else {
            return;
        };
        keeper.handle_event();
        while let Some((io, kept)) = keeper.poll_done() {
            self.core.handle_kept(io, kept.is_ok());
        }
    }

    /// Returns a range of the memory of LU `lun`, from which a socket sends.
    ///
    /// # Panics
    /// If the LU is not in memory. Only reads of LUs in memory are answered in place.
    pub fn in_place(&self, lun: u8, offset: u64, length: u32) -> &[u8] {
        let memory = self.core.memory(lun);
        let LuMemory(memory) = memory.expect("only LUs in memory are read in place");
        memory.bytes(offset, length as usize)
    }

    /// Lends memory of LU `lun` to a pipe, as far as the pipe has room. Returns the number of bytes
    /// lent.
    ///
    /// # Errors
    /// As [`hakaru_runtime::memory::SparseMemory::lend`].
    ///
    /// # Panics
    /// As [`Storage::in_place`].
    pub fn lend(
        &mut self,
        lun: u8,
        offset: u64,
        length: u32,
        pipe: &mut PagePipe,
    ) -> io::Result<usize> {
        let store = self.core.memory_mut(lun);
        let store = store.expect("only LUs in memory are read in place");
        store.memory_mut().0.lend(offset, length as usize, pipe)
    }

    /// Takes back memory that was lent.
    pub fn take_back(&mut self, returned: Returned) {
        self.core.take_back(returned);
    }

    /// Returns the record of the reservations of an LU that may have been served before. Returns
    /// `None` if reservations of the LU are not stored.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn load_reservations(&mut self, lun: u8, lu: &Lu) -> io::Result<Option<Vec<u8>>> {
        match (&mut self.keeper, &lu.identity) {
            (Some(keeper), Some(identity)) => keeper.load(lun, identity).map(Some),
            _ => Ok(None),
        }
    }

    /// Like [`Storage::load_reservations`], for a new LU. Removes any stored record and returns an
    /// empty one.
    pub fn start_reservations(&mut self, lun: u8, lu: &Lu) -> Option<Vec<u8>> {
        let (keeper, identity) = self.keeper.as_mut().zip(lu.identity.as_deref())?;
        keeper.start(lun, identity);
        Some(Vec::new())
    }

    /// Withdraws a thin LU and drops its reservations.
    pub fn detach(&mut self, lun: u8) {
        self.core.detach(lun);
        if let Some(keeper) = &mut self.keeper {
            keeper.forget(lun);
        }
    }

    /// Returns the name of the I/O backend: `io_uring` or `threads`, or `memory` if no file is
    /// used.
    pub fn io_backend(&self) -> &'static str {
        if self.core.uses_files() {
            self.files.backend()
        } else {
            "memory"
        }
    }

    /// Visits each counter of the LUs, the pools and the model, as entity, name and value.
    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        self.core.visit_counters(now, visit);
        for (lun, lu) in self.core.lus() {
            let bytes = match &lu.store {
                Store::File(file) => self.files.allocated_bytes(file.file()),
                Store::Parts(parts) => parts
                    .files()
                    .map(|file| self.files.allocated_bytes(file))
                    .sum(),
                Store::Memory(_) | Store::Thin { .. } | Store::Volumes(_) => None,
            };
            if let Some(bytes) = bytes {
                visit(&format!("lu/{lun}"), "mapped_bytes_now", bytes as f64);
            }
        }
    }
}
