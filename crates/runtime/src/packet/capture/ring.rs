//! The ring of a capture (TPACKET_V3), into which the kernel copies packets of an interface in both
//! directions.
//!
//! The kernel fills blocks. A block that is full, or 20 ms old, belongs to this process until the
//! process returns it. If no block is free, packets are lost and counted. Only packets that pass
//! the filter are copied, up to the snap length. Opening a ring needs CAP_NET_RAW in the user
//! namespace of the network namespace, like [`crate::packet`]. The interface itself is not
//! affected, unless the options ask for frames to any address.
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::filter;
use super::options::RingOptions;
use crate::packet::options::{accept_all, bind, open_socket, set, take_statistics};

/// Size of a block, bytes. No packet is longer.
const BLOCK_BYTES: usize = 1 << 19;
/// Time after which the kernel hands over a block that is not full, ms.
const RETIRE_MS: u32 = 20;

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Timestamp, ns (Unix time): taken by the driver for received packets, and before the driver
    /// for sent ones.
    pub realtime_ns: u64,
    /// Bytes from the Ethernet header on, up to the snap length.
    pub bytes: &'a [u8],
    /// Length of the original packet, bytes.
    pub original_length: u32,
    /// 802.1Q tag that the kernel removed: type and content. It belongs after the two Ethernet
    /// addresses.
    pub tag: Option<(u16, u16)>,
}

/// An open capture ring.
#[derive(Debug)]
pub struct CaptureRing {
    // Declared before the socket, so that it is unmapped first.
    map: MmapRaw,
    socket: OwnedFd,
    blocks: usize,
    next: usize,
    down: bool,
    received: u64,
    dropped: u64,
}

impl CaptureRing {
    /// Opens an interface of this network namespace and starts the capture.
    ///
    /// # Errors
    /// The interface does not exist (`NotFound`), is down (`NetworkDown`) or has no Ethernet
    /// headers (`Unsupported`). CAP_NET_RAW is missing (`PermissionDenied`). The kernel has no
    /// memory for the ring (`OutOfMemory`). The options have too many ports (`InvalidInput`).
    pub fn open(interface: &str, options: &RingOptions) -> io::Result<CaptureRing> {
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: `name` is a C string for the length of the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ENODEV) => no_interface(),
                error => error,
            });
        }
        let socket = open_socket()?;
        let blocks = options.ring_bytes.div_ceil(BLOCK_BYTES).max(2);
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        // TPACKET_V3 ignores the frame size, but it must divide the block size.
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: BLOCK_BYTES as libc::c_uint,
            tp_frame_nr: blocks as libc::c_uint,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let map = MmapOptions::new()
            .len(blocks * BLOCK_BYTES)
            .map_raw(&socket)?;
        let loopback = bind_to(&socket, index, 0)? == libc::ARPHRD_LOOPBACK;
        // On loopback every packet passes twice, outgoing and incoming. Only one is captured.
        let program = filter::program(&options.selection, options.snap_bytes, loopback)?;
        filter::attach(&socket, program)?;
        if options.receives_all {
            set(
                &socket,
                libc::SOL_PACKET,
                libc::PACKET_IGNORE_OUTGOING,
                &1_i32,
            )?;
            accept_all(&socket, index)?;
        }
        bind_to(&socket, index, libc::ETH_P_ALL as u16)?;
        let ring = CaptureRing {
            map,
            socket,
            blocks,
            next: 0,
            down: false,
            received: 0,
            dropped: 0,
        };
        // Binding to an interface that is down succeeds but leaves a pending error.
        ring.take_error().map_or(Ok(ring), Err)
    }

    /// Waits until a block is ready, at most for `at_most`. An interface that is down is not an
    /// error, because it may come up again.
    ///
    /// # Errors
    /// The interface was removed (`NotFound`).
    pub fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let timeout = Timespec::try_from(at_most).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[0].revents().contains(PollFlags::ERR) {
            match self.take_error() {
                Some(error) if error.kind() == io::ErrorKind::NetworkDown => self.down = true,
                Some(error) => return Err(error),
                None => {}
            }
        }
        // The kernel reports that the interface went down, but not its removal afterwards.
        if self.down && address(&self.socket)?.sll_ifindex < 0 {
            return Err(no_interface());
        }
        Ok(())
    }

    /// Passes the packets of the ready blocks to `handle`, and returns each block to the kernel.
    /// Visits each block of the ring at most once.
    ///
    /// # Errors
    /// The first error of `handle`, which ends the call. The rest of the block is lost.
    pub fn take<E>(
        &mut self,
        handle: &mut dyn FnMut(Captured<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let status_at = offset_of!(libc::tpacket_block_desc, hdr)
            + offset_of!(libc::tpacket_hdr_v1, block_status);
        for _ in 0..self.blocks {
            let start = self.map.as_mut_ptr().wrapping_add(self.next * BLOCK_BYTES);
            // SAFETY: the word lies in the map and is aligned. Both this process and the kernel
            // access it atomically.
            let status = unsafe { AtomicU32::from_ptr(start.wrapping_add(status_at).cast()) };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            // SAFETY: the block lies in the map, which lives as long as `self`. Neither the kernel
            // nor this process writes to it before the status is reset, which is after the last
            // use of the slice.
            let block = unsafe { std::slice::from_raw_parts(start.cast_const(), BLOCK_BYTES) };
            let done = packets_of(block, handle);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.blocks;
            done?;
        }
        Ok(())
    }

    /// Stops the capture. The blocks of packets captured before are ready after
    /// [`CaptureRing::SETTLE_TIME`] at the latest.
    ///
    /// # Errors
    /// None on an open packet socket.
    pub fn stop(&mut self) -> io::Result<()> {
        filter::attach(&self.socket, filter::nothing())
    }

    /// Time after which all captured packets are in ready blocks: twice the time after which the
    /// kernel hands over a block that is not full.
    pub const SETTLE_TIME: Duration = Duration::from_millis(2 * RETIRE_MS as u64);

    /// Returns the number of packets that passed the filter so far, and how many of them were lost
    /// because no block was free.
    ///
    /// # Errors
    /// None on an open packet socket.
    pub fn counts(&mut self) -> io::Result<(u64, u64)> {
        let statistics = take_statistics(&self.socket)?;
        self.received += statistics.packets;
        self.dropped += statistics.dropped;
        Ok((self.received, self.dropped))
    }

    /// Returns and clears the pending error of the socket.
    fn take_error(&self) -> Option<io::Error> {
        match rustix::net::sockopt::socket_error(&self.socket) {
            Ok(Ok(())) => None,
            Ok(Err(error)) | Err(error) => Some(error.into()),
        }
    }
}

