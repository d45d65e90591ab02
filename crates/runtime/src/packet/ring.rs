//! Receive ring shared with the kernel (TPACKET_V2). Packets are read without a system call, and
//! the limits of socket buffers do not apply.
//!
//! A slot is as long as an ordinary frame. The slot of a longer packet (a super-frame or jumbo
//! frame) has only its beginning; the socket's queue has the entire packet, in the same order
//! (`PACKET_COPY_THRESH`). Slots therefore need not be 65 000 bytes long.
//!
//! Version 3, which [`crate::packet::capture`] uses, delivers packets in blocks, milliseconds late.
//! Version 2 delivers each packet at once.
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::options::set;
use super::virtio::HEADER_BYTES;

/// Length of a slot, bytes. The headers take about 75 bytes, so a tagged frame with 1500 bytes of
/// payload fits.
const SLOT_BYTES: usize = 2048;
/// Number of slots, 16 MiB in total: the arrivals of 40 ms at 200 000 frames/s. Packets are lost if
/// the shell does not read for longer.
const SLOTS: usize = 8192;
const BLOCK_BYTES: usize = 64 << 10;

/// A mapped receive ring.
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
    /// Length of the entire packet, bytes.
    pub(crate) length: usize,
    /// Whether the entire packet is next in the socket's queue.
    pub(crate) is_queued: bool,
    /// virtio-net header.
    pub(crate) virtio: &'a [u8; HEADER_BYTES],
    /// Timestamp of the interface, ns (Unix time).
    pub(crate) realtime_ns: u64,
    /// 802.1Q tag that the kernel removed.
    pub(crate) tag: Option<[u8; 4]>,
}

impl ReceiveRing {
    /// Attaches a ring with virtio-net headers to an unbound socket.
    ///
    /// # Errors
    /// The kernel has no memory for the ring.
    pub(crate) fn new(socket: &OwnedFd) -> io::Result<ReceiveRing> {
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        set(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        // With any value above 0 the kernel also queues packets that do not fit into a slot.
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

    /// Calls `take` with the next packet, if there is one, and frees its slot. Calls it with `None`
    /// if the slot is invalid.
    pub(crate) fn next<R>(&mut self, take: impl FnOnce(Option<Slot<'_>>) -> R) -> Option<R> {
        let start = self.map.as_mut_ptr().wrapping_add(self.next * SLOT_BYTES);
        // SAFETY: the word lies in the map and is aligned. Both this process and the kernel access
        // it atomically.
        let status = unsafe { AtomicU32::from_ptr(start.cast()) };
        let flags = status.load(Ordering::Acquire);
        if flags & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot lies in the map, which lives as long as `self`. Neither the kernel nor
        // this process writes to it before the status is reset, which is after the last use of the
        // slice. The slice excludes the status, which is accessed atomically.
        let rest = unsafe {
            std::slice::from_raw_parts(start.wrapping_add(4).cast_const(), SLOT_BYTES - 4)
        };
        let result = take(slot_of(flags, rest));
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % SLOTS;
        Some(result)
    }
}

/// Parses a slot from its status and the bytes after it. `None` if the packet does not lie within
/// the slot.
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

    /// Builds the bytes after the status of a slot. The packet is at offset `mac` and has `length`
    /// bytes, `slot_bytes` of them in the slot.
    fn rest(mac: u16, slot_bytes: u32, length: u32) -> Vec<u8> {
        let mut slot = vec![0; SLOT_BYTES];
        let mut put = |at: usize, bytes: &[u8]| slot[at..at + bytes.len()].copy_from_slice(bytes);
        put(
            offset_of!(libc::tpacket2_hdr, tp_len),
            &length.to_ne_bytes(),
        );
        put(
            offset_of!(libc::tpacket2_hdr, tp_snaplen),
            &slot_bytes.to_ne_bytes(),
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
    fn a_valid_slot_is_parsed_and_an_invalid_one_is_not() {
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
        assert_eq!(
            slot_of(1, &rest(76, 1973, 1973)),
            None,
            "the packet ends outside of the slot"
        );
        assert_eq!(slot_of(1, &rest(76, u32::MAX, 60)), None);
        assert_eq!(
            slot_of(1, &rest(12, 60, 60)),
            None,
            "no room for the virtio-net header"
        );
        assert_eq!(slot_of(1, &[]), None);
    }
}
