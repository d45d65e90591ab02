//! Transmission and reception of test frames. A frame to send is written once into memory that the
//! method of transmission provides, and many are handed to the kernel together. A received frame is
//! read where the kernel wrote it.
//!
//! | module | method |
//! |---|---|
//! | `sendmmsg` | transmission by a packet socket, many frames per system call; every interface and size |
//! | `marked` | reception by a ring of a packet socket (TPACKET_V3); every interface and size |
//! | `xdp` | both, by memory shared with the kernel (AF_XDP, copy mode); frames up to a page |
mod marked;
mod sendmmsg;
pub mod xdp;

use std::io;
use std::time::Duration;

use hakaru_units::Time;

pub use marked::RingFrames;
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

/// Selection of frames: those that have this big-endian word at this offset from the Ethernet header.
#[derive(Clone, Copy, Debug)]
pub struct MarkedFrames {
    /// Offset, bytes.
    pub at: u32,
    /// The word.
    pub value: u32,
}

/// Frames that arrive at one interface, of those that were asked for.
pub trait FrameReceiver: Send {
    /// Waits until frames are ready, at most for `at_most`.
    ///
    /// # Errors
    /// The interface was removed.
    fn wait(&mut self, at_most: Duration) -> io::Result<()>;

    /// Passes the frames that are ready to `handle`: the instant of arrival, and the bytes from the
    /// Ethernet header on, without FCS. Frames of one flow are in the order of their arrival.
    ///
    /// # Errors
    /// Frames arrive that cannot be received by this method.
    fn take(&mut self, handle: &mut dyn FnMut(Time, &[u8])) -> io::Result<()>;

    /// Returns the number of frames so far that were lost because they were not taken in time.
    ///
    /// # Errors
    /// The interface was removed.
    fn dropped(&mut self) -> io::Result<u64>;

    /// Returns the time after which a frame that has arrived is ready.
    fn settle_time(&self) -> Duration;
}

/// Returns whether an error only says that the queue of the interface is full at the moment.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EAGAIN | libc::EBUSY | libc::EINTR)
    )
}
