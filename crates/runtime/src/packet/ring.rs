//! Receive ring shared with the kernel (TPACKET_V2): packets are read without a system call, and
//! its size does not depend on the socket's limits.
//!
//! A slot is as long as an ordinary frame. Of a longer packet (a super-frame, a jumbo frame) the
//! slot has the beginning, and the socket's queue has the whole, in the same order
//! (`PACKET_COPY_THRESH`). Long packets are then copied once, and slots need not be 65 000 bytes
//! long.
//!
//! Version 3, which [`crate::packet::capture`] uses, delivers packets in blocks, milliseconds late;
//! version 2 delivers each at once.
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::options::set;
use super::virtio::HEADER_BYTES;

/// The headers take about 75 bytes: a tagged frame of 1500 bytes fits.
const SLOT_BYTES: usize = 2048;
/// 16 MiB: the arrivals of 40 ms at 200 000 frames a second. Packets beyond that are lost if the
/// shell does not read in time.
const SLOTS: usize = 8192;
const BLOCK_BYTES: usize = 64 << 10;

/// A ring, mapped.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    map: MmapRaw,
    next: usize,
}

/// A packet as it lies in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot<'a> {
    /// Bytes from the Ethernet header on, truncated to the slot.
    pub(crate) bytes: &'a [u8],
    /// Length of the whole packet, bytes.
    pub(crate) length: usize,
    /// Whether the whole packet is next in the socket's queue.
    pub(crate) is_queued: bool,
    pub(crate) virtio: &'a [u8; HEADER_BYTES],
    /// Time stamp of the interface, ns (Unix time).
    pub(crate) realtime_ns: u64,
    /// 802.1Q tag that the kernel removed.
    pub(crate) tag: Option<[u8; 4]>,
}

impl ReceiveRing {
    /// Attaches a ring with virtio-net headers to an unbound socket.
    ///
    /// # Errors
    /// The kernel has no memory for it.
    pub(crate) fn new(socket: &OwnedFd) -> io::Result<ReceiveRing> {
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        set(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        // Any value above 0 queues the whole of packets that do not fit into a slot.
        set(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1_i32)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as libc::c_uint,
            tp_block_nr: (SLOTS * SLOT_BYTES / BLOCK_BYTES) as libc::c_uint,
            tp_frame_size: SLOT_BYTES as libc::c_uint,
            tp_frame_nr: SLOTS as libc::c_uint,
        };
        set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let map = MmapOptions::new().len(SLOTS * SLOT_BYTES).map_raw(socket)?;
        Ok(ReceiveRing { map, next: 0 })
    }

    /// Calls `take` with the next packet, if there is one (`None`: its slot is not valid), then
    /// frees its slot.
    pub(crate) fn next<R>(&mut self, take: impl FnOnce(Option<Slot<'_>>) -> R) -> Option<R> {
        let start = self.map.as_mut_ptr().wrapping_add(self.next * SLOT_BYTES);
        // SAFETY: the word lies in the map, is aligned, and is shared with the kernel by atomic
        // access on both sides.
        let status = unsafe { AtomicU32::from_ptr(start.cast()) };
        let flags = status.load(Ordering::Acquire);
        if flags & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot lies in the map, which lives as long as `self`; until the status is set
        // back, which is after the last use of the slice, neither the kernel nor this process
        // writes to it. The status, which is read atomically, is not part of it.
        let rest = unsafe {
            std::slice::from_raw_parts(start.wrapping_add(4).cast_const(), SLOT_BYTES - 4)
        };
        let result = take(slot_of(flags, rest));
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % SLOTS;
        Some(result)
    }
}

/// Parses the packet of a slot that begins with `status`. Offsets are checked against the slot.
fn slot_of(status: u32, rest: &[u8]) -> Option<Slot<'_>> {
    let word = |at: usize| Some(u32::from_ne_bytes(*rest.get(at - 4..)?.first_chunk()?));
    let half = |at: usize| Some(u16::from_ne_bytes(*rest.get(at - 4..)?.first_chunk()?));
    let begin = usize::from(half(offset_of!(libc::tpacket2_hdr, tp_mac))?).checked_sub(4)?;
    let length = word(offset_of!(libc::tpacket2_hdr, tp_snaplen))? as usize;
    let seconds = u64::from(word(offset_of!(libc::tpacket2_hdr, tp_sec))?);
    let content = half(offset_of!(libc::tpacket2_hdr, tp_vlan_tci))?;
    let kind = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
        half(offset_of!(libc::tpacket2_hdr, tp_vlan_tpid))?
    } else {
        0x8100
    };
    let ([a, b], [c, d]) = (kind.to_be_bytes(), content.to_be_bytes());
    Some(Slot {
        bytes: rest.get(begin..begin.checked_add(length)?)?,
        length: word(offset_of!(libc::tpacket2_hdr, tp_len))? as usize,
        is_queued: status & libc::TP_STATUS_COPY != 0,
        virtio: rest
            .get(begin.checked_sub(HEADER_BYTES)?..)?
            .first_chunk()?,
        realtime_ns: seconds * 1_000_000_000
            + u64::from(word(offset_of!(libc::tpacket2_hdr, tp_nsec))?),
        tag: (status & libc::TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d]),
    })
}

