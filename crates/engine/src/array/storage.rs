//! What is behind the LUs: their bytes, and the model that says when an access is over.
//!
//! An access passes two stations, in this order: the model holds it until its modelled instant (model `none` does not hold
//! it at all), then the store does it. Memory does it at once; a file may answer later. A finished access comes out of
//! [`Storage::poll_done`].
use std::collections::VecDeque;
use std::io::ErrorKind;

use hakaru_drive::{Array, Op, Request};
use hakaru_runtime::file::{FileDone, FileHandle, FileOp, FileQueue, FileRequest};
use hakaru_runtime::memory::SparseMemory;
use hakaru_target::{Extent, Io, IoFailure, IoId, IoOp, IoResult, Target};
use hakaru_units::Time;

/// LUs by number, and the accesses under way.
pub struct Storage {
    /// Indexed by LUN.
    lus: Vec<Option<Lu>>,
    model: Option<Array>,
    /// Accesses that the model holds, by [`IoId::index`].
    held: Vec<Option<Io>>,
    /// Present if an LU is in a file.
    files: Option<FileQueue<Vec<u8>>>,
    /// Accesses that the files hold, by [`IoId::index`].
    in_files: Vec<Option<IoId>>,
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
}

/// Where an LU's bytes are.
pub enum Store {
    /// In RAM.
    Memory(SparseMemory),
    /// In a file, through the page cache.
    File(FileHandle),
}

impl Storage {
    /// `lus` with their numbers; `model` is `None` for "as fast as the machine"; `files` is needed if an LU is in a file.
    pub fn new(
        lus: Vec<(u8, Lu)>,
        model: Option<Array>,
        files: Option<FileQueue<Vec<u8>>>,
    ) -> Storage {
        let mut by_number: Vec<Option<Lu>> = (0..256).map(|_| None).collect();
        for (lun, lu) in lus {
            by_number[usize::from(lun)] = Some(lu);
        }
        Storage {
            lus: by_number,
            model,
            held: Vec::new(),
            files,
            in_files: Vec::new(),
            done: VecDeque::new(),
        }
    }

    /// Takes an access. What it comes to is told by [`Storage::poll_done`], often at once.
    pub fn submit(&mut self, now: Time, io: Io, target: &mut Target) {
        let Some(model) = &mut self.model else {
            return self.access(io, target);
        };
        let lu = self.lus[usize::from(io.lun)]
            .as_ref()
            .expect("the target knows only our LUs");
        let (op, offset, length, fua) = match &io.op {
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
        let index = io.id.index();
        model.handle_request(
            now,
            Request {
                id: index as u64,
                group: lu.group,
                op,
                offset_bytes: lu.group_offset_bytes + offset,
                length_bytes: length,
                fua,
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

    /// How files are read and written: `io_uring`, `threads`, or `memory` if no LU is in one.
    pub fn io_backend(&self) -> &'static str {
        self.files.as_ref().map_or("memory", FileQueue::backend)
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
            Store::File(file) => match try_file_at_once(file, io.op, target) {
                Ok(result) => self.done.push_back((io.id, result)),
                Err((op, offset_bytes, buffer)) => {
                    let request = FileRequest {
                        id: io.id.index() as u64,
                        file: file.clone(),
                        op,
                        offset_bytes,
                        buffer,
                    };
                    self.submit_to_file(io.id, request);
                }
            },
        }
    }

    fn submit_to_file(&mut self, id: IoId, request: FileRequest<Vec<u8>>) {
        let files = self
            .files
            .as_mut()
            .expect("there is a queue if an LU is in a file");
        if self.in_files.len() <= id.index() {
            self.in_files.resize(id.index() + 1, None);
        }
        self.in_files[id.index()] = Some(id);
        files.submit(request);
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

    fn take_file_completions(&mut self) {
        while let Some(done) = self.files.as_mut().and_then(FileQueue::poll_done) {
            let id = self.in_files[done.id as usize]
                .take()
                .expect("what a file completes was submitted");
            self.done.push_back((id, file_result(done)));
        }
    }
}

/// What is in the page cache is read, and what fits it is written, without waiting. `Err` is what the slow way needs.
fn try_file_at_once(
    file: &FileHandle,
    op: IoOp,
    target: &mut Target,
) -> Result<IoResult, (FileOp, u64, Vec<u8>)> {
    match op {
        IoOp::Read {
            offset_bytes,
            length_bytes,
            ..
        } => {
            let mut buffer = target.take_buffer(length_bytes as usize);
            buffer.resize(length_bytes as usize, 0);
            if file.read_at_once(offset_bytes, &mut buffer) {
                Ok(IoResult::ReadData(buffer))
            } else {
                Err((FileOp::Read, offset_bytes, buffer))
            }
        }
        IoOp::Write {
            offset_bytes,
            data,
            fua,
        } => {
            if !fua && file.write_at_once(offset_bytes, &data) {
                Ok(IoResult::Written(data))
            } else {
                Err((FileOp::Write { durable: fua }, offset_bytes, data))
            }
        }
        IoOp::Flush => Err((FileOp::Sync, 0, Vec::new())),
        _ => Ok(IoResult::Failed(IoFailure::Internal)),
    }
}

fn file_result(done: FileDone<Vec<u8>>) -> IoResult {
    match (done.op, done.result) {
        (FileOp::Read, Ok(())) => IoResult::ReadData(done.buffer),
        (FileOp::Write { .. }, Ok(())) => IoResult::Written(done.buffer),
        (FileOp::Sync, Ok(())) => IoResult::Flushed,
        (FileOp::Read, Err(_)) => IoResult::Failed(IoFailure::Read),
        (_, Err(e)) if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            IoResult::Failed(IoFailure::Space)
        }
        (_, Err(_)) => IoResult::Failed(IoFailure::Write),
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
        IoOp::Keep { .. } => IoResult::Failed(IoFailure::Internal),
        IoOp::Unmap { ranges } => {
            for range in ranges {
                fill(memory, range, &[0; 4096]);
            }
            IoResult::Done
        }
        IoOp::WriteSame { range, block, .. } => {
            fill(memory, range, &block);
            IoResult::Done
        }
        IoOp::Status { range, .. } => IoResult::Provisioned(vec![(range, true)]),
    }
}

/// Writes `block` over and over.
fn fill(memory: &mut SparseMemory, range: Extent, block: &[u8]) {
    let mut at = range.offset_bytes;
    let end = at + range.length_bytes;
    while at < end {
        let length = block.len().min((end - at) as usize);
        memory.write(at, &block[..length]);
        at += length as u64;
    }
}
