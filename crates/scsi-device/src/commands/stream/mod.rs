//! The commands of tape drives (SSC-3).
//!
//! The drive itself is in `hakaru-tape`. The families here translate commands into its requests,
//! and its conditions into sense data. READ and WRITE are programs that access the store of the
//! cartridges. So are commands that make durable what was written: WRITE FILEMARKS without IMMED,
//! ERASE, REWIND, SPACE, LOCATE, LOAD UNLOAD, MOVE MEDIUM. Every other command ends at once. A
//! command that arrives while another one still moves bytes gets BUSY, so that blocks keep their
//! order. With IMMED, a command ends once what was written is durable, and the tape moves on
//! without it; a command that arrives meanwhile gets NOT READY.

pub(super) mod attributes;
pub(super) mod density;
pub(super) mod drive;
pub(super) mod host_attributes;
pub(super) mod load;
pub(super) mod log;
pub(super) mod mode;
mod mode_pages;
pub(super) mod position;
pub(super) mod service;
pub(super) mod timeouts;
pub(super) mod transfer;
pub(super) mod vital;
