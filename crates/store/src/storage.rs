//! The entry points: dispatches an access to its LU, and tracks it until it completes.
use std::collections::VecDeque;

use hakaru_drive::{Array, Emptied, Op};
use hakaru_pool::{Failure, Outcome, Request as PoolRequest, VolumeId};
use hakaru_scsi_device::{Io, IoFailure, IoId, IoOp, IoResult, Returned, work_bytes};
use hakaru_units::Time;
use slab::Slab;

use crate::context::{Held, Notice, Purpose, StoreContext};
use crate::file::{FileStore, FileSweep};
use crate::gate::{DriveWork, Gate, Stretch};
use crate::lu::{Lu, Store};
use crate::memory::{Accessed, LuMemory, MemoryStore, STEP_BYTES, Sweep};
use crate::parts::PartStore;
use crate::pool::PoolStore;
use crate::request::{Committed, FileDone, Request};
use crate::tapes::Tapes;

/// Maximum bytes of modelled accesses that are carried out within one call: a millisecond of work.
/// Any number of accesses may complete at the same instant.
const PASS_BYTES: u64 = 4 << 20;

/// Maximum number of sweeps in one step. Each has a small fixed cost.
const SWEEPS_PER_STEP: usize = 64;

/// Returns an empty buffer of at least this capacity, for data that is read.
pub type TakeBuffer<'a> = &'a mut dyn FnMut(usize) -> Vec<u8>;

/// LUs by number, pools, and the accesses in flight. The crate's documentation gives the grammar.
#[derive(Debug)]
pub struct Storage<M> {
    /// Indexed by LUN.
    pub(crate) lus: Vec<Option<Lu<M>>>,
    pub(crate) pools: Vec<PoolStore>,
    pub(crate) context: StoreContext,
    pub(crate) tapes: Tapes,
    file_sweeps: Slab<FileSweep>,
    /// Accesses to memory carried out in steps, round-robin, each with its LU.
    sweeps: VecDeque<(u8, IoId, Sweep)>,
    /// Whether accesses that the model has completed were left for the next call.
    passing: bool,
}

impl<M: LuMemory> Storage<M> {
    /// Creates a storage without LUs and pools. `model`: `None` lets accesses complete as fast as
    /// the machine allows.
    #[must_use]
    pub fn new(model: Option<Array>) -> Storage<M> {
        Storage {
            lus: (0..256).map(|_| None).collect(),
            pools: Vec::new(),
            context: StoreContext::new(model.map(Gate::new)),
            tapes: Tapes::default(),
            file_sweeps: Slab::new(),
            sweeps: VecDeque::new(),
            passing: false,
        }
    }

    /// Starts an access. [`Storage::poll_done`] returns its result, often at once.
    pub fn submit(&mut self, now: Time, io: Io, take_buffer: TakeBuffer<'_>) {
        self.context.now = now;
        let (Some(_), Some(lu)) = (&self.context.gate, &self.lus[usize::from(io.lun)]) else {
            return self.access(io, take_buffer);
        };
        match (&lu.store, &io.op) {
            // The model holds each piece separately, once its location is known.
            (Store::Thin { .. } | Store::Volumes(_), IoOp::Read { .. } | IoOp::Write { .. }) => {
                self.access(io, take_buffer);
            }
            // The motion of a tape does not occupy the disks of the pool.
            (_, IoOp::Tape { .. }) => self.access(io, take_buffer),
            (Store::Thin { pool, .. }, IoOp::Flush) => {
                let stretches = self.pools[*pool].stretches();
                self.hold(io, Op::Flush, stretches);
            }
            (Store::Volumes(parts), IoOp::FlushPart { .. }) => {
                let stretches = self.pools[parts.pool()].stretches();
                self.hold(io, Op::Flush, stretches);
            }
            (_, IoOp::Unmap { ranges }) if !ranges.is_empty() => {
                let stretches = ranges.iter().map(|range| lu.stretch_of(range)).collect();
                self.hold(io, Op::Unmap, stretches);
            }
            _ => {
                let (work, stretch) = lu.drive_work(&io);
                if let Some(gate) = &mut self.context.gate {
                    let volume = lu.volume();
                    let held = Held::Io { io, volume };
                    gate.hold(now, held, work, std::iter::once(stretch));
                }
            }
        }
    }

    fn hold(&mut self, io: Io, op: Op, mut stretches: Vec<Stretch>) {
        if stretches.is_empty() {
            // A pool without groups costs the controller's time for a command.
            stretches.push(Stretch {
                group: 0,
                offset_bytes: 0,
                length_bytes: 0,
                unmapped: false,
            });
        }
        let volume = self.volume_of(io.lun);
        if let Some(gate) = &mut self.context.gate {
            let work = DriveWork {
                op,
                fua: false,
                received_bytes: None,
            };
            let held = Held::Io { io, volume };
            gate.hold(self.context.now, held, work, stretches.into_iter());
        }
    }

