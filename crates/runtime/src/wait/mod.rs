//! Time and events: the clock, and the reactor that waits for descriptors and deadlines.
mod alarm;
pub mod clock;
mod guess;
mod reactor;
mod token;

pub use reactor::{Event, Events, Interest, Reactor, Waker};
pub use token::Token;