fn no_interface() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no such interface")
}

/// Passes each packet of a block to `handle`, in the order of their timestamps. Packets that do not
/// lie within the block are skipped.
///
/// CPUs write to a block at the same time. One that has taken a timestamp may find that another CPU
/// with a later one was faster, and a reader of the capture would take this for a wrong time.
fn packets_of<E>(
    block: &[u8],
    handle: &mut dyn FnMut(Captured<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut packets = Vec::new();
    let head = offset_of!(libc::tpacket_block_desc, hdr);
    let count = word(block, head + offset_of!(libc::tpacket_hdr_v1, num_pkts));
    let first = head + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);
    let mut at = word(block, first).unwrap_or(0) as usize;
    for _ in 0..count.unwrap_or(0) {
        packets.extend(packet_at(block, at));
        match word(block, at + offset_of!(libc::tpacket3_hdr, tp_next_offset)) {
            Some(step) if step > 0 => at += step as usize,
            _ => break,
        }
    }
    packets.sort_by_key(|packet| packet.realtime_ns);
    packets.into_iter().try_for_each(handle)
}

/// Parses the packet whose header is at `at`. `None` if it does not lie within the block.
fn packet_at(block: &[u8], at: usize) -> Option<Captured<'_>> {
    let field = |offset: usize| word(block, at + offset);
    let more = offset_of!(libc::tpacket3_hdr, hv1);
    let length = field(offset_of!(libc::tpacket3_hdr, tp_snaplen))? as usize;
    let begin = at + usize::from(half(block, at + offset_of!(libc::tpacket3_hdr, tp_mac))?);
    let status = field(offset_of!(libc::tpacket3_hdr, tp_status))?;
    let content = field(more + offset_of!(libc::tpacket_hdr_variant1, tp_vlan_tci))? as u16;
    let kind = at + more + offset_of!(libc::tpacket_hdr_variant1, tp_vlan_tpid);
    let kind = half(block, kind)?;
    let has_kind = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let seconds = u64::from(field(offset_of!(libc::tpacket3_hdr, tp_sec))?);
    Some(Captured {
        realtime_ns: seconds * 1_000_000_000
            + u64::from(field(offset_of!(libc::tpacket3_hdr, tp_nsec))?),
        bytes: block.get(begin..begin + length)?,
        original_length: field(offset_of!(libc::tpacket3_hdr, tp_len))?,
        tag: (status & libc::TP_STATUS_VLAN_VALID != 0)
            .then_some((if has_kind { kind } else { 0x8100 }, content)),
    })
}

