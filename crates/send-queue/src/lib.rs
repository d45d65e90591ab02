//! Two containers that both sides of an iSCSI connection use: a queue of bytes to send and a slab.
//!
//! | type | contents |
//! |---|---|
//! | [`SendQueue`] | bytes to send in order: headers by copy, payloads by reference |
//! | [`Slab`] | values identified by small reusable numbers; a stale [`Key`] is detected |
//!
//! The queue is independent of protocols and sockets. `iscsi-target` queues ranges of logical units
//! and its own buffers, `iscsi-session` queues parts of the buffers that its caller writes.
#![forbid(unsafe_code)]

mod queue;
mod slab;

pub use queue::{Payload, Piece, SendQueue};
pub use slab::{Key, Slab};
