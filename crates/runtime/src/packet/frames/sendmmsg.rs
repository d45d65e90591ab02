//! Frames through a packet socket, many per call (sendmmsg(2)).
//!
//! **A full queue.** The kernel has no frame left after it answered ENOBUFS: the driver dropped it.
//! For a network card this means that its transmit queue was full. The frame never left, no counter
//! of the interface has it, and it is sent again. A veth pair or a TAP answers the same after it has
//! accepted the frame and found the queue of the other end full. It has counted the frame as dropped
//! (`tx_dropped`), so the frame is sent, and lost. `sendmmsg` returns an error only if it concerns
//! the first message; a later one only ends the call. Those interfaces therefore get one message per
//! call, so that the fate of every frame is known.
use std::collections::VecDeque;
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
    queued: VecDeque<(usize, usize)>,
    next_slot: usize,
    /// Whether ENOBUFS means that the interface accepted the frame and dropped it.
    hands_over: bool,
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
            queued: VecDeque::with_capacity(FRAMES_MAX),
            next_slot: 0,
            hands_over: interface.hands_over,
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
        self.queued.push_back((self.next_slot, length));
        self.next_slot = (self.next_slot + 1) % FRAMES_MAX;
    }

    fn flush(&mut self) -> io::Result<usize> {
        if !self.hands_over {
            return match self.send_first::<FRAMES_MAX>() {
                Ok(sent) => Ok(sent),
                Err(error) if is_full(&error) => Ok(0),
                Err(error) => Err(error),
            };
        }
        let mut accepted = 0;
        while !self.queued.is_empty() {
            match self.send_first::<1>() {
                Ok(sent) => accepted += sent,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.queued.pop_front();
                    accepted += 1;
                }
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(accepted)
    }

    fn discard(&mut self) {
        self.queued.clear();
    }
}

impl SendmmsgFrames {
    /// Hands the first queued frames, at most `N`, to the kernel. Returns the number that it
    /// accepted; an error is that of the first frame.
    fn send_first<const N: usize>(&mut self) -> io::Result<usize> {
        let count = self.queued.len().min(N);
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: zero is a valid `iovec` and a valid `mmsghdr`.
        let (mut slices, mut messages): ([libc::iovec; N], [libc::mmsghdr; N]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        for (index, (slot, length)) in self.queued.iter().take(count).enumerate() {
            let frame = &mut self.memory[slot * self.slot_bytes..][..*length];
            slices[index] = libc::iovec {
                iov_base: frame.as_mut_ptr().cast(),
                iov_len: frame.len(),
            };
            messages[index].msg_hdr.msg_iov = &raw mut slices[index];
            messages[index].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `count` messages point to elements of `slices`, which point to parts of
        // `self.memory`. All of them live until the call returns.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
        self.queued.drain(..sent);
        Ok(sent)
    }
}
