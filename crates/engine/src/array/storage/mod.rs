//! What is behind the LUs: their bytes, and the model that says when an access is over.
//!
//! An access passes two stations, in this order: the model holds it until its modelled instant (model `none` does not hold
//! it at all), then the LU's store does it. Memory does it at once; a file may answer later. A finished access comes out of
//! [`Storage::poll_done`].
//!
//! | file | what it is |
//! |---|---|
//! | `memory.rs` | an LU in RAM |
//! | `file.rs` | an LU in a file or on a block device |
//! | `files.rs` | requests to files under way, and what each is for |
//! | `gate.rs` | the timing model in front |
//! | `keeper.rs` | what outlives a restart beside the data: reservations |
mod file;
mod files;
mod gate;
mod keeper;
mod memory;
mod slab;

use std::collections::VecDeque;

use hakaru_drive::{Array, Op};
use hakaru_runtime::file::{FileQueue, IoBuffer};
use hakaru_target::{Extent, Io, IoFailure, IoId, IoOp, IoResult, Target};
use hakaru_units::Time;

pub use self::file::FileStore;
pub use self::files::OpenFile;
pub use self::keeper::{Keeper, kept};
pub use self::memory::{GRANULE_BYTES, MemoryStore};

use self::file::FileSweep;
use self::files::Files;
use self::gate::{Gate, Stretch, Work};
use self::memory::{Accessed, Sweep};
use self::slab::Slab;

/// LUs by number, and the accesses under way.
pub struct Storage {
    /// Indexed by LUN.
    lus: Vec<Option<Lu>>,
    gate: Option<Gate<Io>>,
    /// Present if an LU is in a file.
    files: Option<Files<Purpose>>,
    file_sweeps: Slab<FileSweep>,
    /// Accesses to memory that go on in steps, each with its LU; they take turns.
    sweeps: VecDeque<(u8, IoId, Sweep)>,
    keeper: Option<Keeper>,
    done: VecDeque<(IoId, IoResult)>,
}

/// A logical unit's bytes and their place on the modelled drives.
pub struct Lu {
    /// The bytes.
    pub store: Store,
    /// RAID group; meaningless without a model.
    pub group: u32,
    /// First byte of the group that is the LU's.
    pub group_offset_bytes: u64,
    /// Capacity.
    pub size_bytes: u64,
    /// UNMAP commands that came this far.
    unmaps: u64,
}

/// Where an LU's bytes are.
pub enum Store {
    /// In RAM.
    Memory(MemoryStore),
    /// In a file.
    File(FileStore),
}

/// What a request to a file is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// An access to an LU in a file.
    File {
        /// Which LU.
        lun: u8,
        /// Which access.
        io: IoId,
    },
    /// A step of a sweep over an LU in a file.
    Sweep {
        /// Which LU.
        lun: u8,
        /// Which sweep.
        sweep: u64,
    },
}

impl Lu {
    /// With its capacity and its place on the modelled drives: RAID group and first byte.
    pub fn new(store: Store, size_bytes: u64, (group, group_offset_bytes): (u32, u64)) -> Lu {
        Lu {
            store,
            group,
            group_offset_bytes,
            size_bytes,
            unmaps: 0,
        }
    }

    /// What an access does to the modelled drives, and where.
    fn stretch(&self, op: &IoOp) -> (Work, Stretch) {
        let (op, fua, offset_bytes, length_bytes) = match op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => (Op::Read, false, *offset_bytes, u64::from(*length_bytes)),
            IoOp::Write {
                offset_bytes,
                data,
                fua,
            } => (Op::Write, *fua, *offset_bytes, data.len() as u64),
            // The drives write as much as if the blocks had come over the wire.
            IoOp::WriteSame {
                range,
                unmap: false,
                fua,
                ..
            } => (Op::Write, *fua, range.offset_bytes, range.length_bytes),
            IoOp::WriteSame { range, .. } => {
                (Op::Unmap, false, range.offset_bytes, range.length_bytes)
            }
            IoOp::Flush => (Op::Flush, false, 0, self.size_bytes),
            // Costs the controller a command.
            _ => (Op::Flush, false, 0, 0),
        };
        let stretch = Stretch {
            group: self.group,
            offset_bytes: self.group_offset_bytes + offset_bytes,
            length_bytes,
        };
        (Work { op, fua }, stretch)
    }
}

impl Storage {
    /// `lus` with their numbers; `model` is `None` for "as fast as the machine"; `files` is needed if an LU is in a file.
    pub fn new(
        lus: Vec<(u8, Lu)>,
        model: Option<Array>,
        files: Option<FileQueue<IoBuffer>>,
        keeper: Option<Keeper>,
    ) -> Storage {
        let mut by_number: Vec<Option<Lu>> = (0..256).map(|_| None).collect();
        for (lun, lu) in lus {
            by_number[usize::from(lun)] = Some(lu);
        }
        Storage {
            lus: by_number,
            gate: model.map(Gate::new),
            files: files.map(Files::new),
            file_sweeps: Slab::default(),
            sweeps: VecDeque::new(),
            keeper,
            done: VecDeque::new(),
        }
    }

