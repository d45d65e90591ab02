//! Image backup without I/O: each job reads an LU in order and writes it to another, each over
//! sessions of its own.
//!
//! The path of one block:
//! 1. [`Part`] says which block is next, as long as fewer than `depth` are under way and the job's [`Pace`] lets it go;
//! 2. [`Job`] makes a READ of it on the stream's [`Nexus`](hakaru_iscsi_session::Nexus) to the source;
//! 3. what was read is digested (where the copy is to be verified), packed (where compression was asked for) and becomes a WRITE on the nexus to
//!    the destination: the same buffer, not a copy, which is read into again afterwards;
//! 4. when the last write is acknowledged, SYNCHRONIZE CACHE makes the copy one that stays;
//! 5. [`Check`] reads it back and compares, where that was asked for.
//!
//! Nothing here has a socket, a thread or a clock: the caller says what time it is.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod counters;
mod digest;
mod error;
mod job;
mod pace;
mod pack;
mod part;
mod plan;

pub use check::Check;
pub use counters::Counters;
pub use digest::Digest;
pub use error::{JobError, Side};
pub use job::{Job, JobEvent, Leg, Settings};
pub use pace::Pace;
pub use pack::{Packer, Unpacker, packed_bytes_max};
pub use part::{Evidence, Part, Place, Read, Write};
pub use plan::plan_parts;
