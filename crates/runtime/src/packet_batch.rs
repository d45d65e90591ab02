//! Many packets a call: the memory of `recvmmsg` and `sendmmsg`, and buffers that are used again.
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use hakaru_units::Time;
use rustix::time::{ClockId, clock_gettime};

use crate::clock;
use crate::packet::{Outgoing, PACKET_BYTES_MAX, Received};
use crate::virtio::{HEADER_BYTES, VirtioHeader};

/// Packets that one call receives, or sends, at most.
pub const BATCH: usize = 64;
/// Room for the control messages of one packet: time stamp and auxiliary data take 72 bytes. In words, so that it is aligned.
const CONTROL_WORDS: usize = 16;
const TAG_AT: usize = 12;
/// libc does not name it: the tag's type is told too.
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// Sizes of buffers, each with how many are kept for later: a short packet is copied to a short buffer, which costs less than a long
/// one that is kept until the packet leaves.
const CLASSES: [(usize, usize); 3] = [
    (2 << 10, 16_384),
    (12 << 10, 4096),
    (PACKET_BYTES_MAX, 1024),
];

/// Receives packets.
pub struct Inbox {
    buffers: Vec<Vec<u8>>,
    headers: Vec<[u8; HEADER_BYTES]>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    slices: Vec<[libc::iovec; 2]>,
    messages: Vec<libc::mmsghdr>,
    /// Of `messages`, those that hold a packet that was not taken yet.
    full: std::ops::Range<usize>,
    /// Messages that the last call used.
    used: usize,
    /// `CLOCK_MONOTONIC` less `CLOCK_REALTIME`, by which the kernel stamps, and now.
    clocks: (i128, Time),
    spare: [Vec<Vec<u8>>; CLASSES.len()],
}

/// A super-frame of something that is not known here, or a packet that is too long: it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

impl Default for Inbox {
    fn default() -> Inbox {
        let buffer = || Vec::with_capacity(PACKET_BYTES_MAX);
        Inbox {
            buffers: (0..BATCH).map(|_| buffer()).collect(),
            headers: vec![[0; HEADER_BYTES]; BATCH],
            controls: vec![[0; CONTROL_WORDS]; BATCH],
            // SAFETY: zero is a valid `iovec` and a valid `mmsghdr`.
            slices: unsafe { std::mem::zeroed::<[[libc::iovec; 2]; BATCH]>() }.to_vec(),
            messages: unsafe { std::mem::zeroed::<[libc::mmsghdr; BATCH]>() }.to_vec(),
            full: 0..0,
            used: BATCH,
            clocks: (0, Time::ZERO),
            spare: Default::default(),
        }
    }
}

impl Inbox {
    pub(crate) fn receive_from(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.full = 0..0;
        // The others are as they were made ready.
        for index in 0..std::mem::replace(&mut self.used, 0) {
            let buffer = &mut self.buffers[index];
            buffer.clear();
            let room = buffer.spare_capacity_mut();
            let header = &mut self.headers[index];
            self.slices[index] = [
                libc::iovec {
                    iov_base: header.as_mut_ptr().cast(),
                    iov_len: header.len(),
                },
                libc::iovec {
                    iov_base: room.as_mut_ptr().cast(),
                    iov_len: room.len(),
                },
            ];
            let message = &mut self.messages[index].msg_hdr;
            message.msg_iov = self.slices[index].as_mut_ptr();
            message.msg_iovlen = 2;
            message.msg_control = self.controls[index].as_mut_ptr().cast();
            message.msg_controllen = size_of::<[u64; CONTROL_WORDS]>();
            message.msg_flags = 0;
        }
        // SAFETY: every message names a header, the spare capacity of a buffer and a control area, each with its own length. Those are
        // parts of vectors that never grow, so they stay where they are when `self` moves; a buffer that is taken out is among `used`.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        self.used = got;
        self.clocks = clocks();
        self.full = 0..got;
        Ok(got)
    }

