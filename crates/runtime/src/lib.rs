//! Everything that touches the operating system: clock, reactor, sockets, files, signals, counters
//! of the process.
//!
//! The shells in `crates/engine` call it; no core crate does. It depends neither on iSCSI nor on
//! studies: it moves bytes and reads the clock.
//!
//! # Grammar
//!
//! A shell is one thread and one loop around one [`Reactor`] (edge-triggered sockets, absolute
//! deadlines in nanoseconds):
//!
//! ```text
//! loop {
//!     read every socket that is ready          → the core's handle_*
//!     let the core settle, send all output     ← the core's poll_*
//!     queue.flush()                            file requests of this turn, in one system call
//!     reactor.wait(&mut events, deadline)      deadline: the core's poll_timeout
//! }
//! ```
//!
//! - Files and block devices go through a [`file::FileQueue`] (io_uring, or threads). Other
//!   blocking work (a pool's commits, reservations) goes through a [`worker::Worker`].
//! - The few threads beside the loop (stdout's writer, file I/O, packet writers) return their
//!   results through a [`Waker`].
//! - The fabric's shell reads frames from a ring shared with the kernel. A [`packet::PacketWriter`]
//!   may write them on another processor, because the receiver's TCP runs within that call.
//!
//! | module | contents |
//! |---|---|
//! | [`clock`] | `CLOCK_MONOTONIC` as [`hakaru_units::Time`], timer slack |
//! | [`entropy`] | the kernel's random bytes |
//! | [`reactor`] | epoll with absolute deadlines in nanoseconds; [`Waker`] |
//! | [`file`] | files and block devices, through io_uring or threads |
//! | [`disk`] | a pool's metadata on a file; the lock on its folder |
//! | [`net`] | non-blocking TCP: listen, accept, connect, receive, gather-send |
//! | [`tcp_info`] | state of a connection in the kernel's TCP |
//! | [`sock_diag`] | a netlink socket that asks the kernel for TCP sockets |
//! | [`tracefs`], [`trace_ring`] | the kernel's tracepoints: their layouts, their events |
//! | [`socket_options`] | options of sockets before they connect or listen |
//! | [`capture`] | copies of the packets of an interface, through a ring shared with the kernel |
//! | [`packet`] | whole Ethernet frames of an interface, received and sent |
//! | [`lines`] | lines from stdin, lines to stdout |
//! | [`memory`] | an LU's bytes in RAM, thin |
//! | [`page_pipe`] | memory sent to a socket by reference |
//! | [`worker`] | blocking work on a separate thread |
//! | [`process`] | signals, parent death, network namespaces, descriptor limit, resource counters |
mod alarm;
pub mod capture;
pub mod clock;
pub mod disk;
pub mod entropy;
pub mod file;
mod guess;
mod lent;
pub mod lines;
pub mod memory;
pub mod net;
pub mod packet;
pub mod page_pipe;
pub mod process;
pub mod reactor;
pub mod sock_diag;
pub mod socket_options;
pub mod tcp_info;
mod token;
pub mod trace_ring;
pub mod tracefs;
pub mod worker;

pub use reactor::{Event, Events, Interest, Reactor, Waker};
pub use token::Token;
