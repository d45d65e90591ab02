//! Behind the target: the array model that says when an access is over, and the LUs' bytes.
use std::collections::{BTreeMap, VecDeque};

use hakaru_contract::drive::ArrayModel;
use hakaru_drive::{Array, ModelError, Op, Request};
use hakaru_iscsi_target::{Extent, Io, IoId, IoOp, IoResult, LuDescription};
use hakaru_units::Time;

use crate::config::{LuSetup, WorldConfig};

/// Bytes that are kept together.
const CHUNK_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) model: Option<Array>,
    /// Accesses that the model holds, by [`IoId::index`].
    held: Vec<Option<Io>>,
    lus: Vec<LuSetup>,
    volatile_cache: bool,
    bytes: Option<Bytes>,
    done: VecDeque<(IoId, IoResult)>,
}

impl Storage {
    pub(crate) fn new(config: &WorldConfig) -> Result<Storage, ModelError> {
        Ok(Storage {
            model: config
                .model
                .as_ref()
                .map(|model| Array::new(model, config.seed))
                .transpose()?,
            held: Vec::new(),
            lus: config.lus.clone(),
            volatile_cache: config
                .model
                .as_ref()
                .is_some_and(ArrayModel::has_volatile_write_cache),
            bytes: config.verify_run.map(|_| Bytes::default()),
            done: VecDeque::new(),
        })
    }

    /// The LU that does not fit the group it is placed on, if there is one.
    pub(crate) fn misplaced(&self) -> Option<LuSetup> {
        let model = self.model.as_ref()?;
        let fits = |lu: &&LuSetup| {
            let end = lu.group_offset_bytes.checked_add(lu.size_bytes);
            end.is_some_and(|end| {
                model
                    .group_capacity_bytes(lu.group)
                    .is_some_and(|capacity| end <= capacity)
            })
        };
        self.lus.iter().find(|lu| !fits(lu)).copied()
    }

    pub(crate) fn descriptions(&self) -> Vec<LuDescription> {
        let describe = |lu: &LuSetup| LuDescription {
            block_bytes: lu.block_bytes,
            write_cache: self.volatile_cache,
            ..LuDescription::new(lu.lun, lu.size_bytes)
        };
        self.lus.iter().map(describe).collect()
    }

    /// Takes an access; it is over when [`Storage::poll_done`] gives it.
    pub(crate) fn submit(&mut self, now: Time, io: Io) {
        let Some(model) = &mut self.model else {
            return self.access(io);
        };
        let lu = self
            .lus
            .iter()
            .find(|lu| lu.lun == io.lun)
            .expect("the target knows only these LUs");
        let (op, offset_bytes, length_bytes, fua) = match &io.op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => (Op::Read, *offset_bytes, u64::from(*length_bytes), false),
            IoOp::Write {
                offset_bytes,
                data,
                fua,
            } => (Op::Write, *offset_bytes, data.len() as u64, *fua),
            IoOp::Flush => (Op::Flush, 0, lu.size_bytes, false),
            // Costs the controller a command.
            _ => (Op::Flush, 0, 0, false),
        };
        let slot = io.id.index();
        let offset_bytes = lu.group_offset_bytes + offset_bytes;
        let request = Request {
            id: slot as u64,
            group: lu.group,
            op,
            offset_bytes,
            length_bytes,
            fua,
        };
        if self.held.len() <= slot {
            self.held.resize_with(slot + 1, || None);
        }
        self.held[slot] = Some(io);
        model.handle_request(now, request);
    }

    /// The model is called.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let Some(model) = &mut self.model else { return };
        model.handle_timeout(now);
        while let Some(completion) = model.poll_completion() {
            let io = self.held[completion.id as usize]
                .take()
                .expect("the model completes what it was given, once");
            match &mut self.bytes {
                None => self.done.push_back(answer(io, |_, _, _| {})),
                Some(bytes) => self.done.push_back(bytes.access(io)),
            }
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.model.as_ref().and_then(Array::poll_timeout)
    }

    pub(crate) fn poll_done(&mut self) -> Option<(IoId, IoResult)> {
        self.done.pop_front()
    }

    /// Copies what an LU holds, for what the target sends in place.
    pub(crate) fn read(&self, lun: u8, offset: u64, out: &mut [u8]) {
        match &self.bytes {
            Some(bytes) => bytes.read(lun, offset, out),
            None => out.fill(0),
        }
    }

    fn access(&mut self, io: Io) {
        let done = match &mut self.bytes {
            Some(bytes) => bytes.access(io),
            None => answer(io, |_, _, _| {}),
        };
        self.done.push_back(done);
    }
}

