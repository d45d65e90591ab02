//! What is behind the LUs: their bytes, and the model that says when an access is over.
//!
//! An access passes two stations, in this order: the model holds it until its modelled instant (model `none` does not hold
//! it at all), then the LU's store does it. Memory does it at once; a file may answer later. A finished access comes out of
//! [`Storage::poll_done`].
//!
//! | file | what it is |
//! |---|---|
//! | `inventory.rs` | which LUs and pools there are, what they are, counters |
//! | `way.rs` | what all stores share on the way of an access |
//! | `lu.rs` | what an LU is: its store, its place on the modelled drives |
//! | `memory.rs` | an LU in RAM |
//! | `file.rs` | an LU in a file or on a block device |
//! | `pool/` | LUs that are volumes of a thin-provisioned pool |
//! | `files.rs` | requests to files under way, and what each is for |
//! | `gate.rs` | the timing model in front |
//! | `keeper.rs` | what outlives a restart beside the data: reservations |
mod contents;
mod file;
mod files;
mod gate;
mod inventory;
mod keeper;
mod lu;
mod memory;
mod pool;
mod slab;
mod way;

use std::collections::VecDeque;
use std::io;

use hakaru_drive::{Array, Op};
use hakaru_iscsi_target::{Io, IoFailure, IoId, IoOp, IoResult, Returned, Target};
use hakaru_runtime::file::{FileQueue, IoBuffer, RETRY_AFTER};
use hakaru_runtime::page_pipe::PagePipe;
use hakaru_units::Time;

pub use self::contents::Contents;
pub use self::file::FileStore;
pub use self::files::OpenFile;
pub use self::keeper::Keeper;
pub use self::lu::{Lu, Store};
pub use self::memory::{GRANULE_BYTES, MemoryStore};
pub use self::pool::{PoolFailure, PoolStore, check};
pub use self::way::{Held, Notice, Purpose, Way};

use self::file::FileSweep;
use self::files::Files;
use self::gate::{Gate, Stretch, Work};
use self::memory::{Accessed, Sweep};
use self::slab::Slab;

/// LUs by number, and the accesses under way.
pub struct Storage {
    /// Indexed by LUN.
    lus: Vec<Option<Lu>>,
    pools: Vec<PoolStore>,
    way: Way,
    file_sweeps: Slab<FileSweep>,
    /// Accesses to memory that go on in steps, each with its LU; they take turns.
    sweeps: VecDeque<(u8, IoId, Sweep)>,
    keeper: Option<Keeper>,
}

impl Storage {
    /// Without LUs and pools yet. `model` is `None` for "as fast as the machine".
    pub fn new(
        model: Option<Array>,
        files: FileQueue<IoBuffer>,
        keeper: Option<Keeper>,
    ) -> Storage {
        Storage {
            lus: (0..256).map(|_| None).collect(),
            pools: Vec::new(),
            way: Way {
                now: Time::ZERO,
                gate: model.map(Gate::new),
                files: Files::new(files),
                done: VecDeque::new(),
            },
            file_sweeps: Slab::default(),
            sweeps: VecDeque::new(),
            keeper,
        }
    }

    /// Takes an access. What it comes to is told by [`Storage::poll_done`], often at once.
    pub fn submit(&mut self, now: Time, io: Io, target: &mut Target) {
        self.way.now = now;
        if self.way.gate.is_none() {
            return self.access(io, target);
        }
        let Some(lu) = &self.lus[usize::from(io.lun)] else {
            return self.access(io, target);
        };
        match (&lu.store, &io.op) {
            // Each piece is held on its own once it is known where it lies.
            (Store::Thin { .. }, IoOp::Read { .. } | IoOp::Write { .. }) => {
                self.access(io, target);
            }
            (Store::Thin { pool, .. }, IoOp::Flush) => {
                let stretches = self.pools[*pool].stretches();
                self.hold(io, Op::Flush, stretches);
            }
            (_, IoOp::Unmap { ranges }) if !ranges.is_empty() => {
                let stretches: Vec<Stretch> = ranges.iter().map(|range| lu.place(range)).collect();
                self.hold(io, Op::Unmap, stretches);
            }
            _ => {
                let (work, stretch) = lu.stretch(&io.op);
                let gate = self.way.gate.as_mut().expect("looked at above");
                gate.hold(now, Held::Io(io), work, std::iter::once(stretch));
            }
        }
    }

