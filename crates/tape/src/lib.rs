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
//! 2. [`Drive::read`], [`Drive::write`], [`Drive::space_blocks`], … return pieces and condition.
//! 3. After it has moved the bytes of a [`Transfer`], the caller calls [`Ticket::done`].
//! 4. [`Drive::synchronise`] returns the [`Record`] that makes the index durable, for commands that
//!    synchronise. The caller writes it as the record says.
//!
//! | file | contents |
//! |---|---|
//! | `medium` | blocks and filemarks of a cartridge as runs |
//! | `condition` | conditions that end a command, and their sense data |
//! | `generation` `ratio` | properties of LTO generations; compression |
//! | `ticket` | whether a transfer is in progress, done or lost |
//! | `attributes` `memory` | what programs write into the memory of a cartridge |
//! | `cartridge` | a cartridge: barcode, region, medium |
//! | `counters` `alerts` | totals and TapeAlert flags of a drive |
//! | `drive` `read_write` `motion` | requests of SSC-3 |
//! | `recorded` | format of a cartridge on a store: header, records of the index, reading |
//! | `journal` | the records that a cartridge writes |
//! | `timing/` | times of a real drive |
//! | `simh` | the format `.tap`, for export and import |
//! | `config` | description of a library |
//! | `library/` | elements and moves of SMC-3 |
//!
//! **Not supported**: partitions, WORM, encryption, setmarks, logical block protection.
#![forbid(unsafe_code)]

mod alerts;
mod attributes;
mod cartridge;
mod condition;
mod config;
mod counters;
mod drive;
mod generation;
mod journal;
mod library;
mod medium;
mod memory;
mod motion;
mod ratio;
mod read_write;
mod recorded;
pub mod simh;
mod ticket;
pub mod timing;

pub use alerts::{Alert, Alerts};
pub use attributes::{AttributeFormat, HOST_ATTRIBUTES, HostAttribute, HostAttributes};
pub use cartridge::{Cartridge, Region};
pub use condition::Condition;
pub use config::{LibraryConfig, Placed};
pub use counters::Counters;
pub use drive::{Continued, Drive};
pub use generation::{Density, Generation};
pub use journal::{Journal, Lost, Record, index_of};
pub use library::{Element, ElementKind, Library, MoveError, Moved, Role, TRANSPORT};
pub use medium::{BLOCK_BYTES_MAX, GRANULE_BYTES, Medium, Object, Piece, RUNS_MAX};
pub use memory::Memory;
pub use ratio::Ratio;
pub use read_write::Transfer;
pub use recorded::{
    Damage, FRAME_BYTES, HEADER_BYTES, Header, MemoryTail, ReadAt, ReadError, Recovered, Tail,
    recover,
};
pub use ticket::Ticket;
