//! Reception of packets: copies them from a [`ReceiveRing`] into reusable buffers.
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use hakaru_units::Time;

use super::clocks::Clocks;
use super::frame::{PACKET_BYTES_MAX, Received};
use super::ring::{ReceiveRing, Slot};
use super::virtio::{HEADER_BYTES, VirtioHeader};

/// Offset of an 802.1Q tag, after the two Ethernet addresses.
const TAG_AT: usize = 12;

/// Size classes of buffers: length in bytes, and maximum number kept for reuse.
const CLASSES: [(usize, usize); 3] = [
    (2 << 10, 16_384),
    (12 << 10, 4096),
    (PACKET_BYTES_MAX, 1024),
];

/// Buffers for packets, and the clocks for their timestamps.
#[derive(Default)]
pub struct Inbox {
    clocks: Clocks,
    spare: [Vec<Vec<u8>>; CLASSES.len()],
}

/// Reason why a received packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The packet is a super-frame of an unsupported protocol, is too long, or has an invalid slot.
    Unknown,
    /// The socket's queue had no room for the entire packet.
    NoRoom,
}

impl Inbox {
    /// Returns the next packet of the ring of `socket`, if there is one.
    pub(crate) fn receive(
        &mut self,
        ring: &mut ReceiveRing,
        socket: BorrowedFd<'_>,
    ) -> Option<Result<Received, LossCause>> {
        ring.next(|slot| self.take(slot.ok_or(LossCause::Unknown)?, socket))
    }

    fn take(&mut self, slot: Slot<'_>, socket: BorrowedFd<'_>) -> Result<Received, LossCause> {
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
            return Err(LossCause::NoRoom);
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
            return Err(LossCause::Unknown);
        };
        Ok(Received {
            bytes,
            offload,
            at: self.received_at(realtime_ns),
        })
    }

    /// Converts the interface's timestamp. Returns an instant that is never in the future, even
    /// after the real-time clock was set.
    fn received_at(&mut self, realtime_ns: u64) -> Time {
        let at = self.clocks.monotonic(realtime_ns.into());
        if let Some(at) = at.filter(|at| *at <= self.clocks.now) {
            return at;
        }
        self.clocks = Clocks::read();
        let at = self.clocks.monotonic(realtime_ns.into());
        at.map_or(self.clocks.now, |at| at.min(self.clocks.now))
    }

    /// Reads a packet of the given length from the socket's queue.
    fn take_queued(&mut self, length: usize, socket: BorrowedFd<'_>) -> Result<Vec<u8>, LossCause> {
        let mut header = [0_u8; HEADER_BYTES];
        let mut bytes = self.claim(length);
        // The read also removes a packet that is too long from the queue.
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
        // The first read may report that the interface was down, and only the second the packet.
        let got = read().or_else(|_| read()).unwrap_or(0);
        if got != HEADER_BYTES + length {
            self.give_back(bytes);
            return Err(if length > PACKET_BYTES_MAX {
                LossCause::Unknown
            } else {
                LossCause::NoRoom
            });
        }
        // SAFETY: the kernel wrote `length` bytes after the header.
        unsafe { bytes.set_len(length) };
        Ok(bytes)
    }

    /// Reads the clocks that convert the timestamps of the following packets.
    pub fn refresh_clocks(&mut self) {
        self.clocks = Clocks::read();
    }

    /// Keeps the buffer of a packet for reuse.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        // The largest class that the buffer is long enough for.
        let class = CLASSES
            .iter()
            .rposition(|(bytes, _)| buffer.capacity() >= *bytes);
        if let Some(class) = class.filter(|class| self.spare[*class].len() < CLASSES[*class].1) {
            self.spare[class].push(buffer);
        }
    }

    /// Returns an empty buffer with room for a packet of this length and a tag, or a buffer of the
    /// largest class.
    pub(crate) fn claim(&mut self, length: usize) -> Vec<u8> {
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
    fn buffers_fit_their_packets_and_are_reused() {
        let mut inbox = Inbox::default();
        let short = inbox.claim(100);
        assert_eq!((short.len(), short.capacity()), (0, CLASSES[0].0));
        let tagged = inbox.claim(CLASSES[0].0 - 3);
        assert_eq!(
            tagged.capacity(),
            CLASSES[1].0,
            "the tag needs the next larger class"
        );
        assert_eq!(inbox.claim(1 << 20).capacity(), CLASSES[2].0);
        let place = short.as_ptr();
        inbox.give_back(short);
        let next = inbox.claim(60);
        assert_eq!(next.as_ptr(), place);
    }

    #[test]
    fn a_timestamp_in_the_future_counts_as_now() {
        let mut inbox = Inbox::default();
        inbox.refresh_clocks();
        let real = clock_gettime(ClockId::Realtime).tv_sec as u64 * 1_000_000_000;
        // The monotonic clock may have begun only seconds ago.
        let second = 1_000_000_000;
        let (before, after) = (
            inbox.received_at(real - second),
            inbox.received_at(real + 3600 * second),
        );
        let now = clock::now();
        assert!(now.ns_since(before) >= second && after <= now);
        assert!(now.ns_since(after) < second);
    }
}
