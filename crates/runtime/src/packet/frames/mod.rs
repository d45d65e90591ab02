//! Transmission of generated frames: each is written once into memory that the method of
//! transmission provides, and many are handed to the kernel together.
//!
//! | module | method |
//! |---|---|
//! | `sendmmsg` | a packet socket, many frames per system call; on every interface, for every size |
//! | `af_xdp` | memory shared with the kernel (AF_XDP, copy mode); frames up to 4096 bytes |
mod af_xdp;
mod sendmmsg;

use std::io;

pub use af_xdp::XdpFrames;
pub use sendmmsg::SendmmsgFrames;

/// Maximum number of frames that are queued before they are handed to the kernel.
pub const FRAMES_MAX: usize = 64;

/// Frames on their way to one interface, in order.
pub trait FrameSender: Send {
    /// Returns the number of frames that can be queued now, at most [`FRAMES_MAX`].
    fn room(&mut self) -> usize;

    /// Queues a frame. `emit` writes it to the start of the memory that it is given, and returns
    /// its length without FCS.
    ///
    /// # Panics
    /// If there is no room.
    fn push(&mut self, emit: &mut dyn FnMut(&mut [u8]) -> usize);

    /// Hands queued frames to the kernel, in order. Returns the number that the kernel accepted. The
    /// others stay queued; the caller tries again.
    ///
    /// # Errors
    /// The interface is gone or down. A full queue of the interface is not an error.
    fn flush(&mut self) -> io::Result<usize>;

    /// Drops all queued frames. Those that cannot be withdrawn leave later, with zeros behind the
    /// Ethernet header.
    fn discard(&mut self);
}

/// Returns whether an error only says that the queue of the interface is full at the moment.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EAGAIN | libc::EBUSY | libc::EINTR)
    )
}
