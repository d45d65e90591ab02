//! Non-blocking TCP for the shells. Every socket has `TCP_NODELAY` unless configured otherwise, and
//! every send takes a list of slices.
mod listener;
mod segment;
pub mod sock_diag;
mod socket;
pub mod socket_options;
mod stamp;
pub mod tcp_info;

pub use listener::{AcceptError, Listener};
pub use segment::Segment;
pub use socket::{SLICES_MAX, Socket};
pub use stamp::{SentStamp, Stamp, StampClock};
