//! The open files of the array, and the requests to them. One queue serves the files of LUs and of
//! the groups of pools.
//!
//! Data of files opened for direct I/O passes through page buffers here.
use std::io;

use hakaru_runtime::file::{self, FileHandle, FileQueue, IoBuffer, PageBuffers};
use hakaru_scsi_device::Extent;
use hakaru_store::{FileDone, FileId, FileOp, FileRequest, FileRequestId};

/// An open file.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// The file.
    pub handle: FileHandle,
    /// Whether I/O bypasses the page cache (`O_DIRECT`).
    pub direct: bool,
}

/// The files and their queue.
pub struct Files {
    queue: FileQueue<IoBuffer>,
    pages: PageBuffers,
    /// Indexed by [`FileId`].
    open: Vec<Option<OpenFile>>,
    in_flight: usize,
}

impl Files {
    /// Creates an empty set of files over an idle queue.
    pub fn new(queue: FileQueue<IoBuffer>) -> Files {
        Files {
            queue,
            pages: PageBuffers::default(),
            open: Vec::new(),
            in_flight: 0,
        }
    }

    /// Returns the name of the queue's backend: `io_uring` or `threads`.
    pub fn backend(&self) -> &'static str {
        self.queue.backend()
    }

    /// Adds an open file.
    pub fn add(&mut self, file: OpenFile) -> FileId {
        self.open.push(Some(file));
        FileId(self.open.len() as u32 - 1)
    }

    /// Closes a file without requests in progress.
    pub fn close(&mut self, id: FileId) {
        self.open[id.0 as usize] = None;
    }

    /// Returns the bytes that a file occupies on its medium, or `None` for a block device.
    pub fn allocated_bytes(&self, id: FileId) -> Option<u64> {
        self.file(id).handle.allocated_bytes()
    }

    fn file(&self, id: FileId) -> &OpenFile {
        let file = self.open[id.0 as usize].as_ref();
        file.expect("a file stays open while it is used")
    }

    /// Begins a request. Returns `Some` if it is complete at once, because the page cache served it
    /// or no memory is available for it.
    pub fn begin(&mut self, mut request: FileRequest) -> Option<FileDone> {
        let file = self.file(request.file);
        if request.at_once && !file.direct && transfer_at_once(&file.handle, &mut request) {
            return Some(done(request, Ok(())));
        }
        let is_transfer = matches!(request.op, FileOp::Read | FileOp::Write { .. });
        let page = if is_transfer && file.direct {
            match self.pages.take(request.range.len()) {
                Ok(page) => Some(page),
                Err(no_memory) => return Some(done(request, Err(no_memory))),
            }
        } else {
            None
        };
        let mut buffer = IoBuffer::new(request.bytes, request.range, page);
        if request.op != FileOp::Read {
            buffer.stage();
        }
        self.in_flight += 1;
        self.queue.submit(file::FileRequest {
            id: request.id.0 as u64,
            file: self.file(request.file).handle.clone(),
            op: queue_op(request.op),
            offset_bytes: request.offset_bytes,
            buffer,
        });
        None
    }

    /// Submits the requests that have begun. Called once per turn for all of them.
    pub fn flush(&mut self) {
        // An array without files also calls this in every turn.
        if self.in_flight > 0 {
            self.queue.flush();
        }
    }

    /// Returns whether requests could not be submitted, so that [`Files::flush`] must be called
    /// again after a while.
    pub fn must_retry(&self) -> bool {
        self.queue.must_retry()
    }

    /// Handles an event of the queue's token.
    pub fn handle_event(&mut self) {
        self.queue.handle_event();
    }

    /// Returns the next completed request.
    pub fn poll_done(&mut self) -> Option<FileDone> {
        let mut finished = self.queue.poll_done()?;
        self.in_flight -= 1;
        if finished.op == file::FileOp::Read && finished.result.is_ok() {
            finished.buffer.unstage();
        }
        let (bytes, page) = finished.buffer.into_parts();
        if let Some(page) = page {
            self.pages.give(page);
        }
        Some(FileDone {
            id: FileRequestId(finished.id as usize),
            op: store_op(finished.op),
            bytes,
            extents: finished.extents.into_iter().map(store_extent).collect(),
            result: finished.result,
        })
    }
}

fn transfer_at_once(handle: &FileHandle, request: &mut FileRequest) -> bool {
    let range = request.range.clone();
    match request.op {
        FileOp::Read => handle.read_at_once(request.offset_bytes, &mut request.bytes[range]),
        FileOp::Write { durable: false } => {
            handle.write_at_once(request.offset_bytes, &request.bytes[range])
        }
        _ => false,
    }
}

fn done(request: FileRequest, result: io::Result<()>) -> FileDone {
    FileDone {
        id: request.id,
        op: request.op,
        bytes: request.bytes,
        extents: Vec::new(),
        result,
    }
}

/// Returns the range of an extent, and whether it occupies space.
fn store_extent(extent: file::Extent) -> (Extent, bool) {
    let range = Extent {
        offset_bytes: extent.offset_bytes,
        length_bytes: extent.length_bytes,
    };
    (range, extent.mapped)
}

fn queue_op(op: FileOp) -> file::FileOp {
    match op {
        FileOp::Read => file::FileOp::Read,
        FileOp::Write { durable } => file::FileOp::Write { durable },
        FileOp::Sync => file::FileOp::Sync,
        FileOp::Punch { length_bytes } => file::FileOp::Punch { length_bytes },
        FileOp::Zero { length_bytes } => file::FileOp::Zero { length_bytes },
        FileOp::Extents {
            length_bytes,
            extents_max,
        } => file::FileOp::Extents {
            length_bytes,
            extents_max,
        },
    }
}

fn store_op(op: file::FileOp) -> FileOp {
    match op {
        file::FileOp::Read => FileOp::Read,
        file::FileOp::Write { durable } => FileOp::Write { durable },
        file::FileOp::Sync => FileOp::Sync,
        file::FileOp::Punch { length_bytes } => FileOp::Punch { length_bytes },
        file::FileOp::Zero { length_bytes } => FileOp::Zero { length_bytes },
        file::FileOp::Extents {
            length_bytes,
            extents_max,
        } => FileOp::Extents {
            length_bytes,
            extents_max,
        },
    }
}
