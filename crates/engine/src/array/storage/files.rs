//! Requests to files that are under way, and whose they are.
//!
//! One queue for all files of the array: LUs, and the groups of pools. Whoever submits says what the completion means to it
//! ([`Purpose`]); bytes on their way to a file opened for direct I/O pass through page buffers here.
use std::io;
use std::ops::Range;

use hakaru_runtime::file::{FileHandle, FileOp, FileQueue, FileRequest, IoBuffer, PageBuffers};

use super::slab::Slab;

/// An open file and how it is used.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// The file.
    pub handle: FileHandle,
    /// Past the page cache.
    pub direct: bool,
}

/// The queue.
pub struct Files<P> {
    queue: FileQueue<IoBuffer>,
    pages: PageBuffers,
    under_way: Slab<P>,
}

/// A finished request.
pub struct Finished<P> {
    /// What it was for.
    pub purpose: P,
    /// What was done.
    pub op: FileOp,
    /// The buffer that went along.
    pub bytes: Vec<u8>,
    /// How it ended.
    pub result: io::Result<()>,
}

impl<P> Files<P> {
    /// Over an idle queue.
    pub fn new(queue: FileQueue<IoBuffer>) -> Files<P> {
        Files {
            queue,
            pages: PageBuffers::default(),
            under_way: Slab::default(),
        }
    }

    /// `io_uring` or `threads`.
    pub fn backend(&self) -> &'static str {
        self.queue.backend()
    }

    /// Reads or writes the `range` of `bytes` at `offset_bytes`. What needs no waiting (page cache) is done now, and told now.
    pub fn transfer(
        &mut self,
        file: &OpenFile,
        op: FileOp,
        offset_bytes: u64,
        mut bytes: Vec<u8>,
        range: Range<usize>,
        purpose: P,
    ) -> Option<Finished<P>> {
        let done = !file.direct
            && match op {
                FileOp::Read => file
                    .handle
                    .read_at_once(offset_bytes, &mut bytes[range.clone()]),
                FileOp::Write { durable: false } => file
                    .handle
                    .write_at_once(offset_bytes, &bytes[range.clone()]),
                _ => false,
            };
        if !done {
            return self.transfer_later(file, op, offset_bytes, bytes, range, purpose);
        }
        Some(Finished {
            purpose,
            op,
            bytes,
            result: Ok(()),
        })
    }

    /// As [`Files::transfer`], but never now, unless there is no memory for it.
    pub fn transfer_later(
        &mut self,
        file: &OpenFile,
        op: FileOp,
        offset_bytes: u64,
        bytes: Vec<u8>,
        range: Range<usize>,
        purpose: P,
    ) -> Option<Finished<P>> {
        let page = file.direct.then(|| self.pages.take(range.len()));
        let page = match page.transpose() {
            Ok(page) => page,
            Err(no_memory) => {
                return Some(Finished {
                    purpose,
                    op,
                    bytes,
                    result: Err(no_memory),
                });
            }
        };
        let mut buffer = IoBuffer::new(bytes, range, page);
        if op != FileOp::Read {
            buffer.stage();
        }
        self.submit(file, op, offset_bytes, buffer, purpose);
        None
    }

    /// Does what moves no bytes: a sync, a hole.
    pub fn command(&mut self, file: &OpenFile, op: FileOp, offset_bytes: u64, purpose: P) {
        self.submit(file, op, offset_bytes, IoBuffer::default(), purpose);
    }

    fn submit(
        &mut self,
        file: &OpenFile,
        op: FileOp,
        offset_bytes: u64,
        buffer: IoBuffer,
        purpose: P,
    ) {
        let id = self.under_way.insert(purpose);
        self.queue.submit(FileRequest {
            id,
            file: file.handle.clone(),
            op,
            offset_bytes,
            buffer,
        });
    }

    /// Lets what was submitted begin: once per turn, for all of it.
    pub fn flush(&mut self) {
        // An array in memory asks with every turn.
        if !self.under_way.is_empty() {
            self.queue.flush();
        }
    }

    /// Whether submitted requests did not begin, and have to be flushed again after a while.
    pub fn must_retry(&self) -> bool {
        self.queue.must_retry()
    }

    /// The reactor reported the queue's token.
    pub fn handle_event(&mut self) {
        self.queue.handle_event();
    }

    /// The next finished request.
    pub fn poll_finished(&mut self) -> Option<Finished<P>> {
        let mut done = self.queue.poll_done()?;
        if done.op == FileOp::Read && done.result.is_ok() {
            done.buffer.unstage();
        }
        let (bytes, page) = done.buffer.into_parts();
        if let Some(page) = page {
            self.pages.give(page);
        }
        Some(Finished {
            purpose: self.under_way.remove(done.id),
            op: done.op,
            bytes,
            result: done.result,
        })
    }
}
