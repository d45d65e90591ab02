//! Non-blocking TCP for the shells: every socket has `TCP_NODELAY` unless configured otherwise,
//! every send gathers.
mod listener;
mod segment;
pub mod sock_diag;
mod socket;
pub mod socket_options;
pub mod tcp_info;

pub use listener::{AcceptError, Listener};
pub use segment::Segment;
pub use socket::{SLICES_MAX, Socket};
