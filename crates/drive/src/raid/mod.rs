//! Mapping of a RAID group's requests to drive commands.
//!
//! **Not modelled**: no lock on a stripe, so two writes that meet in one row do not wait for each
//! other; no spare, no degraded group.
mod layout;
mod plan;

pub(crate) use layout::Layout;
pub(crate) use plan::{Piece, Stage, plan};
