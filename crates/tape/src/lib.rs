//! Tape cartridges, drives and libraries, without I/O and without a clock.
//!
//! A cartridge is an index ([`Medium`]) and a region of bytes on a store outside this crate. A
//! drive ([`Drive`]) executes requests of SSC-3 on the cartridge in it: it returns the pieces of
//! the region to read or write, and the condition with which the command ends. A library
//! ([`Library`]) moves cartridges between its elements (SMC-3).
//!
//! A caller executes a command in this order:
//!
//! 1. [`Drive::settle`] ends the transfer before: a write that was not stored is taken back.
//! 2. [`Drive::read`], [`Drive::write`], [`Drive::space`], … return pieces and condition.
//! 3. After it has moved the bytes of a [`Transfer`], the caller calls [`Ticket::done`].
//!
//! | file | contents |
//! |---|---|
//! | `medium` | blocks and filemarks of a cartridge as runs |
//! | `condition` | conditions that end a command, and their sense data |
//! | `generation` | properties of LTO generations |
//! | `ticket` | whether a transfer is in progress, done or lost |
//! | `cartridge` | a cartridge: barcode, region, medium |
//! | `drive` | requests of SSC-3 |
//! | `library` | elements and moves of SMC-3 |
//!
//! **Not supported**: partitions, WORM, encryption, setmarks, logical block protection.
#![forbid(unsafe_code)]

mod cartridge;
mod condition;
mod drive;
mod generation;
mod library;
mod medium;
mod ticket;

pub use cartridge::{Cartridge, Region};
pub use condition::Condition;
pub use drive::{BLOCK_BYTES_MAX, Counters, Drive, Transfer};
pub use generation::{Density, Generation};
pub use library::{
    Element, ElementKind, Library, LibraryConfig, MoveError, Moved, Placed, TRANSPORT,
};
pub use medium::{GRANULE_BYTES, Medium, Object, Piece, RUNS_MAX};
pub use ticket::Ticket;
