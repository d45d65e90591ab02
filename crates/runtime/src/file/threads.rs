//! File I/O on threads. They list extents, and serve all other requests if io_uring is not
//! available.
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::buffer::StableBuffer;
use super::handle::{Extent, FileHandle};
use super::request::{FileDone, FileOp, FileRequest};
use crate::wait::Token;
use crate::wait::{Reactor, Waker};

/// Maximum number of threads. Each carries out one request at a time; further requests wait.
const THREADS_MAX: usize = 32;
/// Stack size of a thread. It is small because the threads only call the kernel.
const STACK_BYTES: usize = 128 << 10;

/// The thread pool. A thread is started when a request finds all others busy.
pub(super) struct Threads<B: StableBuffer> {
    shared: Arc<Shared<B>>,
    threads: usize,
    /// Number of requests whose completion has not been collected.
    pending: usize,
}

struct Shared<B> {
    work: Mutex<Work<B>>,
    ready: Condvar,
    waker: Waker,
}

struct Work<B> {
    requests: VecDeque<FileRequest<B>>,
    done: Vec<FileDone<B>>,
    idle: usize,
    closed: bool,
}

impl<B> Shared<B> {
    /// Locks the work. Threads hold the lock only to move requests, so a panic leaves no partial
    /// change.
    fn work(&self) -> MutexGuard<'_, Work<B>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: StableBuffer> Threads<B> {
    pub(super) fn new(reactor: &Reactor, token: Token) -> io::Result<Threads<B>> {
        let work = Work {
            requests: VecDeque::new(),
            done: Vec::new(),
            idle: 0,
            closed: false,
        };
        let waker = Waker::new(reactor, token)?;
        let shared = Shared {
            work: Mutex::new(work),
            ready: Condvar::new(),
            waker,
        };
        Ok(Threads {
            shared: Arc::new(shared),
            threads: 0,
            pending: 0,
        })
    }

    pub(super) fn submit(&mut self, request: FileRequest<B>) {
        self.pending += 1;
        let mut work = self.shared.work();
        work.requests.push_back(request);
        let busy = work.requests.len() > work.idle;
        drop(work);
        if busy && self.threads < THREADS_MAX {
            self.start_thread();
        }
        self.shared.ready.notify_one();
    }

    fn start_thread(&mut self) {
        let shared = Arc::clone(&self.shared);
        let builder = std::thread::Builder::new()
            .name("file".into())
            .stack_size(STACK_BYTES);
        match builder.spawn(move || serve(&shared)) {
            Ok(_) => self.threads += 1,
            // Without a thread the waiting requests would never complete, so they fail. Otherwise
            // the running threads serve them.
            Err(e) if self.threads == 0 => self.fail_all(&e),
            Err(_) => {}
        }
    }

    fn fail_all(&self, e: &io::Error) {
        let mut work = self.shared.work();
        while let Some(FileRequest { id, op, buffer, .. }) = work.requests.pop_front() {
            let result = Err(io::Error::new(
                e.kind(),
                format!("cannot start a thread for file I/O: {e}"),
            ));
            work.done.push(FileDone {
                id,
                op,
                buffer,
                extents: Vec::new(),
                result,
            });
        }
        self.shared.waker.wake();
    }

    pub(super) fn reap(&mut self, done: &mut VecDeque<FileDone<B>>) {
        if self.pending == 0 {
            return;
        }
        // Threads wake the reactor while they hold the lock, so every wake has a completion.
        let mut work = self.shared.work();
        self.shared.waker.acknowledge();
        self.pending -= work.done.len();
        done.extend(work.done.drain(..));
    }
}

impl<B: StableBuffer> Drop for Threads<B> {
    fn drop(&mut self) {
        self.shared.work().closed = true;
        self.shared.ready.notify_all();
    }
}

fn serve<B: StableBuffer>(shared: &Shared<B>) {
    let mut work = shared.work();
    loop {
        if work.closed {
            return;
        }
        let Some(mut request) = work.requests.pop_front() else {
            work.idle += 1;
            work = shared
                .ready
                .wait(work)
                .unwrap_or_else(PoisonError::into_inner);
            work.idle -= 1;
            continue;
        };
        drop(work);
        let mut extents = Vec::new();
        let result = match request.op {
            FileOp::Extents { .. } => list_extents(&request).map(|listed| extents = listed),
            _ => perform(&mut request),
        };
        let FileRequest { id, op, buffer, .. } = request;
        work = shared.work();
        work.done.push(FileDone {
            id,
            op,
            buffer,
            extents,
            result,
        });
        shared.waker.wake();
    }
}

fn list_extents<B>(request: &FileRequest<B>) -> io::Result<Vec<Extent>> {
    match request.op {
        FileOp::Extents {
            length_bytes,
            extents_max,
        } => request
            .file
            .extents(request.offset_bytes, length_bytes, extents_max),
        _ => Ok(Vec::new()),
    }
}

/// Carries out a request, except for a list of extents. Short reads and writes are continued.
fn perform<B: StableBuffer>(request: &mut FileRequest<B>) -> io::Result<()> {
    let FileRequest {
        file,
        op,
        offset_bytes,
        buffer,
        ..
    } = request;
    if *op == FileOp::Sync {
        return Ok(rustix::fs::fdatasync(&*file)?);
    }
    if let Some((flags, length_bytes)) = op.fallocate() {
        loop {
            match rustix::fs::fallocate(&*file, flags, *offset_bytes, length_bytes) {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }
    let mut bytes = buffer.bytes_mut();
    let mut at = *offset_bytes;
    while !bytes.is_empty() {
        match transfer(file, *op, at, bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                bytes = &mut bytes[n..];
                at += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Reads or writes once. Returns the number of bytes transferred.
fn transfer(file: &FileHandle, op: FileOp, at: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
    match op {
        FileOp::Read => {
            let slices = &mut [IoSliceMut::new(bytes)];
            preadv2(file, slices, at, ReadWriteFlags::empty())
        }
        FileOp::Write { durable } => {
            let flags = if durable {
                ReadWriteFlags::DSYNC
            } else {
                ReadWriteFlags::empty()
            };
            pwritev2(file, &[IoSlice::new(bytes)], at, flags)
        }
        FileOp::Sync | FileOp::Punch { .. } | FileOp::Zero { .. } | FileOp::Extents { .. } => {
            unreachable!("the operation transfers no bytes")
        }
    }
}
