//! Transfers through io_uring. The ring's descriptor is readable while completions wait, so epoll watches it as any other.
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};

use super::{Direction, Finished, Transfer};
use crate::reactor::{Interest, Reactor, Token};

/// Most entries that a kernel gives.
const ENTRIES_MAX: usize = 32_768;

struct InFlight {
    transfer: Transfer,
    /// Bytes moved by completions that came up short.
    moved: usize,
}

pub(super) struct Ring {
    ring: IoUring,
    /// By the entry's `user_data`.
    slots: Vec<Option<InFlight>>,
    free: Vec<usize>,
    depth: usize,
}

impl Ring {
    pub(super) fn new(reactor: &Reactor, token: Token, depth: usize) -> io::Result<Ring> {
        let entries = depth.clamp(1, ENTRIES_MAX).next_power_of_two();
        let ring = IoUring::builder().setup_clamp().build(entries as u32)?;
        // SAFETY: the descriptor belongs to `ring` and is open during this call; closing it deregisters it.
        let descriptor = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
        reactor.register(descriptor, token, Interest::Level)?;
        Ok(Ring { ring, slots: Vec::new(), free: Vec::new(), depth })
    }

    pub(super) fn start(&mut self, transfer: Transfer) {
        let slot = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < self.depth, "more transfers than the disk was made for");
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(InFlight { transfer, moved: 0 });
        self.push(slot);
    }

    /// Queues what is left of the transfer in `slot`.
    fn push(&mut self, slot: usize) {
        let InFlight { transfer, moved } = self.slots[slot].as_mut().expect("the slot holds a transfer");
        let fd = types::Fd(transfer.volume.fd.as_raw_fd());
        let rest = &mut transfer.buffer.bytes_mut()[*moved..transfer.length];
        let (pointer, length) = (rest.as_mut_ptr(), rest.len() as u32);
        let offset = transfer.offset_bytes + *moved as u64;
        let entry = match transfer.direction {
            Direction::Read => opcode::Read::new(fd, pointer, length).offset(offset).build(),
            Direction::Write => opcode::Write::new(fd, pointer, length).offset(offset).build(),
        };
        let entry = entry.user_data(slot as u64);
        loop {
            // SAFETY: descriptor and memory stay in `slots` until the completion of this entry was seen, and `Drop` waits
            // for every completion; the memory is a mapping of its own, which does not move with the struct.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            // Full: the kernel takes what is there, which makes room.
            let _ = self.ring.submit();
        }
    }

    pub(super) fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        match self.ring.submit() {
            // Interrupted, or completions must be taken first: what is queued goes with the next call.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    pub(super) fn poll_finished(&mut self) -> Option<Finished> {
        loop {
            let completion = self.ring.completion().next()?;
            let slot = completion.user_data() as usize;
            let in_flight = self.slots[slot].as_mut().expect("completions are of transfers in flight");
            let result = match completion.result() {
                error if -error == libc::EINTR || -error == libc::EAGAIN => {
                    self.push(slot);
                    continue;
                }
                error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
                moved => {
                    in_flight.moved += moved as usize;
                    if moved > 0 && in_flight.moved < in_flight.transfer.length {
                        self.push(slot);
                        continue;
                    }
                    Ok(in_flight.moved)
                }
            };
            let InFlight { transfer, .. } = self.slots[slot].take().expect("seen above");
            self.free.push(slot);
            return Some(Finished { id: transfer.id, result, buffer: transfer.buffer });
        }
    }
}

impl Drop for Ring {
    /// The kernel may still write into buffers of transfers in flight: they are waited for.
    fn drop(&mut self) {
        while self.slots.len() > self.free.len() {
            if self.ring.submit_and_wait(1).is_err_and(|e| e.kind() != io::ErrorKind::Interrupted) {
                // Leaking is safe where freeing is not.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
            while self.poll_finished().is_some() {}
        }
    }
}
