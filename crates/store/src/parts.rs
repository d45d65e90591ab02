//! An LU whose parts of equal length are files of their own: the cartridges of a tape library.
use hakaru_scsi_device::{IoFailure, IoId, IoOp, IoResult};

use crate::context::{Purpose, StoreContext};
use crate::file::FileStore;
use crate::request::{FileDone, FileId};

/// The files of an LU's parts.
#[derive(Debug)]
pub struct PartStore {
    part_bytes: u64,
    files: Vec<FileStore>,
}

impl PartStore {
    /// Creates the store of an LU of which each `part_bytes` bytes are in one of these files, which
    /// the shell has open.
    ///
    /// # Panics
    /// If `part_bytes` is 0.
    #[must_use]
    pub fn new(part_bytes: u64, files: impl IntoIterator<Item = FileId>) -> PartStore {
        assert!(part_bytes > 0, "a part has a length");
        PartStore {
            part_bytes,
            files: files.into_iter().map(FileStore::new).collect(),
        }
    }

    /// Returns the files.
    pub fn files(&self) -> impl Iterator<Item = FileId> {
        self.files.iter().map(FileStore::file)
    }

    /// Starts an access to one part. Returns its result if it completed at once: if it writes to a
    /// part of which a write was lost, or is none of read, write and [`IoOp::FlushPart`]. An UNMAP
    /// leaves the file as it is.
    pub(crate) fn access(
        &mut self,
        lun: u8,
        io: IoId,
        mut op: IoOp,
        context: &mut StoreContext,
        take_buffer: &mut dyn FnMut(usize) -> Vec<u8>,
    ) -> Option<IoResult> {
        if let IoOp::Unmap { .. } = op {
            return Some(IoResult::Done);
        }
        let writes = !matches!(op, IoOp::Read { .. });
        let (IoOp::Read { offset_bytes, .. }
        | IoOp::Write { offset_bytes, .. }
        | IoOp::FlushPart { offset_bytes }) = &mut op
        else {
            return Some(IoResult::Failed(IoFailure::Internal));
        };
        let part = (*offset_bytes / self.part_bytes) as usize;
        *offset_bytes %= self.part_bytes;
        let Some(file) = self.files.get(part) else {
            return Some(IoResult::Failed(IoFailure::Internal));
        };
        if file.has_failed() && writes {
            return Some(IoResult::Failed(IoFailure::Protected));
        }
        let purpose = Purpose::Part { lun, part, io };
        file.request(purpose, op, context, take_buffer)
            .map(|_| IoResult::Failed(IoFailure::Internal))
    }

    /// Returns the result of a completed access.
    pub(crate) fn result(&mut self, part: usize, done: FileDone) -> IoResult {
        self.files[part].result(done)
    }
}
