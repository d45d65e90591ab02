//! An iSCSI target (RFC 7143) and the SCSI disks behind it, as a state machine without I/O.
//!
//! The path of one 4 KiB READ:
//! 1. The shell reads a socket and calls [`Target::handle_received`].
//! 2. The framer finds the PDU; the session checks its CmdSN and makes a task of it.
//! 3. The SCSI layer checks the CDB against the LU and queues an [`Io`], which [`Target::poll_io`] gives out.
//! 4. The shell answers [`Target::handle_io_done`] with [`IoResult::ReadInPlace`]: the bytes are where they are.
//! 5. A Data-In header with status and the LU's range are appended to the connection's [`Transmit`];
//!    [`Target::poll_transmit`] names the connection; the shell sends all that is ready with one `writev`.
//! 6. [`Target::handle_transmitted`] takes what the kernel took off the queue.
//!
//! A shell's loop is in the documentation of [`Target`].
#![forbid(unsafe_code)]

mod buffers;
mod clock;
mod command;
mod config;
mod connection;
mod counters;
mod data_in;
mod data_out;
mod full_feature;
mod io;
mod login;
mod management;
mod receive;
mod remains;
mod scsi;
mod session;
mod slab;
mod target;
mod task;
mod text;
mod transmit;

pub use config::{Limits, LuDescription, TargetConfig};
pub use io::{ConnectionId, Io, IoFailure, IoId, IoOp, IoResult};
pub use target::Target;
pub use transmit::{Segment, Transmit};
