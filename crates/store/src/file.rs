//! An LU in a file or on a block device.
//!
//! A read, write or flush is one request. UNMAP and WRITE SAME are a [`FileSweep`]: a sequence of
//! requests, so that an LU of many TiB can be deallocated while other accesses proceed.
use std::io::{self, ErrorKind};

use hakaru_scsi_device::{Extent, IoFailure, IoId, IoOp, IoResult};
use slab::Slab;

use crate::context::{Purpose, StoreContext, Transfer};
use crate::request::{FileDone, FileId, FileOp};

/// Maximum bytes deallocated by one request. The file system blocks other writers of the file
/// meanwhile (about a millisecond on ext4).
const PUNCH_BYTES: u64 = 256 << 20;
/// Maximum bytes written by one request of a sweep.
const WRITE_BYTES: u64 = 256 << 10;

/// The file of an LU.
#[derive(Debug)]
pub struct FileStore {
    file: FileId,
    /// Whether a write was lost. It is unknown which, so further writes are refused, because they
    /// would hide the loss.
    failed: bool,
}

/// An access that consists of many requests.
#[derive(Debug)]
pub(crate) struct FileSweep {
    io: IoId,
    lun: u8,
    /// Remaining ranges, the next one last.
    ranges: Vec<Extent>,
    method: SweepMethod,
    fua: bool,
    /// Bytes that the request in flight covers; 0 for the final flush.
    step_bytes: u64,
}

#[derive(Debug)]
enum SweepMethod {
    /// Deallocates the allocated extents.
    Punch,
    /// Zeroes the ranges.
    Zero,
    /// Writes whole blocks.
    Write(Vec<u8>),
}

impl FileStore {
    /// Creates the store of an LU in a file that the shell has open.
    #[must_use]
    pub fn new(file: FileId) -> FileStore {
        FileStore {
            file,
            failed: false,
        }
    }

    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Starts an access. Returns its result if it completed at once.
    pub(crate) fn access(
        &mut self,
        lun: u8,
        io: IoId,
        op: IoOp,
        context: &mut StoreContext,
        sweeps: &mut Slab<FileSweep>,
        take_buffer: &mut dyn FnMut(usize) -> Vec<u8>,
    ) -> Option<IoResult> {
        let writes = !matches!(op, IoOp::Read { .. } | IoOp::Status { .. });
        if self.failed && writes {
            return Some(IoResult::Failed(IoFailure::Protected));
        }
        let op = self.request(Purpose::File { lun, io }, op, context, take_buffer)?;
        match op {
            IoOp::Unmap { ranges } => {
                let sweep = FileSweep::new(lun, io, ranges, SweepMethod::Punch);
                self.begin_sweep(sweep, context, sweeps)
            }
            IoOp::WriteSame {
                range,
                block,
                unmap,
                fua,
            } => {
                let method = SweepMethod::of_write_same(&block, range.length_bytes, unmap);
                let mut sweep = FileSweep::new(lun, io, vec![range], method);
                sweep.fua = fua;
                self.begin_sweep(sweep, context, sweeps)
            }
            _ => Some(IoResult::Failed(IoFailure::Internal)),
        }
    }

