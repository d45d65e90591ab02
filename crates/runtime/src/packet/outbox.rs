//! Transmission of many packets per call (sendmmsg(2)).
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, BorrowedFd};

use hakaru_units::Time;

use super::clocks::Clocks;
use super::frame::Outgoing;
use super::virtio::{HEADER_BYTES, VirtioHeader};

/// Maximum number of packets per call.
pub const BATCH: usize = 64;
/// Size of the buffer for the control messages of one packet, in 8-byte words, which align it.
const CONTROL_WORDS: usize = 16;

/// Reusable memory for the arguments of `sendmmsg`.
#[derive(Default)]
pub struct Outbox {
    headers: Vec<[u8; HEADER_BYTES]>,
    slices: Vec<[libc::iovec; 3]>,
    messages: Vec<libc::mmsghdr>,
}

impl Outbox {
    /// Sends `packets` in order. Returns the number that the interface refused.
    pub(crate) fn send_to(&mut self, socket: BorrowedFd<'_>, packets: &[Outgoing<'_>]) -> u64 {
        self.fill(packets);
        let (mut done, mut refused) = (0, 0);
        while done < packets.len() {
            // SAFETY: every message points to its part of `slices`, which point to headers in
            // `self` and bytes of `packets`. All of them live until the call returns.
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
                // The first remaining packet was refused. The next call tries the others.
                _ => (done, refused) = (done + 1, refused + 1),
            }
        }
        refused
    }

    /// Sends one packet. Returns the number refused (0 or 1), and the timestamp of the interface if
    /// it is available already.
    pub(crate) fn send_stamped_to(
        &mut self,
        socket: BorrowedFd<'_>,
        packet: &Outgoing<'_>,
    ) -> (u64, Option<Time>) {
        self.fill(std::slice::from_ref(packet));
        let mut control = [0_u64; 4];
        let message = &mut self.messages[0].msg_hdr;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: `control` has room for one control message of four bytes, so CMSG_FIRSTHDR
        // returns a valid pointer.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(4) as _;
            let first = libc::CMSG_FIRSTHDR(message);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SO_TIMESTAMPING;
            (*first).cmsg_len = libc::CMSG_LEN(4) as _;
            let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE;
            libc::CMSG_DATA(first)
                .cast::<libc::c_uint>()
                .write_unaligned(flags);
        }
        // SAFETY: the message points to a header in `self`, the bytes of `packet` and `control`,
        // all of which live until the call returns.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), message, libc::MSG_DONTWAIT) };
        if sent < 0 {
            return (1, None);
        }
        (0, timestamp_of_sent(socket))
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

/// Returns the timestamp of the packet sent last, if the interface has accepted it by now.
fn timestamp_of_sent(socket: BorrowedFd<'_>) -> Option<Time> {
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: zero is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the message points only to `control`, with its length.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if got < 0 {
        return None;
    }
    Clocks::read().monotonic(timestamp_in(&message)?)
}

/// Returns the timestamp in a message's control data (`CLOCK_REALTIME`), ns.
fn timestamp_in(message: &libc::msghdr) -> Option<i128> {
    // SAFETY: `recvmsg` filled `message`, and its control area is still in place. The CMSG
    // functions stay within the area, and no read exceeds the length that was checked.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = at.as_ref() {
            let long = libc::CMSG_LEN(size_of::<libc::timespec>() as u32) as usize;
            let is_timestamp = (control.cmsg_level, control.cmsg_type)
                == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING);
            if is_timestamp && control.cmsg_len >= long {
                // The first of three timestamps is that of the software.
                let time = libc::CMSG_DATA(at)
                    .cast::<libc::timespec>()
                    .read_unaligned();
                return Some(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec));
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    None
}
