//! The kernel's tracepoints: their layouts in tracefs, their events in rings.
pub mod ring;
pub mod tracefs;