    /// Ends an access that a pool still holds, for space or a copy; false: there is none such.
    pub fn cancel(&mut self, now: Time, io: IoId) -> bool {
        self.way.now = now;
        let way = &mut self.way;
        self.pools.iter_mut().any(|pool| pool.cancel(io, way))
    }

    fn hold(&mut self, io: Io, op: Op, mut stretches: Vec<Stretch>) {
        if stretches.is_empty() {
            // A pool without groups: it costs the controller a command.
            stretches.push(Stretch {
                group: 0,
                offset_bytes: 0,
                length_bytes: 0,
            });
        }
        let gate = self.way.gate.as_mut().expect("there is a model");
        let work = Work { op, fua: false };
        gate.hold(self.way.now, Held::Io(io), work, stretches.into_iter());
    }

    /// Lets pass what the model holds until `now`, and takes a step of what goes on in steps.
    pub fn handle_timeout(&mut self, now: Time, target: &mut Target) {
        self.way.now = now;
        if let Some(gate) = &mut self.way.gate {
            gate.handle_timeout(now);
        }
        while let Some(held) = self.way.gate.as_mut().and_then(Gate::poll_passed) {
            match held {
                Held::Io(io) => self.access(io, target),
                Held::Pool { pool, asked } => {
                    self.pools[pool].handle_passed(asked, &mut self.way);
                }
                Held::Action { pool, acting } => {
                    self.pools[pool].handle_action_passed(acting, &mut self.way);
                }
            }
        }
        for pool in &mut self.pools {
            pool.handle_timeout(&mut self.way);
        }
        if let Some((lun, io, mut sweep)) = self.sweeps.pop_front() {
            let Some(memory) = self.memory(lun) else {
                unreachable!("only memory is swept here, and it stays");
            };
            if memory.step(&mut sweep) {
                self.way.done.push_back((io, IoResult::Done));
            } else {
                self.sweeps.push_back((lun, io, sweep));
            }
        }
    }