    /// The next packet of those that the last call received.
    pub fn take(&mut self) -> Option<Result<Received, Unknown>> {
        let index = self.full.next()?;
        let message = self.messages[index];
        let length = (message.msg_len as usize).checked_sub(HEADER_BYTES);
        let cut_off = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        let Some(length) = length.filter(|length| !cut_off && *length <= PACKET_BYTES_MAX) else {
            return Some(Err(Unknown));
        };
        // SAFETY: the kernel wrote `length` bytes, which the capacity has room for, behind the header.
        unsafe { self.buffers[index].set_len(length) };
        let (stamp, tag) = beside(&message.msg_hdr);
        let mut bytes = self.claim(index);
        if let Some(tag) = tag.filter(|_| length >= TAG_AT) {
            bytes.splice(TAG_AT..TAG_AT, tag);
        }
        let header = VirtioHeader::parse(&self.headers[index]);
        let Some(offload) = header.offload(4 * u16::from(tag.is_some())) else {
            self.give_back(bytes);
            return Some(Err(Unknown));
        };
        let now = self.clocks.1;
        let at = stamp.and_then(|stamp| monotonic(stamp, self.clocks));
        let at = at.map_or(now, |at| at.min(now));
        Some(Ok(Received { bytes, offload, at }))
    }

    /// A buffer whose packet is gone.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        // The largest class that it is good for.
        let class = CLASSES
            .iter()
            .rposition(|(bytes, _)| buffer.capacity() >= *bytes);
        if let Some(class) = class.filter(|class| self.spare[*class].len() < CLASSES[*class].1) {
            self.spare[class].push(buffer);
        }
    }

    /// What was received into buffer `index`: copied to one of its size or, if it is long, itself, with another in its place.
    fn claim(&mut self, index: usize) -> Vec<u8> {
        let length = self.buffers[index].len();
        // A tag may be put in.
        let class = CLASSES
            .iter()
            .position(|(bytes, _)| length + 4 <= *bytes)
            .unwrap_or(CLASSES.len() - 1);
        let spare = self.spare[class].pop();
        let mut other = spare.unwrap_or_else(|| Vec::with_capacity(CLASSES[class].0));
        if class == CLASSES.len() - 1 {
            return std::mem::replace(&mut self.buffers[index], other);
        }
        other.extend_from_slice(&self.buffers[index]);
        other
    }
}

/// `CLOCK_MONOTONIC` less `CLOCK_REALTIME`, by which the kernel stamps, and now.
fn clocks() -> (i128, Time) {
    let (now, real) = (clock::now(), clock_gettime(ClockId::Realtime));
    let real = i128::from(real.tv_sec) * 1_000_000_000 + i128::from(real.tv_nsec);
    (i128::from(now.as_ns()) - real, now)
}

fn monotonic(stamp: i128, (difference, _): (i128, Time)) -> Option<Time> {
    u64::try_from(stamp + difference).ok().map(Time)
}

/// What the kernel tells beside a packet: `CLOCK_REALTIME` when the interface had it, ns; the tag that was taken out of it.
fn beside(message: &libc::msghdr) -> (Option<i128>, Option<[u8; 4]>) {
    let (mut stamp, mut tag) = (None, None);
    // SAFETY: `message` is as `recvmmsg` left it, with its control area in place; the CMSG functions stay within it, and what is read
    // is as long as the length that was checked.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = at.as_ref() {
            let data = libc::CMSG_DATA(at);
            let has = |bytes: usize| control.cmsg_len >= libc::CMSG_LEN(bytes as u32) as usize;
            match (control.cmsg_level, control.cmsg_type) {
                // That of SO_TIMESTAMPING begins with the stamp that the software took.
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS | libc::SCM_TIMESTAMPING)
                    if has(size_of::<libc::timespec>()) =>
                {
                    let time = data.cast::<libc::timespec>().read_unaligned();
                    stamp =
                        Some(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec));
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA)
                    if has(size_of::<libc::tpacket_auxdata>()) =>
                {
                    tag = tag_of(&data.cast::<libc::tpacket_auxdata>().read_unaligned());
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    (stamp, tag)
}

fn tag_of(told: &libc::tpacket_auxdata) -> Option<[u8; 4]> {
    let kind = if told.tp_status & TP_STATUS_VLAN_TPID_VALID != 0 {
        told.tp_vlan_tpid
    } else {
        0x8100
    };
    let ([a, b], [c, d]) = (kind.to_be_bytes(), told.tp_vlan_tci.to_be_bytes());
    (told.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d])
}

/// Sends packets.
#[derive(Default)]
pub struct Outbox {
    headers: Vec<[u8; HEADER_BYTES]>,
    slices: Vec<[libc::iovec; 3]>,
    messages: Vec<libc::mmsghdr>,
}

