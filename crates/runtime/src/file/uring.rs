//! File I/O through io_uring: one system call starts any number of requests, and the ring itself
//! wakes the reactor.
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};

use super::buffer::StableBuffer;
use super::request::{FileDone, FileOp, FileRequest};
use crate::wait::Token;
use crate::wait::{Interest, Reactor};

/// Maximum number of requests passed to the kernel per call.
const SUBMISSIONS: u32 = 256;
/// Maximum number of requests in the kernel, and size of the completion queue, which therefore
/// never overflows. Further requests wait here.
const IN_FLIGHT_MAX: usize = 4096;

/// A ring and the requests in flight in the kernel.
pub(super) struct Uring<B: StableBuffer> {
    ring: IoUring,
    /// Requests in the kernel, indexed by the `user_data` of their entries. While a slot is
    /// occupied the kernel may read and write its buffer, so the buffer must be neither dropped nor
    /// read before the completion. If the queue is dropped first, `ManuallyDrop` leaks the buffer.
    slots: Vec<Option<ManuallyDrop<InFlight<B>>>>,
    free: Vec<usize>,
    /// Slots of partly completed requests, to be submitted again.
    partial: Vec<usize>,
    waiting: VecDeque<FileRequest<B>>,
    /// Whether the kernel accepted no entries at the last attempt.
    refused: bool,
}

struct InFlight<B> {
    request: FileRequest<B>,
    /// Number of bytes transferred by earlier, short completions.
    moved: usize,
}

