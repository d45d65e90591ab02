//! Frames through AF_XDP in copy mode: frames and their descriptors lie in memory shared with the
//! kernel, which copies a frame once between this memory and its own.
//!
//! Descriptors pass through four rings (`linux/if_xdp.h`):
//!
//! | ring | written by | contents |
//! |---|---|---|
//! | transmit | this process | frames to send |
//! | completion | kernel | addresses of frames that have left the interface |
//! | fill | this process | addresses of slots for frames to be received |
//! | receive | kernel | received frames |
//!
//! To send needs no XDP program and no root, only CAP_NET_RAW in the network namespace. To receive
//! needs a program that hands frames to the socket (`program`), which only root may load.
//!
//! | module | contents |
//! |---|---|
//! | `memory` | the shared memory, in parts with one owner each |
//! | `socket` | opening and binding; the rings |
//! | `sender` | transmission through the first queue of an interface |
//! | `receiver` | reception from all receive queues of an interface |
//! | `program` | the XDP program that selects frames and notes their time |
mod memory;
mod program;
mod receiver;
mod sender;
mod socket;

use std::io;

pub use receiver::XdpReceiver;
pub use sender::XdpFrames;

use self::program::LoadedProgram;
use self::socket::{Sizes, XdpSocket};
use super::{FRAMES_MAX, MarkedFrames};
use crate::packet::interface::Interface;

/// Lengths that a slot may have: powers of two from 2048 to the size of a page.
const SLOT_BYTES: [usize; 2] = [2048, 4096];
/// Number of slots for frames to send, 2 or 4 MiB in total. The memory is locked, and 8 MiB is the
/// usual limit of a user.
const SEND_SLOTS: u32 = 1024;
/// Number of slots for received frames of all queues together, 64 or 128 MiB.
const RECEIVE_SLOTS: u32 = 32_768;
/// Least number of slots of one queue.
const QUEUE_SLOTS_MIN: u32 = 2048;
/// Size of a ring that must exist and stays unused.
const UNUSED_SLOTS: u32 = 64;
/// Maximum number of receive queues that are read.
const QUEUES_MAX: u32 = 64;
/// Bytes in front of a received frame, which the kernel leaves to programs (XDP_PACKET_HEADROOM).
const HEADROOM_BYTES: usize = 256;

const _: () = assert!(SEND_SLOTS.is_power_of_two() && SEND_SLOTS as usize > 2 * FRAMES_MAX);
const _: () = assert!(RECEIVE_SLOTS.is_power_of_two() && QUEUE_SLOTS_MIN.is_power_of_two());

/// Opens an interface to send frames of up to `sent_bytes` bytes, without FCS.
///
/// # Errors
/// The frames are longer than a page (`InvalidInput`). The kernel lacks AF_XDP. CAP_NET_RAW is
/// missing. The user may not lock the memory.
pub fn open_sender(interface: &Interface, sent_bytes: usize) -> io::Result<XdpFrames> {
    let slot_bytes = slot_bytes(sent_bytes, 0)?;
    let [area] = memory::shared(slot_bytes, [SEND_SLOTS])?;
    let socket = XdpSocket::new()?;
    socket.share(&area, slot_bytes)?;
    let sizes = Sizes {
        fill: Some(UNUSED_SLOTS),
        completion: Some(SEND_SLOTS),
        transmit: Some(SEND_SLOTS),
        receive: None,
    };
    let bound = socket.bind(interface, 0, None, sizes)?;
    Ok(XdpFrames::new(bound, area, slot_bytes))
}

/// Opens an interface to receive frames of up to `received_bytes` bytes, without FCS.
///
/// # Errors
/// The user may not load an XDP program (`PermissionDenied`). The interface has another XDP program,
/// or another socket of AF_XDP (`ResourceBusy`). The frames do not fit into a page (`InvalidInput`).
/// The kernel lacks AF_XDP, or is older than Linux 5.10.
pub fn open_receiver(
    interface: &Interface,
    received_bytes: usize,
    frames: MarkedFrames,
) -> io::Result<XdpReceiver> {
    let (_, receiver) = open(interface, None, received_bytes, frames)?;
    Ok(receiver)
}

/// Opens an interface to send and to receive. Both use the memory of the first queue of the interface,
/// which allows only one.
///
/// # Errors
/// Those of [`open_receiver`].
pub fn open_both(
    interface: &Interface,
    sent_bytes: usize,
    received_bytes: usize,
    frames: MarkedFrames,
) -> io::Result<(XdpFrames, XdpReceiver)> {
    let (sender, receiver) = open(interface, Some(sent_bytes), received_bytes, frames)?;
    Ok((sender.expect("requested"), receiver))
}

fn open(
    interface: &Interface,
    sent_bytes: Option<usize>,
    received_bytes: usize,
    frames: MarkedFrames,
) -> io::Result<(Option<XdpFrames>, XdpReceiver)> {
    let slot_bytes = slot_bytes(sent_bytes.unwrap_or(0), 0)?
        .max(self::slot_bytes(received_bytes, HEADROOM_BYTES)?);
    let queues = interface.receive_queues.min(QUEUES_MAX);
    // First, because users who may not load it mostly may not lock so much memory either.
    let program = LoadedProgram::new(queues, frames)?;
    let queue_slots = (RECEIVE_SLOTS / queues.next_power_of_two()).max(QUEUE_SLOTS_MIN);
    let send_slots = sent_bytes.map(|_| SEND_SLOTS);
    let counts = [send_slots.unwrap_or(0), queues * queue_slots];
    let [send_area, receive_area] = memory::shared(slot_bytes, counts)?;
    let receiving = Sizes {
        fill: Some(queue_slots),
        completion: Some(UNUSED_SLOTS),
        transmit: None,
        receive: Some(queue_slots),
    };

    let first = XdpSocket::new()?;
    first.share(&receive_area, slot_bytes)?;
    let mut bound = Vec::new();
    let sender = if let Some(slots) = send_slots {
        // The receiver needs a socket of its own: poll(2) also sends what the transmit ring of its
        // socket has, and the sender would not know which frames left.
        let sending = Sizes {
            completion: Some(slots),
            transmit: Some(slots),
            receive: None,
            ..receiving
        };
        let mut sender = first.bind(interface, 0, None, sending)?;
        let only_ring = Sizes {
            receive: receiving.receive,
            ..Sizes::default()
        };
        let mut receiver = XdpSocket::new()?.bind(interface, 0, Some(&sender.socket), only_ring)?;
        receiver.fill = sender.fill.take();
        bound.push(receiver);
        Some(XdpFrames::new(sender, send_area, slot_bytes))
    } else {
        bound.push(first.bind(interface, 0, None, receiving)?);
        None
    };
    for queue in 1..queues {
        let socket = XdpSocket::new()?;
        bound.push(socket.bind(interface, queue, Some(&bound[0].socket), receiving)?);
    }
    let receiver = XdpReceiver::new(interface, bound, receive_area, slot_bytes, program)?;
    Ok((sender, receiver))
}

/// Returns the length of a slot for frames of `frame_bytes` bytes and `room` bytes in front of them.
fn slot_bytes(frame_bytes: usize, room: usize) -> io::Result<usize> {
    SLOT_BYTES
        .into_iter()
        .find(|bytes| frame_bytes + room <= *bytes)
        .ok_or_else(|| {
            let message = format!("frames of {frame_bytes} bytes do not fit into a page");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })
}
