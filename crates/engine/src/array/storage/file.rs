//! An LU in a file or on a block device.
//!
//! A read, write or flush is one request. UNMAP and WRITE SAME are a [`FileSweep`]: one request after the other, so that
//! an LU of many TiB can be given back while others go on.
use std::io::{self, ErrorKind};

use hakaru_iscsi_target::{Extent, IoFailure, IoId, IoOp, IoResult, Target};
use hakaru_runtime::file::FileOp;

use super::Purpose;
use super::files::{Files, Finished, OpenFile};
use super::slab::Slab;

/// Bytes given back by one request: the file system holds other writers of the file up for so long (about a millisecond on ext4).
const PUNCH_BYTES: u64 = 256 << 20;
/// Bytes written by one request of a sweep.
const WRITE_BYTES: u64 = 256 << 10;

/// An LU's file.
pub struct FileStore {
    /// The file.
    pub file: OpenFile,
    /// Something that was written may never have reached the medium, and nobody can tell what: writing on as if it had would hide it.
    failed: bool,
}

/// An access that is made of many requests.
pub struct FileSweep {
    io: IoId,
    lun: u8,
    ranges: Vec<Extent>,
    how: How,
    fua: bool,
    /// Bytes that the request under way covers; 0 for the flush at the end.
    step_bytes: u64,
}

enum How {
    Punch,
    Zero,
    /// Whole blocks.
    Write(Vec<u8>),
}

impl FileStore {
    /// Over an open file.
    pub fn new(file: OpenFile) -> FileStore {
        FileStore {
            file,
            failed: false,
        }
    }

