//! Transmission: frames are written into the shared memory, and one system call sends up to 32.
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::SEND_SLOTS;
use super::memory::Area;
use super::socket::{Bound, Ring};
use crate::packet::frames::{FRAMES_MAX, FrameSender, is_full};

/// Length of the Ethernet header, which every frame has.
const ETHERNET_BYTES: usize = 14;

/// Frames queued for one interface.
pub struct XdpFrames {
    // The rings are declared before the socket, so that they are unmapped first.
    transmit: Ring,
    completion: Ring,
    socket: OwnedFd,
    /// Memory of the frames. Outlives the socket, whose kernel side reads it.
    memory: Area,
    slot_bytes: usize,
    /// Slots that the kernel does not use.
    free: Vec<u32>,
    /// Frames in the transmit ring that were queued and not accepted yet.
    queued: usize,
    /// Frames in the transmit ring that were discarded. They cannot be withdrawn, so the kernel still
    /// sends them, without their contents. They precede those queued.
    orphaned: usize,
    /// End of the transmit ring, and the position up to which the kernel took frames.
    produced: u32,
    consumed: u32,
}

impl XdpFrames {
    /// Takes over the transmit and completion rings of a socket.
    pub(super) fn new(bound: Bound, memory: Area, slot_bytes: usize) -> XdpFrames {
        XdpFrames {
            transmit: bound.transmit.expect("requested"),
            completion: bound.completion.expect("requested"),
            socket: bound.socket,
            memory,
            slot_bytes,
            free: (0..SEND_SLOTS).rev().collect(),
            queued: 0,
            orphaned: 0,
            produced: 0,
            consumed: 0,
        }
    }

    /// Reclaims the slots of frames that have left the interface.
    fn reclaim(&mut self) {
        let (mut position, produced) = self.completion.added();
        let first = self.memory.address(0);
        while position != produced {
            let place = self.completion.entry::<u64>(position);
            // SAFETY: the entry lies in the map and is aligned. The kernel wrote it before it moved
            // `producer`, and does not write to it again before `consumer` passes it.
            let address = unsafe { place.read() };
            // The kernel returns the addresses that it was given.
            let slot = (address - first) / self.slot_bytes as u64;
            debug_assert!(slot < u64::from(SEND_SLOTS));
            self.free.push(slot as u32);
            position = position.wrapping_add(1);
        }
        self.completion
            .consumer()
            .store(position, Ordering::Release);
    }
}

impl FrameSender for XdpFrames {
    fn room(&mut self) -> usize {
        let room = FRAMES_MAX.saturating_sub(self.queued + self.orphaned);
        if self.free.len() < room {
            self.reclaim();
        }
        room.min(self.free.len())
    }

    fn push(&mut self, emit: &mut dyn FnMut(&mut [u8]) -> usize) {
        let slot = self.free.pop().expect("there is room");
        let start = self.memory.address(slot as usize * self.slot_bytes);
        // SAFETY: the kernel has completed the previous frame of a free slot.
        let length = emit(unsafe { self.memory.at_mut(start, self.slot_bytes) });
        assert!(length <= self.slot_bytes);
        let descriptor = libc::xdp_desc {
            addr: start,
            len: length as u32,
            options: 0,
        };
        let place = self.transmit.entry::<libc::xdp_desc>(self.produced);
        // SAFETY: the entry lies in the map and is aligned. The kernel does not read it before
        // `producer` passes it: the ring is larger than the number of frames in it.
        unsafe { place.write(descriptor) };
        self.produced = self.produced.wrapping_add(1);
        self.queued += 1;
    }

