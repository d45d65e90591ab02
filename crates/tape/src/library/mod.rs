//! A tape library: elements that hold cartridges, and a transport that moves them (SMC-3).

mod elements;
mod moves;

pub use elements::{Element, ElementKind, Library, TRANSPORT};
pub use moves::{MoveError, Moved, Role};
