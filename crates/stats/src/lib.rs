//! Mergeable latency histograms.
//!
//! Every engine that times requests records into a [`Latency`]. It reports the [`Histogram`] of the
//! interval once per sample and that of the measuring phase at the end. Readers merge histograms
//! first and compute percentiles last, so that the total always equals the sum of its parts.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod histogram;
mod latencies;
mod latency;

pub use histogram::{DecodeError, Histogram};
pub use latencies::{GroupLatencies, Latencies};
pub use latency::Latency;
