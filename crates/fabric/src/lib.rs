//! Switches and links, frame by frame, as a state machine without I/O.
//!
//! A **fabric** is switches and links. A link joins two ends. Each end is the port of a switch or a
//! **port of the fabric**, an interface that the shell reads and writes. Each direction of a link
//! is a channel (`channel.rs`): a queue, a serialiser and a line.
//!
//! # Grammar
//!
//! - [`Fabric::handle_frame`] takes a packet from an interface with the instant at which the
//!   interface had it. The packet enters at that instant, however late the call is, if its link's
//!   delay is longer than the lateness. While [`Fabric::wants_frame`] is false the packet stays in
//!   the interface.
//! - [`Fabric::poll_timeout`] returns when [`Fabric::handle_timeout`] has to be called next. Its
//!   `now` is read before the interfaces are.
//! - [`Fabric::poll_frame`] returns the next frame for an interface. [`OutFrame::emit`] writes its
//!   headers and returns the body, which is not copied if it is unchanged.
//! - [`Fabric::report_ahead`] makes the fabric report frames before they arrive, for a shell whose
//!   writing takes time.
//! - Packets created by [`Packet::reuse`] return their memory to a [`Bin`] of the shell.
//!
//! # Path of one frame from a host through a switch to another host
//!
//! 1. The shell reads an interface and calls [`Fabric::handle_frame`]. Super-frames stay whole and
//!    are *counted* frame by frame ([`Packet`]).
//! 2. The channel from the host queues the packet. Its serialiser sends at the link's rate, a
//!    train of about 10 µs of frames at a time, and at most an eighth of any queue
//!    that the train meets. A single frame is exact to the nanosecond.
//! 3. The line delays the frames and may lose, duplicate, corrupt or delay some of them
//!    (`line.rs`).
//! 4. The switch learns the sender and finds the port of the receiver (`switch.rs`). An L3 switch
//!    routes packets that are addressed to it (`router.rs`); the changes to their headers are noted
//!    beside the train (`hop.rs`) and written when it leaves.
//! 5. The queue of that port takes the frames it has room for (`queue.rs`); the rest are dropped
//!    and counted.
//! 6. Serialiser and line again. [`Fabric::poll_frame`] returns the frames, neighbours of one
//!    super-frame together (`delivery.rs`).
//!
//! Lengths in queues are those of frames with FCS; rates are those of the wire, with preamble and
//! gap. Every frame that came in has left, was dropped for a counted cause, or is still inside.
//!
//! **Not supported**: pause by priority (802.1Qbb), QinQ, spanning tree (a loop is refused),
//! routing of IPv6, routing protocols.
#![forbid(unsafe_code)]

mod channel;
mod counters;
mod delivery;
mod events;
mod fabric;
mod headers;
mod hop;
mod line;
mod packet;
mod queue;
mod router;
mod router_frames;
mod switch;
mod train;
mod validate;

pub use counters::{ChannelCounters, Drops, SwitchCounters};
pub use fabric::{Fabric, Lateness};
pub use packet::{Bin, Packet, PacketError, Segmentation};
pub use train::OutFrame;
pub use validate::ConfigError;
