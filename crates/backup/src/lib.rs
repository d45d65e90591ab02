//! Image backup without I/O: each job reads an LU in order and writes it to another, each over
//! sessions of its own, or through the disks that the kernel has for them.
//!
//! # Grammar
//!
//! [`Job`] is one image. Its *legs* are the sessions of its streams: one to the source and one to
//! the destination for each stream. A shell connects every leg, then calls:
//!
//! - [`Job::handle_connected`], [`Job::handle_received`], [`Job::handle_closed`] and
//!   [`Job::handle_timeout`] take the events of one leg. [`Job::issue`] follows each of them.
//! - [`Job::poll_event`] returns, in this order: [`JobEvent::Ready`], after which [`Job::begin`]
//!   starts the copy; [`JobEvent::Copied`], after which [`Job::verify`] may read the copy back;
//!   [`JobEvent::Verified`]. [`JobEvent::Redirected`] asks for another connection of a leg.
//!   [`JobEvent::Failed`] may come at any time and is the last event of the copy.
//! - A job to a tape drive ([`tape`](hakaru_contract::backup::TapeDestination)) is prepared by
//!   [`Job::mount`] first ([`JobEvent::Mounted`]), or when it begins. Jobs that use the same drive
//!   take [`Turns`]: [`Job::wait`] starts the time of those that follow another one.
//! - A job on [`disks`](hakaru_contract::backup::Disks) has no sessions, because the kernel is the
//!   initiator. Its legs are opened ([`Job::handle_opened`]) instead of connected, and the shell
//!   executes the requests of [`Job::poll_disk`]. [`Job::issue`] follows their results as well.
//! - [`Job::end`] stops reading before the end of the image. [`Job::log_out`] ends the sessions,
//!   each with a [`JobEvent::LoggedOut`].
//! - [`Job::poll_transmit`] returns the legs that may have data to send, because an event of one
//!   leg gives work to others. [`Job::transmit`] returns the data, and [`Job::poll_timeout`] the
//!   leg's next deadline.
//! - [`Job::counters`], [`Job::facts`], [`Job::places`] and [`Job::copy_duration`] are the results.
//!
//! Latencies belong to the engine: calls that complete commands take its `Latencies`.
//!
//! # Path of one block
//!
//! 1. [`Part`] chooses the next block, while fewer than `depth` are in flight and the job's
//!    [`Pace`] admits it.
//! 2. [`Job`] issues a READ on the stream's [`Nexus`](hakaru_iscsi_session::Nexus) to the source.
//! 3. The block is digested (for verification) and packed (with compression), and becomes a WRITE
//!    on the nexus to the destination. Without compression the write uses the read's buffer without
//!    a copy; the buffer is reused for another read afterwards.
//! 4. After the last write is acknowledged, SYNCHRONIZE CACHE makes the copy durable.
//!    On a tape, a filemark does.
//! 5. [`Check`] reads the copy back and compares it, if the job verifies.
//!
//! On disks, a read, a write and a flush of the shell take the place of these commands. The shell
//! copies each block once more in either direction, because the kernel needs aligned memory.
//!
//! Nothing here has a socket, a thread or a clock: the caller passes the time.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod counters;
mod digest;
mod disk;
mod error;
mod job;
mod pace;
mod pack;
mod part;
mod plan;
mod tape;

pub use check::{Check, Outcome};
pub use counters::Counters;
pub use digest::Digest;
pub use disk::{DiskOp, DiskRequest};
pub use error::{JobError, Side};
pub use job::{Job, JobEvent, Leg, Settings};
pub use pace::Pace;
pub use pack::{Packer, Unpacker, packed_bytes_max};
pub use part::{Evidence, Part, Place, Read, Write};
pub use plan::plan_parts;
pub use tape::{TapeError, Turns};