    /// Takes an access. What it comes to is told by [`Storage::poll_done`], often at once.
    pub fn submit(&mut self, now: Time, io: Io, target: &mut Target) {
        let Some(gate) = &mut self.gate else {
            return self.access(io, target);
        };
        let lu = lu(&mut self.lus, io.lun);
        if let IoOp::Unmap { ranges } = &io.op
            && !ranges.is_empty()
        {
            let place = |range: &Extent| Stretch {
                group: lu.group,
                offset_bytes: lu.group_offset_bytes + range.offset_bytes,
                length_bytes: range.length_bytes,
            };
            let stretches: Vec<Stretch> = ranges.iter().map(place).collect();
            let (op, fua) = (Op::Unmap, false);
            return gate.hold(now, io, Work { op, fua }, stretches.into_iter());
        }
        let (work, stretch) = lu.stretch(&io.op);
        gate.hold(now, io, work, std::iter::once(stretch));
    }

    /// Lets pass what the model holds until `now`, and takes a step of what goes on in steps.
    pub fn handle_timeout(&mut self, now: Time, target: &mut Target) {
        if let Some(gate) = &mut self.gate {
            gate.handle_timeout(now);
        }
        while let Some(io) = self.gate.as_mut().and_then(Gate::poll_passed) {
            self.access(io, target);
        }
        if let Some((lun, io, mut sweep)) = self.sweeps.pop_front() {
            let Store::Memory(memory) = &mut lu(&mut self.lus, lun).store else {
                unreachable!("only memory is swept here");
            };
            if memory.step(&mut sweep) {
                self.done.push_back((io, IoResult::Done));
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
        self.gate.as_ref().and_then(Gate::poll_timeout)
    }

    /// The next finished access.
    pub fn poll_done(&mut self) -> Option<(IoId, IoResult)> {
        self.done.pop_front()
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

    /// How files are read and written: `io_uring`, `threads`, or `memory` if no LU is in one.
    pub fn io_backend(&self) -> &'static str {
        self.files.as_ref().map_or("memory", Files::backend)
    }

    /// Gives each counter of the LUs' bytes, and the model's; see [`Array::visit_counters`].
    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        for (lun, lu) in self.lus.iter().enumerate() {
            let Some(lu) = lu else { continue };
            let entity = format!("lu/{lun}");
            visit(&entity, "unmaps", lu.unmaps as f64);
            let mapped = match &lu.store {
                Store::Memory(memory) => Some(memory.mapped_bytes()),
                Store::File(file) => file.mapped_bytes(),
            };
            if let Some(mapped) = mapped {
                visit(&entity, "mapped_bytes_now", mapped as f64);
            }
        }
        if let Some(gate) = &mut self.gate {
            gate.visit_counters(now, visit);
        }
    }

    /// Does it. `target` lends buffers for what is not read in place.
    fn access(&mut self, io: Io, target: &mut Target) {
        let lu = lu(&mut self.lus, io.lun);
        lu.unmaps += u64::from(matches!(io.op, IoOp::Unmap { .. }));
        let op = match (io.op, &mut self.keeper) {
            (IoOp::Keep { record }, Some(keeper)) => return keeper.keep(io.id, io.lun, record),
            (op, _) => op,
        };
        let ended = match &mut lu.store {
            Store::Memory(memory) => match memory.access(op, target) {
                Accessed::Now(result) => Some(result),
                Accessed::Sweep(sweep) => {
                    self.sweeps.push_back((io.lun, io.id, sweep));
                    None
                }
            },
            Store::File(file) => {
                let files = self
                    .files
                    .as_mut()
                    .expect("there is a queue if an LU is in a file");
                file.access((io.lun, io.id), op, files, &mut self.file_sweeps, target)
            }
        };
        if let Some(result) = ended {
            self.done.push_back((io.id, result));
        }
    }

    /// Lets what was submitted to files begin: once per turn, for all of it.
    pub fn flush_files(&mut self) {
        if let Some(files) = &mut self.files {
            files.flush();
        }
        self.take_file_completions();
    }

    /// The reactor told of the files' token.
    pub fn handle_file_event(&mut self) {
        if let Some(files) = &mut self.files {
            files.handle_event();
        }
        self.take_file_completions();
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
            self.done.push_back((io, result));
        }
    }

    fn take_file_completions(&mut self) {
        let Some(files) = &mut self.files else { return };
        while let Some(finished) = files.poll_finished() {
            let purpose = finished.purpose;
            let (Purpose::File { lun, .. } | Purpose::Sweep { lun, .. }) = purpose;
            let Store::File(file) = &mut lu(&mut self.lus, lun).store else {
                unreachable!("only files have requests to files");
            };
            let ended = match purpose {
                Purpose::File { io, .. } => Some((io, file.result(finished))),
                Purpose::Sweep { sweep, .. } => {
                    file.step_ended(sweep, finished, files, &mut self.file_sweeps)
                }
            };
            self.done.extend(ended);
        }
    }
}

fn lu(lus: &mut [Option<Lu>], lun: u8) -> &mut Lu {
    lus[usize::from(lun)]
        .as_mut()
        .expect("the target knows only our LUs")
}
