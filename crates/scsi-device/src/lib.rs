//! A SCSI device server (SAM-5): logical units and what each command does to them. It knows no
//! transport and does no I/O.
//!
//! In: an I_T nexus, a CDB and the data of the initiator. Out: accesses to the LUs' bytes ([`Io`]),
//! parameter data, status and sense data. Today the LUs are disks (SBC-3); further device types are
//! further families of commands.
//!
//! | file | contents |
//! |---|---|
//! | `io` | the accesses that are asked of the storage, and their results |
//! | `config` `limits` | what an LU is; bounds of commands |
//! | `nexus` `rights` | an I_T nexus, its unit attention conditions, the LUs that it may see and write |
//! | `unit` `port` `reservations` | the state of LUs and target ports |
//! | `context` `outcome` | what a command works on, and what it comes to |
//! | `commands` | one file per family of commands |
//! | `background` | the accesses of long commands, which take turns |
//! | `program` `ranges` | commands that take several accesses; ranges that a command holds exclusively |
//! | `buffers` | buffers that are used again |
//!
//! **Not supported**: ORDERED and HEAD OF QUEUE tasks are carried out as SIMPLE ones; ACA;
//! bidirectional commands.
#![forbid(unsafe_code)]

mod background;
mod buffers;
mod commands;
mod config;
mod context;
mod io;
mod limits;
mod nexus;
mod outcome;
mod port;
mod program;
mod ranges;
mod reservations;
mod rights;
mod unit;
mod verdict;

pub use background::{Background, SHORT_BYTES, work_bytes};
pub use buffers::Buffers;
pub use commands::{DeviceServer, Directions};
pub use config::{LuDescription, Space, Thin};
pub use io::{Extent, Io, IoFailure, IoId, IoOp, IoResult, Lent, Returned};
pub use nexus::{Copies, CopyResult, Nexus, NexusState};
pub use outcome::{Notice, Outcome, WRONG_DIRECTION};
pub use port::Port;
pub use program::{Answer, Job, OtherLength, Program, Step, Workplace};
pub use ranges::{Claim, Ranges};
pub use reservations::{RecordError, check_reservations};
pub use rights::Rights;
pub use unit::{LogicalUnit, LogicalUnits};
pub use verdict::{SenseFormat, Verdict};
