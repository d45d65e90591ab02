//! Timing models of storage arrays: they compute *when* a request completes and never touch its
//! data.
//!
//! # Grammar
//!
//! [`Array::new`] builds a model from its configuration and a seed. [`Array::handle_request`] takes
//! a [`Request`] (read, write, unmap or flush of a range of one RAID group),
//! [`Array::poll_timeout`] returns when [`Array::handle_timeout`] has to be called next, and
//! [`Array::poll_completion`] returns completed requests. Time is integer nanoseconds passed in by
//! the caller. The only randomness is the angle of each platter at the origin of time and the
//! earlier content of a flash drive; both are drawn from the seed. A late call does not change the
//! model: events happen at their own instants.
//!
//! # Path of one request through [`Array`]
//!
//! 1. The data of a write comes in through the port, if there is one (`server.rs`).
//! 2. The controller spends its cost on the command, one command at a time (`array.rs`).
//! 3. The cache, if there is one, answers it, queues it, or accesses the groups on its behalf
//!    (`cache/`).
//! 4. The RAID group maps the range (`extents.rs`) and turns it into drive commands
//!    (`raid/`), which the group runs (`groups.rs`): at most two rounds, reads of old data and
//!    parity, then writes.
//! 5. A hard disk picks the command that it reaches soonest, unless one has waited too long
//!    (`hdd.rs`); seek (`seek.rs`), rotation and transfer (`geometry.rs`) follow from where the
//!    head and the platter are at that instant. A flash drive works on many commands at once, on
//!    dies that also collect garbage (`ssd/`).
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
pub use request::{Completion, Op, Request};
pub use validate::{ModelError, resolve};
