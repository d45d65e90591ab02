//! A SCSI device server (SAM-5): logical units and the commands that act on them. It is independent
//! of the transport and does no I/O.
//!
//! Its input is an I_T nexus, a CDB and the data from the initiator. Its output is accesses to the
//! LUs' bytes ([`Io`]), parameter data, status and sense data. The LUs are disks (SBC-3), or the
//! drives (SSC-3) and the medium changer (SMC-3) of a tape library. Each device type has its list of
//! command families.
//!
//! | file | contents |
//! |---|---|
//! | `io` | accesses requested from the storage, and their results |
//! | `config` `limits` | properties of an LU; bounds of commands |
//! | `nexus` `rights` | an I_T nexus, its unit attention conditions, the LUs that it may see and write |
//! | `unit` `port` `reservations` `identifying` | the state of LUs and target ports |
//! | `context` `outcome` | context and outcome of a command |
//! | `tape` `volumes` | the tape library behind its LUs; searches for its cartridges |
//! | `commands` | one file per family of commands |
//! | `background` | accesses of long commands, which take turns |
//! | `program` `ranges` | commands with several accesses; ranges that a command holds exclusively |
//! | `buffers` | pool of reusable buffers, and the write budget |
//!
//! **Not supported**: ACA and bidirectional commands. ORDERED and HEAD OF QUEUE tasks are executed
//! as SIMPLE tasks.
#![forbid(unsafe_code)]

mod background;
mod buffers;
mod commands;
mod config;
mod context;
mod identifying;
mod io;
mod limits;
mod nexus;
mod outcome;
mod port;
mod program;
mod ranges;
mod reservations;
mod rights;
mod tape;
mod unit;
mod verdict;
mod volumes;

pub use background::{Background, SHORT_BYTES, work_bytes};
pub use buffers::Buffers;
pub use commands::{DeviceServer, Directions};
pub use config::{DeviceKind, InquiryNames, LuDescription, Space, TapeLibrary, Thin};
pub use hakaru_tape::Record as TapeRecord;
pub use io::{Extent, Io, IoFailure, IoId, IoOp, IoResult, Lent, Returned};
pub use nexus::{Copies, CopyResult, Nexus, NexusState};
pub use outcome::{Notice, Outcome, WRONG_DIRECTION};
pub use port::{AccessGroup, PortChange, PortGroupDescription, TargetPorts};
pub use program::{Answer, Job, LengthMismatch, Program, Step, StepContext};
pub use ranges::{Claim, Ranges};
pub use reservations::{RecordError, check_reservations};
pub use rights::Rights;
pub use unit::{LogicalUnit, LogicalUnits};
pub use verdict::{SenseFormat, Verdict};
