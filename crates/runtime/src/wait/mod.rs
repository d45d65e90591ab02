//! Time and events: the clock, the reactor, which waits for descriptors and deadlines, and the
//! policy by which a shell waits ([`Waiter`]).
mod alarm;
pub mod clock;
mod coalescing;
mod guess;
mod pacer;
mod reactor;
mod token;
mod waiter;
mod wake_ahead;

pub use coalescing::Coalescing;
pub use pacer::Pacer;
pub use reactor::{Event, Events, Interest, Reactor, Registrar, Waker};
pub use token::Token;
pub use waiter::{WaitPolicy, Waiter};
pub use wake_ahead::WakeAhead;