    /// Takes an access. `Some` if it ended at once.
    pub fn access(
        &mut self,
        (lun, io): (u8, IoId),
        op: IoOp,
        files: &mut Files<Purpose>,
        sweeps: &mut Slab<FileSweep>,
        target: &mut Target,
    ) -> Option<IoResult> {
        let purpose = Purpose::File { lun, io };
        let writes = !matches!(op, IoOp::Read { .. } | IoOp::Status { .. });
        if self.failed && writes {
            return Some(IoResult::Failed(IoFailure::Protected));
        }
        match op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => {
                let length = length_bytes as usize;
                let mut bytes = target.take_buffer(length);
                bytes.resize(length, 0);
                files
                    .transfer(
                        &self.file,
                        FileOp::Read,
                        offset_bytes,
                        bytes,
                        0..length,
                        purpose,
                    )
                    .map(|finished| self.result(finished))
            }
            IoOp::Write {
                offset_bytes,
                data,
                fua,
            } => {
                let (op, length) = (FileOp::Write { durable: fua }, data.len());
                files
                    .transfer(&self.file, op, offset_bytes, data, 0..length, purpose)
                    .map(|finished| self.result(finished))
            }
            IoOp::Flush => {
                files.command(&self.file, FileOp::Sync, 0, purpose);
                None
            }
            IoOp::Status { range, extents_max } => Some(self.status(range, extents_max)),
            IoOp::Unmap { ranges } => {
                let sweep = FileSweep::new((lun, io), ranges, How::Punch, false);
                self.begin(sweep, files, sweeps)
            }
            IoOp::WriteSame {
                range,
                block,
                unmap,
                fua,
            } => {
                let how = if block.iter().any(|byte| *byte != 0) {
                    How::Write(repeated(&block, range.length_bytes))
                } else if unmap {
                    How::Punch
                } else {
                    How::Zero
                };
                let sweep = FileSweep::new((lun, io), vec![range], how, fua);
                self.begin(sweep, files, sweeps)
            }
            // Never asked of a store: the keeper does that.
            IoOp::Keep { .. } => Some(IoResult::Failed(IoFailure::Internal)),
        }
    }

    /// What a finished read, write or flush comes to.
    pub fn result(&mut self, finished: Finished<Purpose>) -> IoResult {
        match (finished.op, finished.result) {
            (FileOp::Read, Ok(())) => IoResult::ReadData(finished.bytes),
            (FileOp::Read, Err(_)) => IoResult::Failed(IoFailure::Read),
            (FileOp::Sync, Ok(())) => IoResult::Flushed,
            (_, Ok(())) => IoResult::Written(finished.bytes),
            (op, Err(e)) => self.write_failed(op, &e),
        }
    }

    /// Bytes that take space, as the file system counts them; `None` for a block device.
    pub fn mapped_bytes(&self) -> Option<u64> {
        self.file.handle.taken_bytes()
    }

    /// A write that was not to be durable leaves the file as it was or as it was to be. After a sync that failed the
    /// kernel forgets what it could not write, and the next sync would say that all is well.
    fn write_failed(&mut self, op: FileOp, e: &io::Error) -> IoResult {
        let space = matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        let synced = matches!(op, FileOp::Sync | FileOp::Write { durable: true });
        self.failed |= synced && (op == FileOp::Sync || !space);
        IoResult::Failed(if space {
            IoFailure::Space
        } else {
            IoFailure::Write
        })
    }

    fn status(&self, range: Extent, extents_max: usize) -> IoResult {
        let found = self
            .file
            .handle
            .extents(range.offset_bytes, range.length_bytes, extents_max);
        match found {
            Ok(found) => IoResult::Provisioned(
                found
                    .into_iter()
                    .map(|extent| {
                        let place = Extent {
                            offset_bytes: extent.offset_bytes,
                            length_bytes: extent.length_bytes,
                        };
                        (place, extent.mapped)
                    })
                    .collect(),
            ),
            Err(_) => IoResult::Failed(IoFailure::Internal),
        }
    }

    fn begin(
        &mut self,
        sweep: FileSweep,
        files: &mut Files<Purpose>,
        sweeps: &mut Slab<FileSweep>,
    ) -> Option<IoResult> {
        let id = sweeps.insert(sweep);
        self.next_step(id, files, sweeps).map(|(_, result)| result)
    }

    /// The request of a sweep has ended. `Some` if the sweep has.
    pub fn step_ended(
        &mut self,
        id: u64,
        finished: Finished<Purpose>,
        files: &mut Files<Purpose>,
        sweeps: &mut Slab<FileSweep>,
    ) -> Option<(IoId, IoResult)> {
        let sweep = sweeps.get_mut(id);
        if let How::Write(bytes) = &mut sweep.how {
            *bytes = finished.bytes;
        }
        match finished.result {
            Ok(()) if finished.op == FileOp::Sync => {
                return Some((sweeps.remove(id).io, IoResult::Done));
            }
            Ok(()) => sweep.pass(sweep.step_bytes),
            Err(e) if e.kind() == ErrorKind::Unsupported && !matches!(sweep.how, How::Write(_)) => {
                sweep.how = How::Write(vec![0; WRITE_BYTES as usize]);
            }
            Err(e) => {
                let io = sweeps.remove(id).io;
                return Some((io, self.write_failed(finished.op, &e)));
            }
        }
        self.next_step(id, files, sweeps)
    }

    fn next_step(
        &mut self,
        id: u64,
        files: &mut Files<Purpose>,
        sweeps: &mut Slab<FileSweep>,
    ) -> Option<(IoId, IoResult)> {
        let sweep = sweeps.get_mut(id);
        let purpose = Purpose::Sweep {
            lun: sweep.lun,
            sweep: id,
        };
        if matches!(sweep.how, How::Punch) {
            sweep.skip_holes(&self.file);
        }
        let Some(range) = sweep.ranges.last().copied() else {
            if !std::mem::take(&mut sweep.fua) {
                return Some((sweeps.remove(id).io, IoResult::Done));
            }
            sweep.step_bytes = 0;
            files.command(&self.file, FileOp::Sync, 0, purpose);
            return None;
        };
        let length_bytes = range.length_bytes.min(PUNCH_BYTES);
        match &mut sweep.how {
            How::Punch | How::Zero => {
                let op = if matches!(sweep.how, How::Punch) {
                    FileOp::Punch { length_bytes }
                } else {
                    FileOp::Zero { length_bytes }
                };
                sweep.step_bytes = length_bytes;
                files.command(&self.file, op, range.offset_bytes, purpose);
                None
            }
            How::Write(bytes) => {
                let length = range.length_bytes.min(bytes.len() as u64);
                sweep.step_bytes = length;
                let bytes = std::mem::take(bytes);
                let op = FileOp::Write { durable: false };
                let at = range.offset_bytes;
                // `Some` if there is no memory for it, and then this ends at once.
                files
                    .transfer_later(&self.file, op, at, bytes, 0..length as usize, purpose)
                    .and_then(|finished| self.step_ended(id, finished, files, sweeps))
            }
        }
    }
}

impl FileSweep {
    fn new((lun, io): (u8, IoId), ranges: Vec<Extent>, how: How, fua: bool) -> FileSweep {
        FileSweep {
            io,
            lun,
            ranges,
            how,
            fua,
            step_bytes: 0,
        }
    }

    /// So much of the last range is done.
    fn pass(&mut self, bytes: u64) {
        if let Some(range) = self.ranges.last_mut() {
            range.offset_bytes += bytes;
            range.length_bytes -= bytes;
            if range.length_bytes == 0 {
                self.ranges.pop();
            }
        }
    }

    /// What is a hole already needs no request.
    fn skip_holes(&mut self, file: &OpenFile) {
        while let Some(range) = self.ranges.last() {
            let next = file
                .handle
                .extents(range.offset_bytes, range.length_bytes, 1);
            match next.as_deref() {
                Ok([extent]) if !extent.mapped => self.pass(extent.length_bytes),
                _ => return,
            }
        }
    }
}

/// The block, over and over: as much as one request writes.
fn repeated(block: &[u8], length_bytes: u64) -> Vec<u8> {
    block.repeat((length_bytes.min(WRITE_BYTES) / block.len() as u64) as usize)
}
