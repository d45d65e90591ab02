//! The kernel's tracepoints: their layouts from tracefs, and their events from rings.
pub mod ring;
pub mod tracefs;
