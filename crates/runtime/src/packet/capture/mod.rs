//! Captures: copies of the packets that an interface receives and sends, truncated to a snap
//! length.
mod filter;
mod options;
mod ring;

pub use options::{RingOptions, Selection};
pub use ring::{CaptureRing, Captured};
