//! A leg whose initiator is this machine's kernel: the shell executes its requests to a disk.
use std::collections::VecDeque;
use std::sync::Arc;

use crate::part::{Read, Write};

/// Maximum number of buffers kept for reuse.
const SPARE_MAX: usize = 32;

/// A request to the disk of a leg.
#[derive(Clone, Debug)]
pub struct DiskRequest {
    /// Identifies the request among those of its leg.
    pub tag: u32,
    /// Operation.
    pub op: DiskOp,
    /// First byte on the disk.
    pub offset_bytes: u64,
}

/// Operation of a [`DiskRequest`].
#[derive(Clone, Debug)]
pub enum DiskOp {
    /// Read this number of bytes.
    Read(u32),
    /// Write these bytes.
    Write(Arc<Vec<u8>>),
    /// Put everything that was written on stable storage.
    Flush,
}

/// The queue of requests to the disk of one leg, and spare buffers.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    requests: VecDeque<DiskRequest>,
    spare: Vec<Vec<u8>>,
}

impl Disk {
    pub(crate) fn read(&mut self, read: Read) {
        self.submit(
            read.block,
            DiskOp::Read(read.length_bytes),
            read.offset_bytes,
        );
    }

    pub(crate) fn write(&mut self, write: Write) {
        self.submit(write.tag, DiskOp::Write(write.buffer), write.offset_bytes);
    }

    pub(crate) fn flush(&mut self, tag: u32) {
        self.submit(tag, DiskOp::Flush, 0);
    }

    fn submit(&mut self, tag: u32, op: DiskOp, offset_bytes: u64) {
        self.requests.push_back(DiskRequest {
            tag,
            op,
            offset_bytes,
        });
    }

    pub(crate) fn poll_request(&mut self) -> Option<DiskRequest> {
        self.requests.pop_front()
    }

    /// Accepts a buffer for reuse. Packed blocks come here as well, so most are dropped.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.spare.len() < SPARE_MAX {
            self.spare.push(buffer);
        }
    }

    /// Returns a buffer with a copy of these bytes.
    pub(crate) fn copy_of(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_and_their_number_is_bounded() {
        let mut disk = Disk::default();
        for _ in 0..100 {
            disk.recycle(vec![1; 4096]);
        }
        disk.recycle(Vec::new());
        assert_eq!(disk.spare.len(), SPARE_MAX);
        assert_eq!(disk.copy_of(&[7; 512]), [7; 512]);
        assert_eq!(disk.spare.len(), SPARE_MAX - 1);
    }
}