fn word(block: &[u8], at: usize) -> Option<u32> {
    let bytes = block.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

fn half(block: &[u8], at: usize) -> Option<u16> {
    let bytes = block.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_ne_bytes(bytes))
}

/// Binds a socket to an interface and returns its hardware type. With protocol 0 the socket
/// receives no packets.
fn bind_to(socket: &OwnedFd, index: libc::c_uint, protocol: u16) -> io::Result<u16> {
    bind(socket, index, protocol)?;
    match address(socket)?.sll_hatype {
        kind @ (libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) => Ok(kind),
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "its packets have no Ethernet header",
        )),
    }
}

/// Returns the address that the socket is bound to. Its interface index is -1 after the interface's
/// removal.
fn address(socket: &OwnedFd) -> io::Result<libc::sockaddr_ll> {
    // SAFETY: zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a `sockaddr_ll` of that length.
    let result = unsafe {
        libc::getsockname(
            socket.as_raw_fd(),
            (&raw mut address).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(address)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a block as the kernel lays it out. A packet is its offset, its length and the offset
    /// of the next packet from it.
    fn block(count: u32, packets: &[(usize, u32, u32)]) -> Vec<u8> {
        let mut block = vec![0; 4096];
        let head = offset_of!(libc::tpacket_block_desc, hdr);
        let mut put =
            |at: usize, value: u32| block[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        put(head + offset_of!(libc::tpacket_hdr_v1, num_pkts), count);
        let first = offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt);
        put(
            head + first,
            packets.first().map_or(0, |packet| packet.0 as u32),
        );
        for &(at, length, step) in packets {
            put(at + offset_of!(libc::tpacket3_hdr, tp_next_offset), step);
            put(at + offset_of!(libc::tpacket3_hdr, tp_sec), 2);
            put(at + offset_of!(libc::tpacket3_hdr, tp_nsec), 3);
            put(at + offset_of!(libc::tpacket3_hdr, tp_snaplen), length);
            put(at + offset_of!(libc::tpacket3_hdr, tp_len), 1500);
            put(at + offset_of!(libc::tpacket3_hdr, tp_mac), 80);
        }
        block
    }

    fn parsed(block: &[u8]) -> Vec<(u64, usize, u32)> {
        let mut packets = Vec::new();
        let done: Result<(), ()> = packets_of(block, &mut |packet| {
            packets.push((
                packet.realtime_ns,
                packet.bytes.len(),
                packet.original_length,
            ));
            Ok(())
        });
        assert_eq!(done, Ok(()));
        packets
    }

    #[test]
    fn the_valid_packets_of_a_block_are_parsed() {
        let time = 2_000_000_003;
        assert_eq!(
            parsed(&block(2, &[(48, 60, 160), (208, 96, 0)])),
            [(time, 60, 1500), (time, 96, 1500)]
        );
        assert_eq!(parsed(&block(0, &[])), []);
        // The count exceeds the number of packets, a packet exceeds the block, and the next packet
        // would be beyond the end of the block.
        assert_eq!(parsed(&block(9, &[(48, 60, 0)])), [(time, 60, 1500)]);
        assert_eq!(
            parsed(&block(2, &[(48, 5000, 160), (208, 1, 0)])),
            [(time, 1, 1500)]
        );
        assert_eq!(parsed(&block(2, &[(48, 60, u32::MAX)])), [(time, 60, 1500)]);
        assert_eq!(parsed(&[]), []);
    }

    #[test]
    fn packets_of_a_block_are_passed_in_the_order_of_their_timestamps() {
        let mut block = block(3, &[(48, 60, 160), (208, 96, 144), (352, 72, 0)]);
        let nanoseconds = 48 + offset_of!(libc::tpacket3_hdr, tp_nsec);
        block[nanoseconds..nanoseconds + 4].copy_from_slice(&4_u32.to_ne_bytes());
        let (early, late) = (2_000_000_003, 2_000_000_004);
        assert_eq!(
            parsed(&block),
            [(early, 96, 1500), (early, 72, 1500), (late, 60, 1500)]
        );
    }

    #[test]
    fn the_first_error_ends_the_block() {
        let mut seen = 0;
        let done = packets_of(&block(2, &[(48, 60, 160), (208, 96, 0)]), &mut |_| {
            seen += 1;
            Err("full")
        });
        assert_eq!((done, seen), (Err("full"), 1));
    }
}