    /// Whether writes are refused, because one was lost.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Requests an access that is a single request. Returns any other one.
    pub(crate) fn request(
        &self,
        purpose: Purpose,
        op: IoOp,
        context: &mut StoreContext,
        take_buffer: &mut dyn FnMut(usize) -> Vec<u8>,
    ) -> Option<IoOp> {
        match op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => {
                let mut bytes = take_buffer(length_bytes as usize);
                bytes.resize(length_bytes as usize, 0);
                let transfer = self.transfer(FileOp::Read, offset_bytes, bytes);
                context.transfer(transfer, purpose);
            }
            IoOp::Write {
                offset_bytes,
                data,
                fua,
            } => {
                let transfer = self.transfer(FileOp::Write { durable: fua }, offset_bytes, data);
                context.transfer(transfer, purpose);
            }
            IoOp::Flush | IoOp::FlushPart { .. } => {
                context.command(self.file, FileOp::Sync, 0, purpose);
            }
            IoOp::Status { range, extents_max } => {
                let op = FileOp::Extents {
                    length_bytes: range.length_bytes,
                    extents_max,
                };
                context.command(self.file, op, range.offset_bytes, purpose);
            }
            other => return Some(other),
        }
        None
    }

    /// Returns the result of a completed access that was a single request.
    pub(crate) fn result(&mut self, done: FileDone) -> IoResult {
        match (done.op, done.result) {
            (FileOp::Read, Ok(())) => IoResult::ReadData(done.bytes),
            (FileOp::Read, Err(_)) => IoResult::Failed(IoFailure::Read),
            (FileOp::Extents { .. }, Ok(())) => IoResult::Provisioned(done.extents),
            (FileOp::Extents { .. }, Err(_)) => IoResult::Failed(IoFailure::Internal),
            (FileOp::Sync, Ok(())) => IoResult::Flushed,
            (_, Ok(())) => IoResult::Written(done.bytes),
            (op, Err(error)) => self.write_failed(op, &error),
        }
    }

    fn transfer(&self, op: FileOp, offset_bytes: u64, bytes: Vec<u8>) -> Transfer {
        Transfer {
            file: self.file,
            op,
            offset_bytes,
            range: 0..bytes.len(),
            bytes,
            at_once: true,
        }
    }

    /// Returns the result of a failed write or sync. A failed non-durable write leaves old or new
    /// data, so the LU stays usable. After a failed sync the kernel discards the pages that it
    /// could not write, and the next sync would succeed.
    fn write_failed(&mut self, op: FileOp, error: &io::Error) -> IoResult {
        let no_space = matches!(
            error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        );
        let synced = matches!(op, FileOp::Sync | FileOp::Write { durable: true });
        self.failed |= synced && (op == FileOp::Sync || !no_space);
        IoResult::Failed(if no_space {
            IoFailure::Space
        } else {
            IoFailure::Write
        })
    }

    fn begin_sweep(
        &mut self,
        sweep: FileSweep,
        context: &mut StoreContext,
        sweeps: &mut Slab<FileSweep>,
    ) -> Option<IoResult> {
        let id = sweeps.insert(sweep);
        self.next_step(id, context, sweeps)
            .map(|(_, result)| result)
    }

    /// Handles a completed request of a sweep. Returns the sweep's result if it was the last.
    pub(crate) fn handle_step(
        &mut self,
        id: usize,
        done: FileDone,
        context: &mut StoreContext,
        sweeps: &mut Slab<FileSweep>,
    ) -> Option<(IoId, IoResult)> {
        let sweep = &mut sweeps[id];
        if let SweepMethod::Write(bytes) = &mut sweep.method {
            *bytes = done.bytes;
        }
        match (done.op, done.result) {
            (FileOp::Extents { .. }, result) => {
                let hole = done.extents.first().filter(|(_, mapped)| !mapped);
                match hole {
                    Some((extent, _)) if result.is_ok() => sweep.advance(extent.length_bytes),
                    _ => {
                        self.punch(id, context, sweeps);
                        return None;
                    }
                }
            }
            (FileOp::Sync, Ok(())) => return Some((sweeps.remove(id).io, IoResult::Done)),
            (_, Ok(())) => sweep.advance(sweep.step_bytes),
            (FileOp::Punch { .. } | FileOp::Zero { .. }, Err(error))
                if error.kind() == ErrorKind::Unsupported =>
            {
                sweep.method = SweepMethod::Write(vec![0; WRITE_BYTES as usize]);
            }
            (op, Err(error)) => {
                let io = sweeps.remove(id).io;
                return Some((io, self.write_failed(op, &error)));
            }
        }
        self.next_step(id, context, sweeps)
    }

    /// Requests the next step. Returns the sweep's result if nothing is left.
    fn next_step(
        &mut self,
        id: usize,
        context: &mut StoreContext,
        sweeps: &mut Slab<FileSweep>,
    ) -> Option<(IoId, IoResult)> {
        let sweep = &mut sweeps[id];
        let purpose = sweep.purpose(id);
        let Some(range) = sweep.ranges.last().copied() else {
            if !std::mem::take(&mut sweep.fua) {
                return Some((sweeps.remove(id).io, IoResult::Done));
            }
            sweep.step_bytes = 0;
            context.command(self.file, FileOp::Sync, 0, purpose);
            return None;
        };
        let length_bytes = range.length_bytes.min(PUNCH_BYTES);
        match &mut sweep.method {
            SweepMethod::Punch => {
                // Holes need not be deallocated.
                let op = FileOp::Extents {
                    length_bytes: range.length_bytes,
                    extents_max: 1,
                };
                context.command(self.file, op, range.offset_bytes, purpose);
            }
            SweepMethod::Zero => {
                sweep.step_bytes = length_bytes;
                let op = FileOp::Zero { length_bytes };
                context.command(self.file, op, range.offset_bytes, purpose);
            }
            SweepMethod::Write(bytes) => {
                let bytes = std::mem::take(bytes);
                let length = range.length_bytes.min(bytes.len() as u64);
                sweep.step_bytes = length;
                let transfer = Transfer {
                    range: 0..length as usize,
                    at_once: false,
                    ..self.transfer(FileOp::Write { durable: false }, range.offset_bytes, bytes)
                };
                context.transfer(transfer, purpose);
            }
        }
        None
    }

    /// Requests deallocation of the start of the last range.
    fn punch(&self, id: usize, context: &mut StoreContext, sweeps: &mut Slab<FileSweep>) {
        let sweep = &mut sweeps[id];
        let range = *sweep.ranges.last().expect("its extents were requested");
        let length_bytes = range.length_bytes.min(PUNCH_BYTES);
        sweep.step_bytes = length_bytes;
        let op = FileOp::Punch { length_bytes };
        context.command(self.file, op, range.offset_bytes, sweep.purpose(id));
    }
}

impl FileSweep {
    fn new(lun: u8, io: IoId, ranges: Vec<Extent>, method: SweepMethod) -> FileSweep {
        FileSweep {
            io,
            lun,
            ranges,
            method,
            fua: false,
            step_bytes: 0,
        }
    }

    fn purpose(&self, id: usize) -> Purpose {
        Purpose::Sweep {
            lun: self.lun,
            sweep: id,
        }
    }

    /// Removes `bytes` from the start of the last range, because they are done.
    fn advance(&mut self, bytes: u64) {
        if let Some(range) = self.ranges.last_mut() {
            range.offset_bytes += bytes;
            range.length_bytes -= bytes;
            if range.length_bytes == 0 {
                self.ranges.pop();
            }
        }
    }
}

impl SweepMethod {
    /// Returns the method of a WRITE SAME of `block`. A block of zeros need not be written.
    fn of_write_same(block: &[u8], length_bytes: u64, unmap: bool) -> SweepMethod {
        if block.iter().any(|byte| *byte != 0) {
            SweepMethod::Write(repeated(block, length_bytes))
        } else if unmap {
            SweepMethod::Punch
        } else {
            SweepMethod::Zero
        }
    }
}

/// Returns the block repeated to the length of one request.
fn repeated(block: &[u8], length_bytes: u64) -> Vec<u8> {
    block.repeat((length_bytes.min(WRITE_BYTES) / block.len() as u64) as usize)
}
