//! File I/O through io_uring: one system call begins any number of requests, the ring itself tells the reactor.
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};

use super::{FileDone, FileOp, FileRequest, StableBuffer};
use crate::reactor::{Interest, Reactor, Token};

/// Requests handed to the kernel per call at most.
const SUBMISSIONS: u32 = 256;
/// Requests with the kernel at most, so that completions always find room. More wait here.
const IN_FLIGHT_MAX: usize = 4096;

/// A ring and what is with the kernel.
pub(super) struct Uring<B: StableBuffer> {
    ring: IoUring,
    /// Indexed by the `user_data` of an entry. While a slot is taken the kernel may read and write its buffer, so it is never
    /// dropped nor looked at before its completion; `ManuallyDrop` leaks what a dropped queue leaves behind.
    slots: Vec<Option<ManuallyDrop<InFlight<B>>>>,
    free: Vec<usize>,
    waiting: VecDeque<FileRequest<B>>,
}

struct InFlight<B> {
    request: FileRequest<B>,
    /// Bytes done by earlier, short, completions.
    moved: usize,
}

/// Makes a ring and checks that it can do what is needed.
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
        // A ring is readable while completions wait in it.
        reactor.register(descriptor, token, Interest::Level)?;
        Ok(Uring {
            ring,
            slots: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
        })
    }

    pub(super) fn submit(&mut self, request: FileRequest<B>) {
        self.waiting.push_back(request);
    }

    /// Begins what waits, takes what ended, until neither goes on.
    pub(super) fn flush(&mut self, done: &mut VecDeque<FileDone<B>>) {
        loop {
            self.fill();
            let pending = !self.ring.submission().is_empty();
            // Refused for the moment (EAGAIN, EBUSY, EINTR): the entries stay and go with the next call.
            let submitted = !pending || self.ring.submit().is_ok();
            let before = done.len();
            self.reap(done);
            // What was done in part only is queued again by `reap`; nobody else would submit it.
            let queued_again = submitted && !self.ring.submission().is_empty();
            let progress = done.len() > before || (pending && submitted) || queued_again;
            if !progress || (self.waiting.is_empty() && self.ring.submission().is_empty()) {
                return;
            }
        }
    }

    /// Moves what waits into the submission queue, as far as there is room.
    fn fill(&mut self) {
        while !self.waiting.is_empty()
            && self.slots.len() - self.free.len() < IN_FLIGHT_MAX
            && !self.ring.submission().is_full()
        {
            let Some(request) = self.waiting.pop_front() else {
                return;
            };
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
            self.slots[slot] = Some(ManuallyDrop::new(InFlight { request, moved: 0 }));
            self.push(slot);
        }
    }

    /// Queues the entry of a slot. There is room: the caller looked, or a completion has just made some.
    fn push(&mut self, slot: usize) {
        let in_flight = self.slots[slot].as_mut().expect("the slot was just filled");
        let entry = in_flight.entry().user_data(slot as u64);
        // SAFETY: the entry points into the request's buffer, which is stable (`StableBuffer`) and stays untouched in its slot
        // until the completion; the file is held open by the request.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            let _ = self.ring.submit();
        }
    }

    fn reap(&mut self, done: &mut VecDeque<FileDone<B>>) {
        loop {
            let Some(entry) = self.ring.completion().next() else {
                return;
            };
            let (slot, result) = (entry.user_data() as usize, entry.result());
            let in_flight = self.slots[slot]
                .as_mut()
                .expect("what completes was in flight");
            let Some(result) = in_flight.ended(result) else {
                self.push(slot);
                continue;
            };
            let in_flight = self.slots[slot].take().expect("looked at just now");
            self.free.push(slot);
            let FileRequest { id, op, buffer, .. } = ManuallyDrop::into_inner(in_flight).request;
            done.push_back(FileDone {
                id,
                op,
                buffer,
                result,
            });
        }
    }
}

impl<B: StableBuffer> InFlight<B> {
    /// What is left to do.
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
                let (flags, length_bytes) = op.fallocate().expect("these two are fallocate's");
                opcode::Fallocate::new(file, length_bytes)
                    .offset(self.request.offset_bytes)
                    .mode(flags.bits() as i32)
                    .build()
            }
        }
    }

    /// Takes a completion; `None` if the rest must be asked for again.
    fn ended(&mut self, result: i32) -> Option<io::Result<()>> {
        match result {
            n if n == -libc::EINTR || n == -libc::EAGAIN => None,
            n if n < 0 => Some(Err(io::Error::from_raw_os_error(-n))),
            // These move no bytes: 0 is all there is.
            _ if !matches!(self.request.op, FileOp::Read | FileOp::Write { .. }) => Some(Ok(())),
            0 => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            n => {
                self.moved += n as usize;
                (self.moved >= self.request.buffer.bytes_mut().len()).then_some(Ok(()))
            }
        }
    }
}
