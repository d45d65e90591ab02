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
//!
//! | file | what it is |
//! |---|---|
//! | `target` | the owner of everything; what a shell calls |
//! | `receive` `connection` `transmit` `lent` | bytes in, one connection's state, pieces out, memory lent to the kernel |
//! | `login` `login_budget` `refusal` `text` | negotiation and discovery; the bound on logins; refused logins |
//! | `authentication` `access` | who the initiator is, and what that one may see |
//! | `session` `tags` `full_feature` | order of commands; NOP, logout, reject |
//! | `command` `data_in` `data_out` `task` | a SCSI command from its PDU to its status |
//! | `parameters` | commands with a parameter list, and what a command means to other initiators |
//! | `steps` | commands that take several accesses |
//! | `management` `remains` | what ends tasks, and what must wait for their end |
//! | `operator` | what changes while the target runs: size, space, ports, LUs |
//! | `scsi` | the disks: one file per family of commands |
//! | `clock` `buffers` `slab` `counters` `config` `io` | deadlines, memory, names, numbers, and the shell's side of the interface |
//!
//! **Not supported**: error recovery levels above 0, more than one connection in a session, Kerberos and SRP, bidirectional commands, task
//! attributes other than SIMPLE (ORDERED and HEAD OF QUEUE are carried out as SIMPLE).
#![forbid(unsafe_code)]

mod access;
mod answer;
mod authentication;
mod clock;
mod command;
mod config;
mod connection;
mod counters;
mod data_in;
mod data_out;
mod full_feature;
mod id;
mod lent;
mod login;
mod login_budget;
mod management;
mod operator;
mod parameters;
mod receive;
mod refusal;
mod remains;
mod session;
mod steps;
mod tags;
mod target;
mod task;
mod text;
mod transmit;

pub use access::{Access, AccessError, AddressPrefix, LuAccess, PrefixError, Rule};
pub use authentication::Entropy;
pub use config::{Limits, TargetConfig};
pub use hakaru_scsi_device::{
    Extent, Io, IoFailure, IoId, IoOp, IoResult, Lent, LuDescription, RecordError, Returned, Space,
    Thin, check_reservations,
};
pub use id::ConnectionId;
pub use refusal::LoginRefusal;
pub use target::Target;
pub use transmit::{Segment, Transmit};