    /// Returns the pool and the volume of a thin LU.
    fn volume_of(&self, lun: u8) -> Option<(usize, VolumeId)> {
        self.lus[usize::from(lun)].as_ref().and_then(Lu::volume)
    }

    /// Drops what the modelled cache holds and the drives have. Nothing is held without a model.
    pub fn empty_cache(&mut self, now: Time) -> Emptied {
        let gate = self.context.gate.as_mut();
        gate.map(|gate| gate.empty_cache(now)).unwrap_or_default()
    }

    /// Cancels an access that waits in a pool for space or for a copy, or for the motion of a tape. Returns false if there is
    /// none.
    pub fn cancel(&mut self, now: Time, io: IoId) -> bool {
        self.context.now = now;
        if self.tapes.cancel(io) {
            let aborted = IoResult::Failed(IoFailure::Internal);
            self.context.done.push_back((io, aborted));
            return true;
        }
        let context = &mut self.context;
        self.pools.iter_mut().any(|pool| pool.cancel(io, context))
    }

    /// Starts a management request for a pool; [`Storage::poll_ordered`] returns its outcome under
    /// the same number.
    pub fn order(&mut self, now: Time, pool: usize, order: u64, request: PoolRequest) {
        self.context.now = now;
        self.pools[pool].order(order, request, &mut self.context);
    }

    /// Returns the next completed management request of a pool.
    pub fn poll_ordered(&mut self, pool: usize) -> Option<(u64, Result<Outcome, Failure>)> {
        self.pools[pool].poll_ordered()
    }

    /// Carries out accesses that the model has completed, and a step of the sweeps over memory.
    pub fn handle_timeout(&mut self, now: Time, take_buffer: TakeBuffer<'_>) {
        self.context.now = now;
        if let Some(gate) = &mut self.context.gate {
            gate.handle_timeout(now);
        }
        let mut budget = PASS_BYTES;
        self.passing = false;
        while let Some(held) = self.context.gate.as_mut().and_then(Gate::poll_passed) {
            match held {
                // The LU was withdrawn, and the access must not reach the volume that now has its
                // number.
                Held::Io { io, volume } if self.volume_of(io.lun) != volume => {
                    let withdrawn = IoResult::Failed(IoFailure::Internal);
                    self.context.done.push_back((io.id, withdrawn));
                }
                Held::Io { io, .. } => {
                    budget = budget.saturating_sub(work_bytes(&io.op));
                    self.access(io, take_buffer);
                }
                Held::PoolAccess { pool, access } => {
                    self.pools[pool].handle_access_passed(access, &mut self.context);
                }
                Held::PoolWork { pool, work } => {
                    self.pools[pool].handle_work_passed(work, &mut self.context);
                }
            }
            if budget == 0 {
                self.passing = true;
                break;
            }
        }
        while let Some(io) = self.tapes.poll_ended(now) {
            self.context.done.push_back((io, IoResult::Done));
        }
        for pool in &mut self.pools {
            pool.handle_timeout(&mut self.context);
        }
        self.step_sweeps();
    }

    /// Carries out up to [`STEP_BYTES`] of the sweeps, round-robin.
    fn step_sweeps(&mut self) {
        let mut budget = STEP_BYTES;
        for _ in 0..SWEEPS_PER_STEP.min(self.sweeps.len()) {
            let Some((lun, io, mut sweep)) = self.sweeps.pop_front() else {
                return;
            };
            let Some(memory) = self.memory_mut(lun) else {
                unreachable!("only LUs in memory have sweeps, and they are never detached");
            };
            if memory.step(&mut sweep, &mut budget) {
                self.context.done.push_back((io, IoResult::Done));
            } else {
                self.sweeps.push_back((lun, io, sweep));
            }
            if budget == 0 {
                return;
            }
        }
    }