impl Outbox {
    /// Sends `packets` in order; how many the interface refused.
    pub(crate) fn send_to(&mut self, socket: BorrowedFd<'_>, packets: &[Outgoing<'_>]) -> u64 {
        self.fill(packets);
        let (mut done, mut refused) = (0, 0);
        while done < packets.len() {
            // SAFETY: every message names its part of `slices`, and those name headers in `self` and bytes of `packets`, all of which
            // live until the call returns.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    self.messages[done..].as_mut_ptr(),
                    (packets.len() - done) as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => done += sent,
                // The first of them was refused; the others are tried.
                _ => (done, refused) = (done + 1, refused + 1),
            }
        }
        refused
    }

    /// Sends one packet: how many were refused, and when the interface had it.
    pub(crate) fn send_stamped_to(
        &mut self,
        socket: BorrowedFd<'_>,
        packet: &Outgoing<'_>,
    ) -> (u64, Option<Time>) {
        self.fill(std::slice::from_ref(packet));
        let mut control = [0_u64; 4];
        let message = &mut self.messages[0].msg_hdr;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: `control` has room for one control message of four bytes, which CMSG_FIRSTHDR therefore finds.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(4) as _;
            let first = libc::CMSG_FIRSTHDR(message);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SO_TIMESTAMPING;
            (*first).cmsg_len = libc::CMSG_LEN(4) as _;
            let wanted = libc::SOF_TIMESTAMPING_TX_SOFTWARE;
            libc::CMSG_DATA(first)
                .cast::<libc::c_uint>()
                .write_unaligned(wanted);
        }
        // SAFETY: the message names a header in `self`, the bytes of `packet` and `control`, all of which live until the call returns.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), message, libc::MSG_DONTWAIT) };
        if sent < 0 {
            return (1, None);
        }
        (0, stamp_of_sent(socket))
    }

    fn fill(&mut self, packets: &[Outgoing<'_>]) {
        self.headers.clear();
        self.headers
            .extend(packets.iter().map(|p| VirtioHeader::of(p).emit()));
        self.slices.clear();
        let slice = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let all = packets.iter().zip(&self.headers);
        self.slices
            .extend(all.map(|(p, header)| [slice(header), slice(p.head), slice(p.body)]));
        self.messages.clear();
        self.messages.extend(self.slices.iter_mut().map(|slices| {
            // SAFETY: zero is a valid `mmsghdr`.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = slices.as_mut_ptr();
            message.msg_hdr.msg_iovlen = slices.len();
            message
        }));
    }
}

/// The stamp of what was sent last, if the interface has taken it by now.
fn stamp_of_sent(socket: BorrowedFd<'_>) -> Option<Time> {
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: zero is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the message names `control`, with its length, and nothing else.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if got < 0 {
        return None;
    }
    let (stamp, _) = beside(&message);
    monotonic(stamp?, clocks())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_packets_lie_in_short_buffers_and_long_ones_where_they_came() {
        let mut inbox = Inbox::default();
        inbox.buffers[0].extend([7; 100]);
        let short = inbox.claim(0);
        assert_eq!((short.len(), short.capacity()), (100, CLASSES[0].0));
        inbox.buffers[1].extend([8; 50_000]);
        let place = inbox.buffers[1].as_ptr();
        let long = inbox.claim(1);
        assert_eq!((long.as_ptr(), long.len()), (place, 50_000));
        assert_eq!(inbox.buffers[1].len(), 0);
        let place = short.as_ptr();
        inbox.give_back(short);
        inbox.buffers[0].clear();
        inbox.buffers[0].extend([9; 60]);
        let next = inbox.claim(0);
        assert_eq!(next.as_ptr(), place, "it is used again");
    }

    #[test]
    fn a_tag_is_told_only_if_there_was_one() {
        // SAFETY: zero is a valid `tpacket_auxdata`.
        let mut told: libc::tpacket_auxdata = unsafe { std::mem::zeroed() };
        assert_eq!(tag_of(&told), None);
        told.tp_status = libc::TP_STATUS_VLAN_VALID;
        told.tp_vlan_tci = 0x6005;
        assert_eq!(tag_of(&told), Some([0x81, 0, 0x60, 5]));
    }
}
