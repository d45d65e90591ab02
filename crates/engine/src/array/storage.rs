//! What is behind the LUs: their bytes, and the model that says when an access is over.
//!
//! An access passes two stations, in this order: the model holds it until its modelled instant (model `none` does not hold
//! it at all), then the store does it. Memory does it at once; a file may answer later. A finished access comes out of
//! [`Storage::poll_done`].
use std::collections::VecDeque;

use hakaru_drive::{Array, Op, Request};
use hakaru_runtime::memory::SparseMemory;
use hakaru_target::{Io, IoId, IoOp, IoResult, Target};
use hakaru_units::Time;

/// LUs by number, and the accesses under way.
pub struct Storage {
    /// Indexed by LUN.
    lus: Vec<Option<Lu>>,
    model: Option<Array>,
    /// Accesses that the model holds, by [`IoId::index`].
    held: Vec<Option<Io>>,
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
}

/// Where an LU's bytes are.
pub enum Store {
    /// In RAM.
    Memory(SparseMemory),
}

impl Storage {
    /// `lus` with their numbers; `model` is `None` for "as fast as the machine".
    pub fn new(lus: Vec<(u8, Lu)>, model: Option<Array>) -> Storage {
        let mut by_number: Vec<Option<Lu>> = (0..256).map(|_| None).collect();
        for (lun, lu) in lus {
            by_number[usize::from(lun)] = Some(lu);
        }
        Storage {
            lus: by_number,
            model,
            held: Vec::new(),
            done: VecDeque::new(),
        }
    }

    /// Takes an access. What it comes to is told by [`Storage::poll_done`], often at once.
    pub fn submit(&mut self, now: Time, io: Io, target: &mut Target) {
        let Some(model) = &mut self.model else {
            return self.access(io, target);
        };
        let (op, offset, length) = match &io.op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => (Op::Read, *offset_bytes, u64::from(*length_bytes)),
            IoOp::Write {
                offset_bytes, data, ..
            } => (Op::Write, *offset_bytes, data.len() as u64),
            // Costs the controller a command; the modelled array has no volatile cache to flush.
            IoOp::Flush => (Op::Write, 0, 0),
        };
        let lu = self.lus[usize::from(io.lun)]
            .as_ref()
            .expect("the target knows only our LUs");
        let index = io.id.index();
        model.handle_request(
            now,
            Request {
                id: index as u64,
                group: lu.group,
                op,
                offset_bytes: lu.group_offset_bytes + offset,
                length_bytes: length,
            },
        );
        if self.held.len() <= index {
            self.held.resize_with(index + 1, || None);
        }
        self.held[index] = Some(io);
    }

    /// Lets pass what the model holds until `now`.
    pub fn handle_timeout(&mut self, now: Time, target: &mut Target) {
        let Some(model) = &mut self.model else { return };
        model.handle_timeout(now);
        while let Some(completion) = self.model.as_mut().and_then(Array::poll_completion) {
            let io = self.held[completion.id as usize]
                .take()
                .expect("what completes was held");
            self.access(io, target);
        }
    }

    /// When [`Storage::handle_timeout`] is wanted next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.model.as_ref().and_then(Array::poll_timeout)
    }

    /// The next finished access.
    pub fn poll_done(&mut self) -> Option<(IoId, IoResult)> {
        self.done.pop_front()
    }

    /// Whole LU `lun`'s memory range, for a socket to send from.
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

    /// Gives each of the model's counters; see [`Array::visit_counters`].
    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        if let Some(model) = &mut self.model {
            model.visit_counters(now, visit);
        }
    }

    /// Does it. `target` lends buffers for what is not read in place.
    fn access(&mut self, io: Io, target: &mut Target) {
        let lu = self.lus[usize::from(io.lun)]
            .as_mut()
            .expect("the target knows only our LUs");
        match &mut lu.store {
            Store::Memory(memory) => {
                let result = access_memory(memory, io.op, target);
                self.done.push_back((io.id, result));
            }
        }
    }
}

fn access_memory(memory: &mut SparseMemory, op: IoOp, target: &mut Target) -> IoResult {
    match op {
        IoOp::Read { in_place: true, .. } => IoResult::ReadInPlace,
        IoOp::Read {
            offset_bytes,
            length_bytes,
            in_place: false,
        } => {
            let mut buffer = target.take_buffer(length_bytes as usize);
            buffer.extend_from_slice(memory.bytes(offset_bytes, length_bytes as usize));
            IoResult::ReadData(buffer)
        }
        IoOp::Write {
            offset_bytes, data, ..
        } => {
            memory.write(offset_bytes, &data);
            IoResult::Written(data)
        }
        IoOp::Flush => IoResult::Flushed,
    }
}
