//! Switches and links, frame by frame, as a state machine without I/O.
//!
//! A **fabric** is switches and links. A link joins two ends, each the port of a switch or a **port of the fabric** (an interface that
//! the shell reads and writes). Each direction of a link is a [`channel`](channel::Channel): a queue, a serialiser and a line.
//!
//! The path of one frame from a host through a switch to another host:
//! 1. The shell reads an interface and calls [`Fabric::handle_frame`]; super-frames stay whole and are *counted* frame by frame ([`Packet`]).
//! 2. The channel from the host queues it; its serialiser sends it at the link's rate, about 10 µs of frames at a time, less before short queues (a [train](packet::Train)).
//! 3. The line delays it and may lose, double, corrupt or delay some of its frames further (`line.rs`).
//! 4. The switch learns the sender and finds the port of the receiver (`switch.rs`); an L3 switch routes what is addressed to it (`router.rs`).
//! 5. The queue of that port takes the frames it has room for (`queue.rs`); the rest are dropped and counted, as on a wire.
//! 6. Serialiser and line again; [`Fabric::poll_frame`] gives the frames out, neighbours of one super-frame together (`delivery.rs`).
//!
//! Lengths in queues are those of frames with FCS; rates are those of the wire, with preamble and gap. Every frame that came in
//! went out, was dropped for a counted cause, or is still inside, exactly.
//!
//! **Not supported**: pause by priority (802.1Qbb), QinQ, spanning tree (a loop is refused), routing of IPv6 or by a protocol.
#![forbid(unsafe_code)]

mod channel;
mod counters;
mod delivery;
mod events;
mod fabric;
mod headers;
mod line;
mod packet;
mod queue;
mod router;
mod router_frames;
mod switch;
mod validate;

pub use counters::{ChannelCounters, Drops, SwitchCounters};
pub use fabric::{Fabric, Lateness};
pub use packet::{Bin, OutFrame, Packet, PacketError, Segmentation};
pub use validate::ConfigError;
