//! Frames through a packet socket, many per call (sendmmsg(2)).
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{FRAMES_MAX, FrameSender, is_full};
use crate::packet::interface::Interface;
use crate::packet::options::{bind, open_socket, set, set_size};

const SEND_BUFFER_BYTES: libc::c_int = 8 << 20;

/// Frames queued for one interface.
pub struct SendmmsgFrames {
    socket: OwnedFd,
    /// Memory of the frames, `slot_bytes` each, used in turn.
    memory: Box<[u8]>,
    slot_bytes: usize,
    /// Slot and length of each queued frame.
    queued: Vec<(usize, usize)>,
    next_slot: usize,
}

impl SendmmsgFrames {
    /// Opens an interface for frames of up to `frame_bytes` bytes without FCS.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the interface is gone.
    pub fn open(interface: &Interface, frame_bytes: usize) -> io::Result<SendmmsgFrames> {
        let socket = open_socket()?;
        // Bypasses the queueing discipline, whose drops would be losses of the tester.
        set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        let (forced, plain) = (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
        set_size(&socket, forced, plain, SEND_BUFFER_BYTES)?;
        bind(&socket, interface.index, 0)?;
        Ok(SendmmsgFrames {
            socket,
            memory: vec![0; FRAMES_MAX * frame_bytes].into_boxed_slice(),
            slot_bytes: frame_bytes,
            queued: Vec::with_capacity(FRAMES_MAX),
            next_slot: 0,
        })
    }
}

impl FrameSender for SendmmsgFrames {
    fn room(&mut self) -> usize {
        FRAMES_MAX - self.queued.len()
    }

    fn push(&mut self, emit: &mut dyn FnMut(&mut [u8]) -> usize) {
        assert!(self.queued.len() < FRAMES_MAX, "there is no room");
        let start = self.next_slot * self.slot_bytes;
        let length = emit(&mut self.memory[start..start + self.slot_bytes]);
        assert!(length <= self.slot_bytes);
        self.queued.push((self.next_slot, length));
        self.next_slot = (self.next_slot + 1) % FRAMES_MAX;
    }

    fn flush(&mut self) -> io::Result<usize> {
        if self.queued.is_empty() {
            return Ok(0);
        }
        // SAFETY: zero is a valid `iovec` and a valid `mmsghdr`.
        let (mut slices, mut messages): ([libc::iovec; FRAMES_MAX], [libc::mmsghdr; FRAMES_MAX]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        for (index, (slot, length)) in self.queued.iter().enumerate() {
            let frame = &mut self.memory[slot * self.slot_bytes..][..*length];
            slices[index] = libc::iovec {
                iov_base: frame.as_mut_ptr().cast(),
                iov_len: frame.len(),
            };
            messages[index].msg_hdr.msg_iov = &raw mut slices[index];
            messages[index].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: every message points to an element of `slices`, which points to a part of
        // `self.memory`. All of them live until the call returns.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                self.queued.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        // The call fails only if the first frame is refused.
        let Ok(sent) = usize::try_from(sent) else {
            let error = io::Error::last_os_error();
            return if is_full(&error) { Ok(0) } else { Err(error) };
        };
        self.queued.drain(..sent);
        Ok(sent)
    }

    fn discard(&mut self) {
        self.queued.clear();
    }
}
