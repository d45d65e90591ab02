//! Everything that touches the operating system: clock, reactor, sockets, stores, signals, counters of the process.
//!
//! The shells in `crates/engine` call it; no core crate does. It knows nothing of iSCSI, of the contract or of
//! studies: it moves bytes and tells the time. One engine is one thread around one [`Reactor`]; the few threads beside it
//! (the writer of stdout, the pools for file I/O) hand their results back through a [`Waker`].
//!
//! | module | what it is |
//! |---|---|
//! | [`clock`] | `CLOCK_MONOTONIC` as [`hakaru_units::Time`], timer slack |
//! | [`entropy`] | the kernel's random bytes |
//! | [`reactor`] | epoll with absolute deadlines in nanoseconds; [`Waker`] |
//! | [`file`] | files and block devices, through io_uring or threads |
//! | [`disk`] | a pool's metadata on a file; the lock on its folder |
//! | [`net`] | non-blocking TCP: listen, accept, connect, receive, gather-send |
//! | [`tcp_info`] | what the kernel's TCP knows of a connection |
//! | [`sock_diag`] | a netlink socket that asks the kernel for TCP sockets |
//! | [`tracefs`], [`trace_ring`] | the kernel's tracepoints: their layouts, their events |
//! | [`socket_options`] | what sockets are told before they connect or listen |
//! | [`capture`] | copies of the packets of an interface, through a ring shared with the kernel |
//! | [`packet`] | whole Ethernet frames of an interface, received and sent |
//! | [`lines`] | lines from stdin, lines to stdout |
//! | [`memory`] | an LU's bytes in RAM, thin |
//! | [`page_pipe`] | memory on its way to a socket by reference |
//! | [`worker`] | blocking work on a thread of its own |
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