/// The answer to an access, `write` having seen what was written.
fn answer(io: Io, mut write: impl FnMut(u8, u64, &[u8])) -> (IoId, IoResult) {
    let result = match io.op {
        IoOp::Read { in_place: true, .. } => IoResult::ReadInPlace,
        IoOp::Read { length_bytes, .. } => IoResult::ReadData(vec![0; length_bytes as usize]),
        IoOp::Write {
            offset_bytes, data, ..
        } => {
            write(io.lun, offset_bytes, &data);
            IoResult::Written(data)
        }
        IoOp::Flush => IoResult::Flushed,
        IoOp::Unmap { ranges } => {
            for range in ranges {
                fill(io.lun, range, &[0; 512], &mut write);
            }
            IoResult::Done
        }
        IoOp::WriteSame { range, block, .. } => {
            fill(io.lun, range, &block, &mut write);
            IoResult::Done
        }
        IoOp::Status { range, .. } => IoResult::Provisioned(vec![(range, true)]),
        // Nothing outlives the world.
        IoOp::Keep { .. } => IoResult::Done,
    };
    (io.id, result)
}

/// Writes a block over and over.
fn fill(lun: u8, range: Extent, block: &[u8], write: &mut impl FnMut(u8, u64, &[u8])) {
    let mut offset = range.offset_bytes;
    while offset < range.offset_bytes + range.length_bytes {
        write(lun, offset, block);
        offset += block.len() as u64;
    }
}

/// What was written to any LU; the rest reads as zeros.
#[derive(Debug, Default)]
struct Bytes(BTreeMap<(u8, u64), Box<[u8]>>);

impl Bytes {
    fn access(&mut self, io: Io) -> (IoId, IoResult) {
        let read = match io.op {
            IoOp::Read {
                offset_bytes,
                in_place: false,
                ..
            } => Some((io.lun, offset_bytes)),
            _ => None,
        };
        let (id, mut result) = answer(io, |lun, offset, data| self.write(lun, offset, data));
        if let (Some((lun, offset)), IoResult::ReadData(out)) = (read, &mut result) {
            self.read(lun, offset, out);
        }
        (id, result)
    }

    fn read(&self, lun: u8, offset: u64, out: &mut [u8]) {
        for (chunk, at, part) in chunks(offset, out.len()) {
            match self.0.get(&(lun, chunk)) {
                Some(bytes) => out[part.clone()].copy_from_slice(&bytes[at..at + part.len()]),
                None => out[part].fill(0),
            }
        }
    }

    fn write(&mut self, lun: u8, offset: u64, data: &[u8]) {
        for (chunk, at, part) in chunks(offset, data.len()) {
            let bytes = self
                .0
                .entry((lun, chunk))
                .or_insert_with(|| vec![0; CHUNK_BYTES as usize].into());
            bytes[at..at + part.len()].copy_from_slice(&data[part]);
        }
    }
}

/// The chunks that a range touches: number, where in the chunk, which part of the range.
fn chunks(
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % CHUNK_BYTES) as usize;
        let part = done..length.min(done + CHUNK_BYTES as usize - within);
        done = part.end;
        Some((at / CHUNK_BYTES, within, part))
    })
}