const _: () = assert!(
    size_of::<libc::tpacket2_hdr>() == 32 && (SLOTS * SLOT_BYTES).is_multiple_of(BLOCK_BYTES)
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the bytes after the status of a slot with the packet at offset `mac`.
    fn rest(mac: u16, here: u32, length: u32) -> Vec<u8> {
        let mut slot = vec![0; SLOT_BYTES];
        let mut put = |at: usize, bytes: &[u8]| slot[at..at + bytes.len()].copy_from_slice(bytes);
        put(
            offset_of!(libc::tpacket2_hdr, tp_len),
            &length.to_ne_bytes(),
        );
        put(
            offset_of!(libc::tpacket2_hdr, tp_snaplen),
            &here.to_ne_bytes(),
        );
        put(offset_of!(libc::tpacket2_hdr, tp_mac), &mac.to_ne_bytes());
        put(offset_of!(libc::tpacket2_hdr, tp_sec), &2_u32.to_ne_bytes());
        put(
            offset_of!(libc::tpacket2_hdr, tp_nsec),
            &3_u32.to_ne_bytes(),
        );
        put(
            offset_of!(libc::tpacket2_hdr, tp_vlan_tci),
            &5_u16.to_ne_bytes(),
        );
        put(usize::from(mac) - HEADER_BYTES, &[1; HEADER_BYTES]);
        put(usize::from(mac), &[7; 60]);
        slot.split_off(4)
    }

    #[test]
    fn a_slot_is_read_as_far_as_it_is_sound() {
        let whole = rest(76, 60, 60);
        let packet = Slot {
            bytes: &[7; 60],
            length: 60,
            is_queued: false,
            virtio: &[1; HEADER_BYTES],
            realtime_ns: 2_000_000_003,
            tag: None,
        };
        assert_eq!(slot_of(libc::TP_STATUS_USER, &whole), Some(packet));
        let tagged = Slot {
            tag: Some([0x81, 0, 0, 5]),
            ..packet
        };
        assert_eq!(slot_of(libc::TP_STATUS_VLAN_VALID, &whole), Some(tagged));
        let long = rest(76, 1972, 65_000);
        let queued = slot_of(libc::TP_STATUS_COPY, &long);
        let queued = queued.map(|slot| (slot.is_queued, slot.bytes.len(), slot.length));
        assert_eq!(queued, Some((true, 1972, 65_000)));
        assert_eq!(slot_of(1, &rest(76, 1973, 1973)), None, "it ends outside");
        assert_eq!(slot_of(1, &rest(76, u32::MAX, 60)), None);
        assert_eq!(
            slot_of(1, &rest(12, 60, 60)),
            None,
            "no room for its header"
        );
        assert_eq!(slot_of(1, &[]), None);
    }
}
