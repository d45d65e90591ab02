//! An iSCSI target (RFC 7143) and the SCSI disks behind it, as a state machine without I/O.
//!
//! # The path of a READ, from socket to reply
//!
//! Every function is called by one that stands before it, except where `⇒` says that the shell stands between. A test holds the list to the code.
//!
//! | file | functions |
//! |---|---|
//! | `iscsi-target/src/receive.rs` | `handle_received` `end_pdu` |
//! | `iscsi-target/src/full_feature.rs` | `handle_full_feature_pdu` `order` `deliver` `dispatch` |
//! | `iscsi-target/src/command.rs` | `scsi_command` |
//! | `scsi-device/src/commands/mod.rs` | `execute` |
//! | `scsi-device/src/commands/block.rs` | `execute` `read` |
//! | `iscsi-target/src/command.rs` | `carry_out` `start_read` `ask_read` |
//! | `iscsi-target/src/answer.rs` | ⇒ `handle_io_done` `answer` `send_in_place` |
//! | `iscsi-target/src/connection.rs` | `send_lu_part` |
//! | `iscsi-target/src/transmit.rs` | `push_lu` |
//!
//! `ask_read` queues an [`Io`], which [`Target::poll_io`] gives out; the shell answers with [`IoResult::ReadInPlace`]: the bytes are where they are.
//! At the end a Data-In header with status and the LU's range are in the connection's [`Transmit`]; [`Target::poll_transmit`] names the
//! connection, the shell sends all that is ready with one `writev`, and [`Target::handle_transmitted`] takes it off the queue.
//!
//! A shell's loop is in the documentation of [`Target`].
//!
//! | file | contents |
//! |---|---|
//! | `target` | the owner of everything; what a shell calls |
//! | `receive` `connection` `transmit` `sending` `lent` | bytes in, one connection's state, bytes out, memory lent to the kernel |
//! | `login` `login_budget` `refusal` `text` | negotiation and discovery; the bound on logins; refused logins |
//! | `authentication` `access` | who an initiator is, and what it may see |
//! | `session` `tags` `full_feature` | order of commands; NOP, logout, reject |
//! | `command` `data_out` `answer` `task` | a SCSI command from its PDU to its status |
//! | `parameters` | commands with a parameter list, and what a command means to other initiators |
//! | `steps` | commands that take several accesses |
//! | `management` `remains` | what ends tasks, and what must wait for their end |
//! | `operator` | what changes while the target runs: size, space, ports, LUs |
//! | `clock` `counters` `config` `id` `audit` | deadlines, numbers, names; the check of what sessions share |
//!
//! Commands are carried out by the device server of the crate `scsi-device`.
//!
//! **Not supported**: error recovery levels above 0, more than one connection in a session, Kerberos and SRP, bidirectional commands, task
//! attributes other than SIMPLE (ORDERED and HEAD OF QUEUE are carried out as SIMPLE).
#![forbid(unsafe_code)]

mod access;
mod answer;
mod audit;
mod authentication;
mod clock;
mod command;
mod config;
mod connection;
mod counters;
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
mod sending;
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
