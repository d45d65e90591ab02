//! `sock_diag`: requests to the kernel for TCP sockets over netlink, and its answers
//! (include/uapi/linux/inet_diag.h, netlink.h).
//!
//! This module emits requests and parses answers; the shell sends and receives. There are two kinds
//! of request. A *dump* returns the sockets of a family with given ports; the kernel filters with a
//! small program in the request. A request by addresses and cookie returns a single socket, and
//! many of them fit in one message. For few sockets that is far cheaper, because a dump walks the
//! table of all connections of the machine.
//!
//! | file | contents |
//! |---|---|
//! | `socket_id` | identity of a socket |
//! | `request` | requests |
//! | `answer` | answers |
//! | `netlink` | numbers and fields of the messages |
mod answer;
mod netlink;
mod request;
mod socket_id;

pub use answer::{Answer, Answers, Memory, Socket, answers};
pub use request::{Family, PORTS_MAX, emit_dump, emit_request_of};
pub use socket_id::SocketId;
