//! Switches and links, frame by frame, as a state machine without I/O.
//!
//! A **fabric** consists of switches and links. A link joins two ends. Each end is the port of a
//! switch or a **port of the fabric**, which is an interface that the shell reads and writes. Each
//! direction of a link is a channel (`channel.rs`): a queue, a serialiser and a line.
//!
//! # Grammar
//!
//! - [`Fabric::handle_frame`] takes a packet and the instant at which its interface received it.
//!   The packet enters at that instant if its link's delay is longer than the delay of the call.
//!   While [`Fabric::wants_frame`] is `false` the packet stays in the interface.
//! - [`Fabric::poll_timeout`] returns when [`Fabric::handle_timeout`] has to be called next. The
//!   shell reads the clock for its `now` before it reads the interfaces.
//! - [`Fabric::poll_frame`] returns the next frame for an interface, joined with those of its
//!   super-frame that have arrived, too. [`OutFrame::emit`] writes its headers and returns the
//!   body, which is not copied if it is unchanged.
//! - [`Fabric::report_ahead`] makes the fabric report frames before they arrive, for a shell that
//!   takes time to write them.
//! - [`Fabric::set_link`] takes a link down or up.
//! - Packets with [`Packet::reuse`] return their memory to a [`Bin`] of the shell.
//!
//! # Path of one frame from a host through a switch to another host
//!
//! 1. The shell reads an interface and calls [`Fabric::handle_frame`]. A super-frame stays in one
//!    piece, but is *counted* frame by frame ([`Packet`]).
//! 2. The channel from the host queues the packet. Its serialiser sends at the link's rate, one
//!    train of frames at a time. A train takes about 10 µs and fills at most an eighth of any queue
//!    that it enters. A single frame is exact to the nanosecond.
//! 3. The line delays the frames and may lose, duplicate, corrupt or delay some of them
//!    (`line.rs`).
//! 4. The switch learns the sender's port and looks up that of the receiver (`switch.rs`). An L3
//!    switch routes packets that are addressed to it (`router.rs`). The changes to their headers
//!    travel with the train (`hop.rs`) and are written when it leaves.
//! 5. The queue of that port admits the frames that it has room for (`queue.rs`). The others are
//!    dropped and counted.
//! 6. The serialiser and line of that port send the frames. [`Fabric::poll_frame`] returns them,
//!    consecutive frames of one super-frame together (`delivery.rs`).
//!
//! Queue lengths include the FCS of frames. Rates are those of the wire, including preamble and
//! gap. Every frame that entered has left, was dropped for a counted cause, or is still inside.
//!
//! **Not supported**: priorities (tags of VLAN 0 are removed), pause by priority (802.1Qbb), QinQ,
//! spanning tree (a loop is refused), routing of IPv6, routing protocols.
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
