//! Timing models of storage arrays. They compute *when* a request completes and never access its
//! data.
//!
//! # Grammar
//!
//! [`Array::new`] builds a model from its configuration and a seed. [`Array::handle_request`] takes
//! a [`Request`] (read, write, unmap or flush of a range of one RAID group),
//! [`Array::poll_timeout`] returns when [`Array::handle_timeout`] has to be called next, and
//! [`Array::poll_completion`] returns completed requests. The caller passes in the time, in integer
//! nanoseconds. Only the angle of each platter at the origin of time and the earlier content of a
//! flash drive are random; both are drawn from the seed. A late call does not change the results,
//! because events happen at their own instants.
//!
//! # Path of one request through [`Array`]
//!
//! 1. The data of a write arrives through the port, if there is one (`server.rs`).
//! 2. The controller processes commands one at a time (`array.rs`).
//! 3. The cache, if there is one, serves the request, queues it, or accesses the groups for it
//!    (`cache/`).
//! 4. The RAID group maps the range (`extents.rs`), plans its drive commands (`raid/`) and runs
//!    them in at most two rounds (`groups.rs`): reads of old data and parity, then writes.
//! 5. A hard disk selects the command that it can reach first, unless one has waited too long
//!    (`hdd.rs`). Seek (`seek.rs`), rotation and transfer (`geometry.rs`) follow from the position
//!    of head and platter at that instant. A flash drive works on many commands at once, with dies
//!    that also collect garbage (`ssd/`).
//! 6. When the last drive command ends, the data of a read leaves through the port, and the request
//!    is complete.
#![forbid(unsafe_code)]

pub mod array;
mod cache;
mod command;
mod drive;
mod extents;
mod geometry;
mod groups;
mod hdd;
mod preset;
mod raid;
mod request;
mod seek;
mod server;
mod ssd;
mod usage;
mod validate;

pub use array::Array;
pub use preset::{array_presets, drive_presets};
pub use request::{Completion, Emptied, Op, Request};
pub use validate::{ModelError, resolve};
