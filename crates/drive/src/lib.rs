//! Timing models of storage arrays: says *when* a request completes, never touches its data.
//!
//! The path of one request through [`Array`]:
//!
//! 1. a write's data comes in through the port, if there is one (`array.rs`);
//! 2. the controller spends its cost on the command, one command at a time (`array.rs`);
//! 3. the cache, if there is one, answers it, lets it wait, or asks the groups on its behalf (`cache/`);
//! 4. the RAID group finds where it lies (`extents.rs`) and turns it into drive commands (`raid.rs`), which the group runs (`groups.rs`): at most two rounds, reads of
//!    old data and parity, then writes;
//! 5. each hard disk picks the command that it reaches soonest, unless one has waited too long (`hdd.rs`); seek (`seek.rs`),
//!    rotation and transfer (`geometry.rs`) follow from where the head and the platter are at that instant; a flash drive works on many
//!    at once, on dies that also collect garbage (`ssd/`);
//! 6. when the last drive command ends, a read's data leaves through the port, and the request is complete.
//!
//! Time is integer nanoseconds handed in by the caller; the only randomness is where each platter stands at the origin
//! and what a flash drive was overwritten with before, drawn from the seed. Being called late does not change the model: events happen at their own instants.
#![forbid(unsafe_code)]

pub mod array;
mod cache;
mod drive;
mod extents;
mod geometry;
mod groups;
mod hdd;
mod preset;
mod raid;
mod seek;
mod ssd;
mod usage;
mod validate;

pub use array::{Array, Completion, Request};
pub use preset::{array_presets, drive_presets};
pub use raid::Op;
pub use validate::{ModelError, resolve};
