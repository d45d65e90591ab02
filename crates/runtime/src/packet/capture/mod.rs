//! Captures: copies of packets that an interface receives and sends, up to a snap length.
mod filter;
mod options;
mod ring;

pub use options::RingOptions;
pub use ring::{CaptureRing, Captured};
