//! An iSCSI target (RFC 7143) in front of a SCSI device server, as a state machine without I/O.
//!
//! # The calls of a shell
//!
//! One [`Target`] owns all connections, sessions and tasks. `handle_*` takes an event, `poll_*`
//! returns output, plain verbs are commands. Time is an argument; nothing blocks.
//!
//! ```text
//! loop {
//!     accept            → handle_connected     (None: close the socket at once)
//!     socket readable   → handle_received      if wants_received; else leave the bytes there
//!     socket ended      → handle_closed
//!     caught a panic    → handle_panicked
//!     timer             → handle_timeout       at poll_timeout, or at any time
//!     while poll_io       → do it, now or later → handle_io_done
//!     while poll_transmit → sendmsg of transmit(c).segments() → handle_transmitted
//!                           (on EAGAIN: again when the socket is writable)
//!                           or, if may_lend, lend an LU's memory to the kernel
//!                           → handle_lent, then handle_transmitted
//!     while poll_unwanted → end the access early, if it waits for space
//!     while poll_refusal  → log the refused login with its reason
//!     while poll_returned → lent memory may be changed again
//!     while poll_close    → close the socket    (the id is forgotten: no handle_closed)
//! }
//! ```
//!
//! Calls with the id of a connection that has ended do nothing: a shell may be late.
//!
//! A shell that treats accesses by their initiators asks `initiator_of` for its name.
//!
//! Commands of the operator and of the storage: `set_space`, `raise_threshold`, `set_capacity`,
//! `set_port_state`, `begin_port_transition`, `add_lu`, `remove_lu` (its contents stay while `is_in_use`), `shut_down`. They
//! establish the unit attention conditions that report the change. `poll_io_within` bounds the work
//! of long commands between two polls of the sockets; `take_buffer` is for [`IoResult::ReadData`].
//!
//! An entry point looks a connection up once. Functions below it take the connection (`Connection`,
//! in full feature phase `Active`) and the state that all connections share (`Core`). An effect on
//! another connection is queued as an `Effect`, which the endpoint settles before the next PDU.
//!
//! # The path of a READ, from socket to reply
//!
//! Every function is called by one before it, except after `⇒`, where the shell is between them. A
//! test compares the list with the code.
//!
//! | file | functions |
//! |---|---|
//! | `iscsi-target/src/endpoint/mod.rs` | `handle_received` |
//! | `iscsi-target/src/connection/receive.rs` | `receive` `end_pdu` `order` `deliver` `dispatch` |
//! | `iscsi-target/src/task/command.rs` | `scsi_command` |
//! | `scsi-device/src/commands/mod.rs` | `execute` `dispatch` |
//! | `scsi-device/src/commands/block.rs` | `execute` `read` |
//! | `iscsi-target/src/task/command.rs` | `apply_outcome` |
//! | `iscsi-target/src/task/read.rs` | `start_read` `request_read` |
//! | `iscsi-target/src/endpoint/mod.rs` | ⇒ `handle_io_done` |
//! | `iscsi-target/src/task/answer.rs` | `answer` `send_in_place` |
//! | `iscsi-target/src/connection/link.rs` | `send_lu_part` |
//!
//! `request_read` returns an [`Io`], which [`Target::poll_io`] passes on. The shell answers with
//! [`IoResult::ReadInPlace`], which leaves the bytes in the LU. At the end of the path a Data-In
//! header with status and the LU's range are in the connection's [`Transmit`].
//! [`Target::poll_transmit`] returns the connection, the shell sends everything that is ready with
//! one `sendmsg`, and [`Target::handle_transmitted`] removes it from the queue. The path looks a
//! connection up seven times: twice in [`Target::transmit`], once in [`Target::wants_received`] and
//! once in each other call.
//!
//! # Files
//!
//! | file | contents |
//! |---|---|
//! | `endpoint` | accepts connections, resolves ids, settles effects; the interface to the shell |
//! | `endpoint/effects` `endpoint/management` `endpoint/resume` | reinstatement and unit attentions; task management; commands that wait for budget or a range |
//! | `endpoint/sending` `endpoint/lent` `endpoint/timeouts` | bytes taken by the kernel, memory lent to it, deadlines |
//! | `endpoint/operator` `endpoint/audit` | changes while the target runs; the check after a panic |
//! | `connection` | a connection and its phase |
//! | `connection/receive` `connection/pdu` | bytes to PDUs, in the order of their CmdSN |
//! | `connection/link` `connection/deadlines` `connection/end` | send queue, sequence numbers, clocks; the end of a connection |
//! | `connection/session` `connection/control` `connection/text` | full feature phase: NOP, logout, reject, discovery |
//! | `login` `login/state` `login/begin` | negotiation, and the transition to full feature phase |
//! | `login/authentication` `login/access` `login/budget` `login/refusal` | CHAP; the access list; the bound on logins; refused logins |
//! | `task` `task/tags` | a SCSI command that is not answered yet; tasks by ITT |
//! | `task/command` `task/read` `task/write` `task/data_out` | from the command PDU to the storage |
//! | `task/parameters` `task/program` | commands with a parameter list, and with several accesses |
//! | `task/answer` `task/abort` | the end of a task, with and without an answer |
//! | `shared` `shared/outbox` `shared/barriers` | state of all connections; effects; actions that wait for aborted tasks |
//! | `shared/sessions` `shared/remains` `shared/accesses` | directory of sessions; tasks of ended sessions; accesses for the storage |
//! | `shared/transitions` | changes of port states in progress |
//! | `transmit` | the send queue |
//! | `config` `counters` `id` | configuration, counters, names of connections |
//!
//! Commands are executed by the device server of the crate `scsi-device`.
//!
//! **Not supported**: error recovery levels above 0, more than one connection in a session,
//! Kerberos and SRP, bidirectional commands, task attributes other than SIMPLE (ORDERED and HEAD OF
//! QUEUE are executed as SIMPLE).
#![forbid(unsafe_code)]

mod config;
mod connection;
mod counters;
mod endpoint;
mod id;
mod login;
mod shared;
mod task;
mod transmit;

pub use config::{Limits, TargetConfig};
pub use endpoint::Target;
pub use hakaru_scsi_device::{
    DeviceKind, Extent, InquiryNames, Io, IoFailure, IoId, IoOp, IoResult, Lent, LuDescription,
    PortGroupDescription, RecordError, Returned, Space, TapeLibrary, Thin, check_reservations,
};
pub use id::ConnectionId;
pub use login::access::{Access, AccessError, AddressPrefix, LuAccess, PrefixError, Rule};
pub use login::authentication::Entropy;
pub use login::refusal::LoginRefusal;
pub use transmit::{Segment, Transmit};