    /// Returns when [`Storage::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.passing || !self.sweeps.is_empty() {
            return Some(Time::ZERO);
        }
        let gate = self.context.gate.as_ref().and_then(Gate::poll_timeout);
        let pools = self.pools.iter().filter_map(PoolStore::poll_timeout);
        let tapes = self.tapes.poll_timeout();
        gate.into_iter().chain(pools).chain(tapes).min()
    }

    /// Returns the next request to the shell.
    pub fn poll_request(&mut self) -> Option<Request> {
        self.context.requests.pop_front()
    }

    /// Returns the next completed access.
    pub fn poll_done(&mut self) -> Option<(IoId, IoResult)> {
        self.context.done.pop_front()
    }

    /// Returns the next event to report to the operator or to initiators.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.pools.iter_mut().find_map(PoolStore::poll_notice)
    }

    /// Handles a completed file request.
    pub fn handle_file_done(&mut self, now: Time, done: FileDone) {
        self.context.now = now;
        let context = &mut self.context;
        match context.take_purpose(done.id) {
            Purpose::File { lun, io } => {
                let result = file_store(&mut self.lus, lun).result(done);
                context.done.push_back((io, result));
            }
            Purpose::Part { lun, part, io } => {
                let result = part_store(&mut self.lus, lun).result(part, done);
                context.done.push_back((io, result));
            }
            Purpose::Sweep { lun, sweep } => {
                let file = file_store(&mut self.lus, lun);
                let result = file.handle_step(sweep, done, context, &mut self.file_sweeps);
                context.done.extend(result);
            }
            Purpose::PoolAccess { pool, access } => {
                self.pools[pool].handle_piece(access, done, context);
            }
            Purpose::PoolWork { pool, work } => {
                self.pools[pool].handle_work_step(work, done, context);
            }
        }
    }

    /// Handles a completed commit of a pool.
    pub fn handle_committed(&mut self, now: Time, committed: Committed) {
        self.context.now = now;
        self.pools[committed.pool].handle_committed(committed, &mut self.context);
    }

    /// Handles stored reservations: on stable storage if `ok`, otherwise failed.
    pub fn handle_kept(&mut self, io: IoId, ok: bool) {
        let result = if ok {
            IoResult::Done
        } else {
            IoResult::Failed(IoFailure::Internal)
        };
        self.context.done.push_back((io, result));
    }

    /// Takes back memory that was lent.
    pub fn take_back(&mut self, returned: Returned) {
        let (Returned::Read(lent) | Returned::Abandoned(lent)) = returned;
        if let Some(store) = self.memory_mut(lent.lun) {
            store.memory_mut().take_back(returned);
        }
    }

    /// Returns the memory of an LU in RAM.
    #[must_use]
    pub fn memory(&self, lun: u8) -> Option<&M> {
        match &self.lus[usize::from(lun)].as_ref()?.store {
            Store::Memory(store) => Some(store.memory()),
            _ => None,
        }
    }

    /// Returns an LU in RAM.
    pub fn memory_mut(&mut self, lun: u8) -> Option<&mut MemoryStore<M>> {
        match &mut self.lus[usize::from(lun)].as_mut()?.store {
            Store::Memory(store) => Some(store),
            _ => None,
        }
    }

    /// Carries out an access that the model has completed.
    fn access(&mut self, io: Io, take_buffer: TakeBuffer<'_>) {
        let context = &mut self.context;
        let id = io.id;
        let Some(lu) = &mut self.lus[usize::from(io.lun)] else {
            // The LU was withdrawn before the access was submitted.
            let withdrawn = IoResult::Failed(IoFailure::Internal);
            return context.done.push_back((id, withdrawn));
        };
        lu.unmaps += u64::from(matches!(io.op, IoOp::Unmap { .. }));
        if let IoOp::Tape { drive, motion } = io.op {
            return self.tapes.begin(context.now, io.id, drive, motion);
        }
        if let IoOp::Keep { record } = io.op {
            let (io, lun) = (io.id, io.lun);
            return context
                .requests
                .push_back(Request::Keep { io, lun, record });
        }
        let result = match &mut lu.store {
            Store::Memory(memory) => match memory.access(io.op, take_buffer) {
                Accessed::Now(result) => Some(result),
                Accessed::Sweep(sweep) => {
                    self.sweeps.push_back((io.lun, io.id, sweep));
                    None
                }
            },
            Store::File(file) => {
                let sweeps = &mut self.file_sweeps;
                file.access(io.lun, io.id, io.op, context, sweeps, take_buffer)
            }
            Store::Parts(parts) => parts.access(io.lun, io.id, io.op, context, take_buffer),
            Store::Thin { pool, volume } => {
                self.pools[*pool].access(*volume, io, context, take_buffer);
                None
            }
            Store::Volumes(parts) => match parts.locate(io.op) {
                // A pool takes no empty list.
                Some((_, IoOp::Unmap { ranges })) if ranges.is_empty() => Some(IoResult::Done),
                Some((volume, op)) => {
                    let io = Io { op, ..io };
                    self.pools[parts.pool()].access(volume, io, context, take_buffer);
                    None
                }
                None => Some(IoResult::Failed(IoFailure::Internal)),
            },
        };
        context.done.extend(result.map(|result| (id, result)));
    }
}

fn file_store<M>(lus: &mut [Option<Lu<M>>], lun: u8) -> &mut FileStore {
    match &mut lus[usize::from(lun)] {
        Some(Lu {
            store: Store::File(file),
            ..
        }) => file,
        _ => unreachable!("only LUs in files have file requests, and they are never detached"),
    }
}

fn part_store<M>(lus: &mut [Option<Lu<M>>], lun: u8) -> &mut PartStore {
    match &mut lus[usize::from(lun)] {
        Some(Lu {
            store: Store::Parts(parts),
            ..
        }) => parts,
        _ => unreachable!("only LUs in parts have their requests, and they are never detached"),
    }
}
