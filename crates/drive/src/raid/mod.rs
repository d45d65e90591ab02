//! Mapping of a RAID group's requests to drive commands.
//!
//! **Not modelled**: stripe locks (two writes to one row do not wait for each other), spares,
//! degraded groups.
mod layout;
mod plan;

pub(crate) use layout::Layout;
pub(crate) use plan::{Piece, Stage, plan};
