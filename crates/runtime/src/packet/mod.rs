//! Reception and transmission of entire Ethernet frames and super-frames at an interface, through
//! `AF_PACKET` sockets with virtio-net headers. Reception uses a ring shared with the kernel;
//! transmission passes many packets per call.
//!
//! Opening a socket needs CAP_NET_RAW in the user namespace of the network namespace. The creator
//! of the namespace has it; root is not needed.
pub mod capture;
mod clocks;
mod frame;
pub mod frames;
mod inbox;
mod interface;
pub(crate) mod options;
mod outbox;
mod ring;
mod socket;
pub(crate) mod virtio;
mod writer;

pub use clocks::Clocks;
pub use frame::{Cut, Offload, Outgoing, PACKET_BYTES_MAX, Received};
pub use inbox::{Inbox, LossCause};
pub use interface::Interface;
pub use outbox::{BATCH, Outbox};
pub use socket::PacketSocket;
pub use writer::*;
