//! Whole Ethernet frames of an interface, super-frames included: `AF_PACKET` sockets with
//! virtio-net headers, a ring for reception, many packets per call for transmission.
//!
//! Needs CAP_NET_RAW in the user namespace of the network namespace. The user who made the
//! namespace has it; root is not needed.
pub mod capture;
mod clocks;
mod frame;
mod inbox;
pub(crate) mod options;
mod outbox;
mod ring;
mod socket;
mod virtio;
mod writer;

pub use frame::{Cut, Offload, Outgoing, PACKET_BYTES_MAX, Received};
pub use inbox::{Gone, Inbox};
pub use outbox::{BATCH, Outbox};
pub use socket::PacketSocket;
pub use writer::*;
