//! Reception: packets are copied from a [`ReceiveRing`] into reusable buffers.
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use hakaru_units::Time;

use super::clocks::Clocks;
use super::frame::{PACKET_BYTES_MAX, Received};
use super::ring::{ReceiveRing, Slot};
use super::virtio::{HEADER_BYTES, VirtioHeader};

const TAG_AT: usize = 12;

/// Sizes of buffers, each with how many are kept for later.
const CLASSES: [(usize, usize); 3] = [
    (2 << 10, 16_384),
    (12 << 10, 4096),
    (PACKET_BYTES_MAX, 1024),
];

/// Memory for packets, and the clocks for their time stamps.
#[derive(Default)]
pub struct Inbox {
    clocks: Clocks,
    spare: [Vec<Vec<u8>>; CLASSES.len()],
}

/// Reason why a received packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Super-frame of an unsupported protocol, or a packet that is too long.
    Unknown,
    /// The socket's queue had no room for the whole packet.
    NoRoom,
}

impl Inbox {
    /// Returns the next packet of a ring, if there is one. `socket`: the socket of the ring.
    pub(crate) fn receive(
        &mut self,
        ring: &mut ReceiveRing,
        socket: BorrowedFd<'_>,
    ) -> Option<Result<Received, Gone>> {
        ring.next(|slot| self.take(slot.ok_or(Gone::Unknown)?, socket))
    }

    fn take(&mut self, slot: Slot<'_>, socket: BorrowedFd<'_>) -> Result<Received, Gone> {
        let Slot {
            virtio,
            realtime_ns,
            tag,
            ..
        } = slot;
        let tag = tag.filter(|_| slot.length >= TAG_AT);
        let offload = VirtioHeader::parse(virtio).offload(4 * u16::from(tag.is_some()));
        let mut bytes = if slot.is_queued {
            self.take_queued(slot.length, socket)?
        } else if slot.length > slot.bytes.len() {
            return Err(Gone::NoRoom);
        } else {
            let mut bytes = self.claim(slot.length);
            bytes.extend_from_slice(slot.bytes);
            bytes
        };
        if let Some(tag) = tag {
            bytes.splice(TAG_AT..TAG_AT, tag);
        }
        let Some(offload) = offload else {
            self.give_back(bytes);
            return Err(Gone::Unknown);
        };
        Ok(Received {
            bytes,
            offload,
            at: self.came_at(realtime_ns),
        })
    }

    /// Converts the interface's time stamp. Never later than now, even after the real-time clock
    /// was set.
    fn came_at(&mut self, realtime_ns: u64) -> Time {
        let at = self.clocks.monotonic(realtime_ns.into());
        if let Some(at) = at.filter(|at| *at <= self.clocks.now) {
            return at;
        }
        self.clocks = Clocks::read();
        let at = self.clocks.monotonic(realtime_ns.into());
        at.map_or(self.clocks.now, |at| at.min(self.clocks.now))
    }

    /// Reads a packet of the given length from the socket's queue.
    fn take_queued(&mut self, length: usize, socket: BorrowedFd<'_>) -> Result<Vec<u8>, Gone> {
        let mut header = [0_u8; HEADER_BYTES];
        let mut bytes = self.claim(length);
        // A packet that is too long is removed from the queue, too.
        let room = bytes.spare_capacity_mut();
        let slices = [
            libc::iovec {
                iov_base: header.as_mut_ptr().cast(),
                iov_len: header.len(),
            },
            libc::iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: room.len(),
            },
        ];
        let read = || {
            // SAFETY: the slices are `header` and the spare capacity of `bytes`, each with its
            // length.
            let got = unsafe { libc::readv(socket.as_raw_fd(), slices.as_ptr(), 2) };
            usize::try_from(got).map_err(|_| io::Error::last_os_error())
        };
        // The socket may first report that its interface was down.
        let got = read().or_else(|_| read()).unwrap_or(0);
        if got != HEADER_BYTES + length {
            self.give_back(bytes);
            return Err(if length > PACKET_BYTES_MAX {
                Gone::Unknown
            } else {
                Gone::NoRoom
            });
        }
        // SAFETY: the kernel wrote so many bytes behind the header.
        unsafe { bytes.set_len(length) };
        Ok(bytes)
    }

    /// Reads the clocks again, for the packets that follow.
    pub fn look(&mut self) {
        self.clocks = Clocks::read();
    }

    /// Recycles the buffer of a packet.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        // The largest class whose length the buffer has.
        let class = CLASSES
            .iter()
            .rposition(|(bytes, _)| buffer.capacity() >= *bytes);
        if let Some(class) = class.filter(|class| self.spare[*class].len() < CLASSES[*class].1) {
            self.spare[class].push(buffer);
        }
    }

    /// Returns an empty buffer for a packet of this length, at most of the longest.
    fn claim(&mut self, length: usize) -> Vec<u8> {
        // Leaves room for a tag to be inserted.
        let class = CLASSES
            .iter()
            .position(|(bytes, _)| length + 4 <= *bytes)
            .unwrap_or(CLASSES.len() - 1);
        let spare = self.spare[class].pop();
        spare.unwrap_or_else(|| Vec::with_capacity(CLASSES[class].0))
    }
}

#[cfg(test)]
mod tests {
    use rustix::time::{ClockId, clock_gettime};

    use super::*;
    use crate::wait::clock;

    #[test]
    fn buffers_are_as_long_as_their_packets_and_used_again() {
        let mut inbox = Inbox::default();
        let short = inbox.claim(100);
        assert_eq!((short.len(), short.capacity()), (0, CLASSES[0].0));
        let tagged = inbox.claim(CLASSES[0].0 - 3);
        assert_eq!(tagged.capacity(), CLASSES[1].0, "a tag has room");
        assert_eq!(inbox.claim(1 << 20).capacity(), CLASSES[2].0);
        let place = short.as_ptr();
        inbox.give_back(short);
        let next = inbox.claim(60);
        assert_eq!(next.as_ptr(), place);
    }

    #[test]
    fn a_stamp_of_the_future_counts_as_now() {
        let mut inbox = Inbox::default();
        inbox.look();
        let real = clock_gettime(ClockId::Realtime).tv_sec as u64 * 1_000_000_000;
        let hour = 3600 * 1_000_000_000;
        let (before, after) = (inbox.came_at(real - hour), inbox.came_at(real + hour));
        let now = clock::now();
        assert!(now.ns_since(before) >= hour && after <= now);
        assert!(now.ns_since(after) < hour);
    }
}