    /// When [`Storage::handle_timeout`] is wanted next.
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.sweeps.is_empty() {
            return Some(Time::ZERO);
        }
        let gate = self.way.gate.as_ref().and_then(Gate::poll_timeout);
        let pools = self.pools.iter().filter_map(PoolStore::poll_timeout);
        let retry = self.way.files.must_retry();
        let retry = retry.then_some(self.way.now + RETRY_AFTER);
        gate.into_iter().chain(pools).chain(retry).min()
    }

    /// The next finished access.
    pub fn poll_done(&mut self) -> Option<(IoId, IoResult)> {
        self.way.done.pop_front()
    }

    /// The next thing that operator and initiators should know.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.pools.iter_mut().find_map(PoolStore::poll_notice)
    }

    /// LU `lun`'s memory range, for a socket to send from.
    ///
    /// # Panics
    /// If the LU is not in memory: only such reads are answered in place.
    pub fn in_place(&self, lun: u8, offset: u64, length: u32) -> &[u8] {
        match &self.lus[usize::from(lun)] {
            Some(Lu {
                store: Store::Memory(memory),
                ..
            }) => memory.bytes(offset, length as usize),
            _ => unreachable!("only LUs in memory are read in place"),
        }
    }

    /// Lends LU `lun`'s memory to a pipe, as far as that has room; returns how many bytes that was.
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
        let Some(memory) = self.memory(lun) else {
            unreachable!("only LUs in memory are read in place");
        };
        memory.lend(offset, length as usize, pipe)
    }

    /// Memory that was lent comes back.
    pub fn take_back(&mut self, returned: Returned) {
        let (Returned::Read(lent) | Returned::Abandoned(lent)) = returned;
        if let Some(memory) = self.memory(lent.lun) {
            memory.take_back(returned);
        }
    }

    fn memory(&mut self, lun: u8) -> Option<&mut MemoryStore> {
        match &mut self.lus[usize::from(lun)] {
            Some(Lu {
                store: Store::Memory(memory),
                ..
            }) => Some(memory),
            _ => None,
        }
    }

    /// Does it. `target` lends buffers for what is not read in place.
    fn access(&mut self, io: Io, target: &mut Target) {
        let Some(lu) = &mut self.lus[usize::from(io.lun)] else {
            // It was taken away while the model held the access.
            let gone = IoResult::Failed(IoFailure::Internal);
            return self.way.done.push_back((io.id, gone));
        };
        lu.unmaps += u64::from(matches!(io.op, IoOp::Unmap { .. }));
        let op = match (io.op, &mut self.keeper) {
            (IoOp::Keep { record }, Some(keeper)) => return keeper.keep(io.id, io.lun, record),
            (op, _) => op,
        };
        let way = &mut self.way;
        let ended = match &mut lu.store {
            Store::Memory(memory) => match memory.access(op, target) {
                Accessed::Now(result) => Some(result),
                Accessed::Sweep(sweep) => {
                    self.sweeps.push_back((io.lun, io.id, sweep));
                    None
                }
            },
            Store::File(file) => {
                let (files, sweeps) = (&mut way.files, &mut self.file_sweeps);
                file.access((io.lun, io.id), op, files, sweeps, target)
            }
            Store::Thin { pool, volume } => {
                self.pools[*pool].access(*volume, io.id, op, way, target);
                None
            }
        };
        if let Some(result) = ended {
            way.done.push_back((io.id, result));
        }
    }

    /// Lets what was submitted to files begin: once per turn, for all of it, and for what follows on what ends at once.
    pub fn flush_files(&mut self, now: Time) {
        self.way.now = now;
        loop {
            self.way.files.flush();
            if !self.take_file_completions() {
                return;
            }
        }
    }

    /// The reactor told of the files' token.
    pub fn handle_file_event(&mut self, now: Time) {
        self.way.now = now;
        self.way.files.handle_event();
        self.take_file_completions();
    }

    /// The reactor told of the token of a pool's store.
    pub fn handle_store_event(&mut self, now: Time, pool: usize) {
        self.way.now = now;
        self.pools[pool].handle_store_event(&mut self.way);
    }

    /// The reactor told of the keeper's token.
    pub fn handle_keeper_event(&mut self) {
        let Some(keeper) = &mut self.keeper else {
            return;
        };
        keeper.handle_event();
        while let Some((io, kept)) = keeper.poll_done() {
            let result = match kept {
                Ok(()) => IoResult::Done,
                Err(_) => IoResult::Failed(IoFailure::Internal),
            };
            self.way.done.push_back((io, result));
        }
    }

    /// Whether there were any: what they let go on may have been submitted since the queue was flushed.
    fn take_file_completions(&mut self) -> bool {
        let way = &mut self.way;
        let mut any = false;
        while let Some(finished) = way.files.poll_finished() {
            any = true;
            let ended = match finished.purpose {
                Purpose::File { lun, io } => Some((io, file(&mut self.lus, lun).result(finished))),
                Purpose::Sweep { lun, sweep } => file(&mut self.lus, lun).step_ended(
                    sweep,
                    finished,
                    &mut way.files,
                    &mut self.file_sweeps,
                ),
                Purpose::Piece { pool, asked } => {
                    self.pools[pool].handle_piece(asked, finished, way);
                    None
                }
                Purpose::Action { pool, acting } => {
                    self.pools[pool].handle_action_step(acting, finished, way);
                    None
                }
            };
            way.done.extend(ended);
        }
        any
    }
}

fn file(lus: &mut [Option<Lu>], lun: u8) -> &mut FileStore {
    match &mut lus[usize::from(lun)] {
        Some(Lu {
            store: Store::File(file),
            ..
        }) => file,
        _ => unreachable!("only files have requests to files, and they stay"),
    }
}