    fn flush(&mut self) -> io::Result<usize> {
        self.transmit
            .producer()
            .store(self.produced, Ordering::Release);
        let mut accepted = 0;
        while self.consumed != self.produced {
            // SAFETY: no memory is passed.
            let result = unsafe {
                libc::sendto(
                    self.socket.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            let error = (result < 0).then(io::Error::last_os_error);
            let consumed = self.transmit.consumer().load(Ordering::Acquire);
            let taken = consumed.wrapping_sub(self.consumed) as usize;
            self.consumed = consumed;
            let discarded = taken.min(self.orphaned);
            self.orphaned -= discarded;
            self.queued -= taken - discarded;
            accepted += taken - discarded;
            // A call that reached its limit of frames also reports EAGAIN.
            match error {
                Some(error) if !is_full(&error) => return Err(error),
                _ if taken == 0 => break,
                _ => {}
            }
        }
        // The kernel completes most frames within the call.
        self.reclaim();
        Ok(accepted)
    }

    /// The receiver must not count a discarded frame, which its sender counts as unsent. So all bytes
    /// behind the Ethernet header become zero.
    fn discard(&mut self) {
        let queued = std::mem::take(&mut self.queued);
        let first = self.produced.wrapping_sub(queued as u32);
        for offset in 0..queued as u32 {
            let place = self
                .transmit
                .entry::<libc::xdp_desc>(first.wrapping_add(offset));
            // SAFETY: the entry lies in the map and is aligned. `push` wrote it, and the kernel only
            // reads it.
            let descriptor = unsafe { place.read() };
            let length = descriptor.len as usize;
            // SAFETY: the kernel copies a frame within `flush`, so it does not read the memory now.
            let frame = unsafe { self.memory.at_mut(descriptor.addr, length) };
            frame[ETHERNET_BYTES..].fill(0);
        }
        self.orphaned += queued;
    }
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;
    use std::os::fd::FromRawFd;

    use super::*;
    use crate::packet::frames::xdp::open_sender;
    use crate::packet::interface::Interface;

    #[test]
    fn frames_longer_than_a_page_are_refused_with_their_length() {
        let loopback = Interface::find("lo").unwrap();
        let error = open_sender(&loopback, 4097).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("4097"), "{error}");
    }

    /// Ethertype for local experiments (IEEE 802), which the kernel hands to no protocol.
    const ETHERTYPE: u16 = 0x88B5;

    /// Returns a socket that receives frames of the ethertype on the loopback interface.
    fn receiver(index: libc::c_uint) -> io::Result<OwnedFd> {
        // SAFETY: the call returns a new descriptor, which has no other owner.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            let fd = libc::socket(libc::AF_PACKET, kind, i32::from(ETHERTYPE.to_be()));
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: zero is a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ETHERTYPE.to_be();
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `address` is a `sockaddr_ll` of that length.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        if bound != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(socket)
    }

    /// Returns the frames that have arrived, each once.
    fn received(socket: &OwnedFd) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut memory = [0_u8; 2048];
        loop {
            // SAFETY: the kernel writes at most `memory.len()` bytes to `memory`.
            let length = unsafe {
                let flags = libc::MSG_DONTWAIT;
                libc::recv(
                    socket.as_raw_fd(),
                    memory.as_mut_ptr().cast(),
                    memory.len(),
                    flags,
                )
            };
            let Ok(length) = usize::try_from(length) else {
                return frames;
            };
            frames.push(memory[..length].to_vec());
        }
    }

    fn frame(number: u8) -> [u8; 60] {
        let mut frame = [number; 60];
        frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
        frame
    }

    #[test]
    fn a_discarded_frame_leaves_without_its_contents_and_is_not_accepted() {
        let loopback = Interface::find("lo").unwrap();
        // Raw sockets need CAP_NET_RAW, and some kernels lack AF_XDP.
        let (Ok(mut out), Ok(socket)) = (open_sender(&loopback, 60), receiver(loopback.index))
        else {
            return;
        };
        let push = |out: &mut XdpFrames, number: u8| {
            out.push(&mut |memory| {
                memory[..60].copy_from_slice(&frame(number));
                60
            });
        };
        push(&mut out, 1);
        push(&mut out, 2);
        out.discard();
        push(&mut out, 3);
        assert_eq!(out.flush().unwrap(), 1);
        let frames = received(&socket);
        for number in [1, 2] {
            let emptied = frames.iter().filter(|found| found[..12] == [number; 12]);
            let contents: Vec<_> = emptied.map(|found| &found[ETHERNET_BYTES..]).collect();
            assert!(!contents.is_empty());
            assert!(
                contents
                    .iter()
                    .all(|bytes| bytes.iter().all(|byte| *byte == 0))
            );
        }
        assert!(frames.contains(&frame(3).to_vec()));
    }
}
