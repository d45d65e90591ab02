//! Frames through AF_XDP in copy mode: frames and their descriptors lie in memory shared with the
//! kernel, and one system call sends up to 32 of them. Transmission needs no XDP program and no
//! root, only CAP_NET_RAW in the network namespace.
//!
//! Two rings have descriptors (`linux/if_xdp.h`). This process adds frames to the transmit ring. The
//! kernel takes them from there in the system call, and adds the addresses of those that have left
//! the interface to the completion ring.
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapMut, MmapOptions, MmapRaw};

use super::{FRAMES_MAX, FrameSender, is_full};
use crate::packet::interface::Interface;
use crate::packet::options::{set, set_size};

/// Number of frames in the shared memory, 2 or 4 MiB in total. It is locked, and 8 MiB is the usual
/// limit of a user.
const SLOTS: u32 = 1024;
/// Size of the ring of frames to be received, which must exist and stays unused.
const UNUSED_SLOTS: u32 = 64;
/// Lengths that a slot may have: powers of two from 2048 to the size of a page.
const SLOT_BYTES: [usize; 2] = [2048, 4096];
const SEND_BUFFER_BYTES: libc::c_int = 8 << 20;
/// Length of the Ethernet header, which every frame has.
const ETHERNET_BYTES: usize = 14;

/// Frames queued for one interface.
pub struct XdpFrames {
    // The rings are declared before the socket, so that they are unmapped first.
    transmit: Ring,
    completion: Ring,
    socket: OwnedFd,
    /// Memory of the frames. Outlives the socket, whose kernel side reads it.
    memory: MmapMut,
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

/// A ring shared with the kernel.
struct Ring {
    map: MmapRaw,
    offsets: libc::xdp_ring_offset,
    mask: u32,
}

impl XdpFrames {
    /// Opens the first queue of an interface for frames of up to `frame_bytes` bytes without FCS.
    ///
    /// # Errors
    /// The frames are longer than a page. The kernel lacks AF_XDP. CAP_NET_RAW is missing. The user
    /// may not lock the memory.
    pub fn open(interface: &Interface, frame_bytes: usize) -> io::Result<XdpFrames> {
        let Some(slot_bytes) = SLOT_BYTES.into_iter().find(|bytes| frame_bytes <= *bytes) else {
            let message = format!("frames of {frame_bytes} bytes do not fit into a page");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        // SAFETY: the call returns a new descriptor, which has no other owner.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            let fd = libc::socket(libc::AF_XDP, kind, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let memory = MmapOptions::new()
            .len(SLOTS as usize * slot_bytes)
            .populate()
            .map_anon()?;
        // SAFETY: zero is a valid `xdp_umem_reg`.
        let mut registration: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        registration.addr = memory.as_ptr() as u64;
        registration.len = memory.len() as u64;
        registration.chunk_size = slot_bytes as u32;
        set(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
        for (option, slots) in [
            (libc::XDP_UMEM_FILL_RING, UNUSED_SLOTS),
            (libc::XDP_UMEM_COMPLETION_RING, SLOTS),
            (libc::XDP_TX_RING, SLOTS),
        ] {
            set(&socket, libc::SOL_XDP, option, &slots)?;
        }
        let (forced, plain) = (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
        set_size(&socket, forced, plain, SEND_BUFFER_BYTES)?;
        let offsets = mmap_offsets(&socket)?;
        let transmit = Ring::map(
            &socket,
            libc::XDP_PGOFF_TX_RING as u64,
            offsets.tx,
            size_of::<libc::xdp_desc>(),
        )?;
        let completion = Ring::map(
            &socket,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING,
            offsets.cr,
            size_of::<u64>(),
        )?;
        bind(&socket, interface.index)?;
        Ok(XdpFrames {
            transmit,
            completion,
            socket,
            memory,
            slot_bytes,
            free: (0..SLOTS).rev().collect(),
            queued: 0,
            orphaned: 0,
            produced: 0,
            consumed: 0,
        })
    }

    /// Reclaims the slots of frames that have left the interface.
    fn reclaim(&mut self) {
        let consumer = self.completion.consumer();
        let produced = self.completion.producer().load(Ordering::Acquire);
        let mut position = consumer.load(Ordering::Relaxed);
        while position != produced {
            let place = self.completion.entry::<u64>(position);
            // SAFETY: the entry lies in the map and is aligned. The kernel wrote it before it moved
            // `producer`, and does not write to it again before `consumer` passes it.
            let address = unsafe { place.read() };
            let slot = address / self.slot_bytes as u64;
            // The kernel returns the addresses that it was given.
            debug_assert!(slot < u64::from(SLOTS));
            self.free.push(slot as u32);
            position = position.wrapping_add(1);
        }
        consumer.store(position, Ordering::Release);
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
        let start = slot as usize * self.slot_bytes;
        let length = emit(&mut self.memory[start..start + self.slot_bytes]);
        assert!(length <= self.slot_bytes);
        let descriptor = libc::xdp_desc {
            addr: start as u64,
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
            let start = descriptor.addr as usize;
            // The kernel copies a frame within `flush`, so it does not read the memory now.
            self.memory[start..start + descriptor.len as usize][ETHERNET_BYTES..].fill(0);
        }
        self.orphaned += queued;
    }
}

impl Ring {
    fn map(
        socket: &OwnedFd,
        page_offset: u64,
        offsets: libc::xdp_ring_offset,
        entry_bytes: usize,
    ) -> io::Result<Ring> {
        let map = MmapOptions::new()
            .offset(page_offset)
            .len(offsets.desc as usize + SLOTS as usize * entry_bytes)
            .populate()
            .map_raw(socket)?;
        Ok(Ring {
            map,
            offsets,
            mask: SLOTS - 1,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        self.position(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.position(self.offsets.consumer)
    }

    fn position(&self, offset: u64) -> &AtomicU32 {
        let place = self.map.as_mut_ptr().wrapping_add(offset as usize);
        // SAFETY: the kernel gave the offset of an aligned word in the map, which lives as long as
        // `self`. Both this process and the kernel access it atomically.
        unsafe { AtomicU32::from_ptr(place.cast()) }
    }

    /// Returns the place of the entry at a position of the ring.
    fn entry<T>(&self, position: u32) -> *mut T {
        let index = (position & self.mask) as usize;
        let start = self.map.as_mut_ptr();
        start
            .wrapping_add(self.offsets.desc as usize + index * size_of::<T>())
            .cast()
    }
}

/// Returns the layout of the rings.
fn mmap_offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: zero is a valid `xdp_mmap_offsets`.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `offsets`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            (&raw mut offsets).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if (length as usize) < size_of::<libc::xdp_mmap_offsets>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(offsets)
}

/// Binds the socket to the first queue of an interface, in copy mode.
fn bind(socket: &OwnedFd, index: libc::c_uint) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY,
        sxdp_ifindex: index,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: `address` is a `sockaddr_xdp` of that length.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

const _: () = assert!(SLOTS.is_power_of_two() && SLOTS as usize > 2 * FRAMES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_longer_than_a_page_are_refused_with_their_length() {
        let loopback = Interface::find("lo").unwrap();
        let error = XdpFrames::open(&loopback, 4097).err().unwrap();
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
        let (Ok(mut out), Ok(socket)) = (XdpFrames::open(&loopback, 60), receiver(loopback.index))
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
