//! Caps on the rates of accesses to LUs, and shares: state machines without I/O.
//!
//! A [`Throttle`] is between a target and its storage. Each [`Cap`] is a token bucket for the
//! accesses of some initiators to some LUs ([`Scope`]). An access passes every cap whose scope it is
//! in, in the order of the configuration, and waits in the queue of each that has no token for it.
//!
//! # Grammar
//!
//! ```text
//! access of the target → route(lun, initiator)
//!     empty route   → pass the access to the storage at once
//!     else          → handle_access, then poll_passed
//! timer             → handle_timeout at poll_timeout, then poll_passed
//! task aborted      → remove
//! ```
//!
//! The time is an argument. An access passes at an exact instant that depends only on arrivals and
//! caps. A caller that is late passes it on later, but later accesses are not delayed by this, so a
//! cap holds its rate on a machine that wakes up late.
//!
//! | file | contents |
//! |---|---|
//! | `route.rs` | scopes, and the caps that an access passes |
//! | `bucket.rs` | one cap: its tokens, its queue, its counters |
//! | `throttle.rs` | all caps, and the queue of their deadlines |
//! | `shares.rs` | classes with shares of the accesses in flight |
//!
//! Behind the caps are [`Shares`]: at most a certain number of accesses is in flight, and those that
//! wait are dispatched in proportion to the shares of their classes:
//!
//! ```text
//! access              → handle_access, then poll_dispatched until it returns None
//! access has ended    → handle_done, then poll_dispatched until it returns None
//! task aborted        → remove
//! ```
//!
//! **Not supported**: shares within a cap. Its queue is in order of arrival, so initiators that share
//! a cap share its rate in proportion to the accesses that they have in flight.
#![forbid(unsafe_code)]

mod bucket;
mod route;
mod shares;
mod throttle;

pub use bucket::{Cap, CapCounters};
pub use route::{Route, Scope};
pub use shares::{ClassIndex, Shares};
pub use throttle::Throttle;
