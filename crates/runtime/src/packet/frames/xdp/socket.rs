//! Sockets of AF_XDP and the rings that they share with the kernel.
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::memory::Area;
use crate::packet::interface::Interface;
use crate::packet::options::{set, set_size};

const SEND_BUFFER_BYTES: libc::c_int = 8 << 20;

/// A socket that is not bound yet.
pub(super) struct XdpSocket(OwnedFd);

/// Numbers of entries of the rings of a socket, powers of two. `None`: it has no such ring.
#[derive(Clone, Copy, Default)]
pub(super) struct Sizes {
    pub(super) fill: Option<u32>,
    pub(super) completion: Option<u32>,
    pub(super) transmit: Option<u32>,
    pub(super) receive: Option<u32>,
}

/// A socket bound to a queue of an interface, and its rings.
pub(super) struct Bound {
    // The rings are declared before the socket, so that they are unmapped first.
    pub(super) fill: Option<Ring>,
    pub(super) completion: Option<Ring>,
    pub(super) transmit: Option<Ring>,
    pub(super) receive: Option<Ring>,
    pub(super) socket: OwnedFd,
}

impl XdpSocket {
    pub(super) fn new() -> io::Result<XdpSocket> {
        // SAFETY: the call returns a new descriptor, which has no other owner.
        unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            let fd = libc::socket(libc::AF_XDP, kind, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(XdpSocket(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Shares the memory of which `area` is a part with the kernel.
    pub(super) fn share(&self, area: &Area, slot_bytes: usize) -> io::Result<()> {
        // SAFETY: zero is a valid `xdp_umem_reg`.
        let mut registration: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        (registration.addr, registration.len) = area.of_all();
        registration.chunk_size = slot_bytes as u32;
        set(&self.0, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
    }

    /// Binds the socket to a queue of an interface, in copy mode. `memory_of` is another socket whose
    /// memory it uses; if that is bound to the same queue, it has the fill and completion rings.
    pub(super) fn bind(
        self,
        interface: &Interface,
        queue: u32,
        memory_of: Option<&OwnedFd>,
        sizes: Sizes,
    ) -> io::Result<Bound> {
        let socket = self.0;
        for (option, size) in [
            (libc::XDP_UMEM_FILL_RING, sizes.fill),
            (libc::XDP_UMEM_COMPLETION_RING, sizes.completion),
            (libc::XDP_TX_RING, sizes.transmit),
            (libc::XDP_RX_RING, sizes.receive),
        ] {
            if let Some(size) = size {
                set(&socket, libc::SOL_XDP, option, &size)?;
            }
        }
        if sizes.transmit.is_some() {
            let (forced, plain) = (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
            set_size(&socket, forced, plain, SEND_BUFFER_BYTES)?;
        }
        let offsets = mmap_offsets(&socket)?;
        let map = |size: Option<u32>, page, offsets, entry_bytes| {
            size.map(|size| Ring::map(&socket, page, offsets, size, entry_bytes))
                .transpose()
        };
        let (descriptor, address) = (size_of::<libc::xdp_desc>(), size_of::<u64>());
        let (fill_at, completion_at) = (
            libc::XDP_UMEM_PGOFF_FILL_RING,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING,
        );
        let (transmit_at, receive_at) = (libc::XDP_PGOFF_TX_RING, libc::XDP_PGOFF_RX_RING);
        let fill = map(sizes.fill, fill_at, offsets.fr, address)?;
        let completion = map(sizes.completion, completion_at, offsets.cr, address)?;
        let transmit = map(sizes.transmit, transmit_at as u64, offsets.tx, descriptor)?;
        let receive = map(sizes.receive, receive_at as u64, offsets.rx, descriptor)?;
        bind_to(&socket, interface.index, queue, memory_of)?;
        Ok(Bound {
            fill,
            completion,
            transmit,
            receive,
            socket,
        })
    }
}

/// A ring shared with the kernel.
pub(super) struct Ring {
    map: MmapRaw,
    offsets: libc::xdp_ring_offset,
    mask: u32,
}

impl Ring {
    fn map(
        socket: &OwnedFd,
        page_offset: u64,
        offsets: libc::xdp_ring_offset,
        size: u32,
        entry_bytes: usize,
    ) -> io::Result<Ring> {
        assert!(size.is_power_of_two());
        let map = MmapOptions::new()
            .offset(page_offset)
            .len(offsets.desc as usize + size as usize * entry_bytes)
            .populate()
            .map_raw(socket)?;
        Ok(Ring {
            map,
            offsets,
            mask: size - 1,
        })
    }

    /// Returns the number of entries.
    pub(super) fn size(&self) -> u32 {
        self.mask + 1
    }

    /// Returns the position up to which entries were added.
    pub(super) fn producer(&self) -> &AtomicU32 {
        self.position(self.offsets.producer)
    }

    /// Returns the position up to which entries were taken.
    pub(super) fn consumer(&self) -> &AtomicU32 {
        self.position(self.offsets.consumer)
    }

    /// Returns the position of the next entry to take, and that after the last one that the kernel
    /// added.
    pub(super) fn added(&self) -> (u32, u32) {
        let produced = self.producer().load(Ordering::Acquire);
        (self.consumer().load(Ordering::Relaxed), produced)
    }

    fn position(&self, offset: u64) -> &AtomicU32 {
        let place = self.map.as_mut_ptr().wrapping_add(offset as usize);
        // SAFETY: the kernel gave the offset of an aligned word in the map, which lives as long as
        // `self`. Both this process and the kernel access it atomically.
        unsafe { AtomicU32::from_ptr(place.cast()) }
    }

    /// Returns the place of the entry at a position of the ring.
    pub(super) fn entry<T>(&self, position: u32) -> *mut T {
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
    let length = get(socket, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    if length < size_of::<libc::xdp_mmap_offsets>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(offsets)
}

/// Returns the number of frames for which the socket had no room.
pub(super) fn dropped(socket: &OwnedFd) -> io::Result<u64> {
    // SAFETY: zero is a valid `xdp_statistics`.
    let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
    get(socket, libc::XDP_STATISTICS, &mut statistics)?;
    // `rx_dropped` includes frames without a slot of the fill ring.
    Ok(statistics.rx_dropped + statistics.rx_ring_full)
}

/// Reads a socket option of AF_XDP. Returns the number of bytes written to `value`.
fn get<T>(socket: &OwnedFd, option: libc::c_int, value: &mut T) -> io::Result<usize> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`, a structure of integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_mut(value).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn bind_to(
    socket: &OwnedFd,
    index: libc::c_uint,
    queue: u32,
    memory_of: Option<&OwnedFd>,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        // A socket that shares memory inherits the mode.
        sxdp_flags: if memory_of.is_some() {
            libc::XDP_SHARED_UMEM
        } else {
            libc::XDP_COPY
        },
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: memory_of.map_or(0, |socket| socket.as_raw_fd() as u32),
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
