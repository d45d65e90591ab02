//! Access to the operating system: clock, reactor, sockets, files, signals, and counters of the
//! process.
//!
//! The shells in `crates/engine` call this crate; no core crate does. It knows neither iSCSI nor
//! studies.
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
//!     waiter.wait(&reactor, deadline)          deadline: the core's poll_timeout
//! }
//! ```
//!
//! - Files and block devices go through a [`file::FileQueue`] (io_uring, or threads). Other
//!   blocking work (a pool's commits, reservations) goes through a [`process::worker::Worker`].
//! - The few threads beside the loop (stdout's writer, file I/O, workers, packet writers) wake it
//!   through a [`Waker`].
//! - The fabric's shell reads frames from a ring shared with the kernel. A [`packet::PacketWriter`]
//!   may write them on another processor, because the receiver's TCP runs within that call.
//!
//! | module | contents |
//! |---|---|
//! | [`vhost_user`] | Ethernet frames received from and sent to the shared memory of a guest |
//! | [`wait`] | `CLOCK_MONOTONIC`, timers, the reactor (epoll), the policy by which a shell waits |
//! | [`net`] | non-blocking TCP, socket options, the kernel's state of TCP connections |
//! | [`packet`] | Ethernet frames received from and sent to an interface; captures |
//! | [`mod@file`] | files and block devices, through io_uring or threads; a pool's metadata and its lock |
//! | [`memory`] | an LU's bytes in RAM, thin; zero-copy sends of this memory |
//! | [`trace`] | the kernel's tracepoints: their layouts and events |
//! | [`process`] | signals, parent death, namespaces, limits, counters, random bytes, lines, workers |
pub mod file;
pub mod memory;
pub mod net;
pub mod packet;
pub mod process;
pub mod trace;
pub mod vhost_user;
pub mod wait;

pub use wait::{Event, Events, Interest, Reactor, Token, WaitPolicy, Waiter, Waker, clock};