/// Creates a ring and checks that it supports the needed operations.
pub(super) fn probe() -> io::Result<IoUring> {
    let ring = IoUring::builder()
        .setup_clamp()
        .setup_cqsize(IN_FLIGHT_MAX as u32)
        .build(SUBMISSIONS)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Fsync::CODE,
        opcode::Fallocate::CODE,
    ];
    if needed.iter().all(|code| probe.is_supported(*code)) {
        Ok(ring)
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl<B: StableBuffer> Uring<B> {
    pub(super) fn new(reactor: &Reactor, token: Token) -> io::Result<Uring<B>> {
        let ring = probe()?;
        // SAFETY: the ring owns the descriptor and outlives this borrow.
        let descriptor = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
        // The descriptor of a ring is readable while the ring holds completions.
        reactor.register(descriptor, token, Interest::Level)?;
        Ok(Uring {
            ring,
            slots: Vec::new(),
            free: Vec::new(),
            partial: Vec::new(),
            waiting: VecDeque::new(),
            refused: false,
        })
    }

    pub(super) fn submit(&mut self, request: FileRequest<B>) {
        self.waiting.push_back(request);
    }

    /// Starts waiting requests and collects completed ones, until neither makes progress.
    pub(super) fn flush(&mut self, done: &mut VecDeque<FileDone<B>>) {
        loop {
            self.fill();
            let pending = !self.ring.submission().is_empty();
            // A refused submission (EAGAIN, EBUSY, EINTR) leaves its entries for the next call.
            self.refused = pending && self.ring.submit().is_err();
            let reaped = self.reap(done);
            let progress = reaped > 0 || (pending && !self.refused);
            if !progress || !self.has_more() {
                return;
            }
        }
    }

    /// Returns whether the kernel refused entries at the last flush. No completion need follow, so
    /// the caller repeats [`Uring::flush`] by a timer.
    pub(super) fn must_retry(&self) -> bool {
        self.refused
    }

    fn has_more(&mut self) -> bool {
        !self.waiting.is_empty() || !self.partial.is_empty() || !self.ring.submission().is_empty()
    }

    /// Moves requests into the submission queue until it is full.
    fn fill(&mut self) {
        while !self.ring.submission().is_full() {
            let Some(slot) = self.partial.pop().or_else(|| self.occupy_slot()) else {
                return;
            };
            let in_flight = self.slots[slot].as_mut().expect("the slot is occupied");
            let entry = in_flight.entry().user_data(slot as u64);
            // SAFETY: the entry points into the request's buffer, which is stable (`StableBuffer`)
            // and stays untouched in its slot until the completion. The request keeps the file
            // open.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.expect("there is room");
        }
    }

    /// Moves the next waiting request to a slot and returns the slot. `None` if no request waits or
    /// too many are in the kernel.
    fn occupy_slot(&mut self) -> Option<usize> {
        if self.slots.len() - self.free.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let request = self.waiting.pop_front()?;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(ManuallyDrop::new(InFlight { request, moved: 0 }));
        Some(slot)
    }

    /// Collects all completions. Returns their number.
    fn reap(&mut self, done: &mut VecDeque<FileDone<B>>) -> usize {
        let mut reaped = 0;
        loop {
            let Some(entry) = self.ring.completion().next() else {
                return reaped;
            };
            reaped += 1;
            let (slot, result) = (entry.user_data() as usize, entry.result());
            let in_flight = self.slots[slot]
                .as_mut()
                .expect("only occupied slots complete");
            let Some(result) = in_flight.complete(result) else {
                self.partial.push(slot);
                continue;
            };
            let in_flight = self.slots[slot]
                .take()
                .expect("the slot is occupied, as checked above");
            self.free.push(slot);
            let FileRequest { id, op, buffer, .. } = ManuallyDrop::into_inner(in_flight).request;
            done.push_back(FileDone {
                id,
                op,
                buffer,
                extents: Vec::new(),
                result,
            });
        }
    }
}

impl<B: StableBuffer> InFlight<B> {
    /// Returns the entry for the rest of the request.
    fn entry(&mut self) -> squeue::Entry {
        let file = Fd(self.request.file.raw());
        let offset = self.request.offset_bytes + self.moved as u64;
        let rest = &mut self.request.buffer.bytes_mut()[self.moved..];
        let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        match self.request.op {
            FileOp::Read => opcode::Read::new(file, rest.as_mut_ptr(), length)
                .offset(offset)
                .build(),
            FileOp::Write { durable } => {
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                opcode::Write::new(file, rest.as_ptr(), length)
                    .offset(offset)
                    .rw_flags(flags)
                    .build()
            }
            FileOp::Sync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            op @ (FileOp::Punch { .. } | FileOp::Zero { .. }) => {
                let (flags, length_bytes) = op.fallocate().expect("both operations use fallocate");
                opcode::Fallocate::new(file, length_bytes)
                    .offset(self.request.offset_bytes)
                    .mode(flags.bits() as i32)
                    .build()
            }
            FileOp::Extents { .. } => unreachable!("io_uring cannot list extents"),
        }
    }

    /// Handles a completion. Returns the request's result, or `None` if the rest must be submitted
    /// again.
    fn complete(&mut self, result: i32) -> Option<io::Result<()>> {
        match result {
            n if n == -libc::EINTR || n == -libc::EAGAIN => None,
            n if n < 0 => Some(Err(io::Error::from_raw_os_error(-n))),
            // These operations move no bytes and return 0.
            _ if !matches!(self.request.op, FileOp::Read | FileOp::Write { .. }) => Some(Ok(())),
            0 => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            n => {
                self.moved += n as usize;
                (self.moved >= self.request.buffer.bytes_mut().len()).then_some(Ok(()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use hakaru_units::Time;

    use super::*;
    use crate::file::{FileHandle, FileQueue, io_uring_is_available};
    use crate::wait::Events;

    const TOKEN: Token = Token(3);

    /// Replaces the file behind descriptor `to` by that of `from`.
    fn duplicate(from: i32, to: i32) {
        // SAFETY: both descriptors are open, and their owners stay the same.
        assert_eq!(unsafe { libc::dup2(from, to) }, to);
    }

    #[test]
    fn requests_refused_by_the_kernel_are_reported_and_completed_by_a_retry() {
        if !io_uring_is_available() {
            eprintln!("skipped: this process may not use io_uring");
            return;
        }
        let reactor = Reactor::new().unwrap();
        let mut queue = FileQueue::new(&reactor, TOKEN).unwrap();
        let path = std::env::temp_dir().join(format!("hakaru-{}-refused", std::process::id()));
        let file = FileHandle::create(&path, 4096, false).unwrap();
        std::fs::remove_file(path).unwrap();
        let Some(uring) = &queue.uring else {
            panic!("io_uring is available");
        };
        let ring = uring.ring.as_raw_fd();
        // SAFETY: the ring is open.
        let saved_ring = unsafe { libc::dup(ring) };
        // Every submission to a descriptor that is not a ring fails.
        let null = File::open("/dev/null").unwrap();
        duplicate(null.as_raw_fd(), ring);
        // More requests than the ring has room for.
        for id in 0..600 {
            queue.submit(FileRequest {
                id,
                file: file.clone(),
                op: FileOp::Read,
                offset_bytes: 0,
                buffer: vec![1; 512],
            });
        }
        queue.flush();
        assert!(queue.must_retry());
        assert!(queue.poll_done().is_none());
        duplicate(saved_ring, ring);
        let mut events = Events::with_capacity(4);
        reactor.wait(&mut events, Some(Time::ZERO)).unwrap();
        assert_eq!(events.iter().count(), 0, "no event leads to the next flush");
        queue.flush();
        assert!(!queue.must_retry());
        let mut completed = 0;
        while completed < 600 {
            reactor.wait(&mut events, None).unwrap();
            queue.handle_event();
            completed += std::iter::from_fn(|| queue.poll_done()).count();
        }
    }
}
