//! Mergeable latency histograms.
//!
//! Every engine that times requests records into a [`Latency`], gives out the interval's [`Histogram`] once per sample and
//! the measuring phase's at the end. Percentiles are never computed here: parts are merged by whoever reads them and
//! percentiles come last, so the total always equals the sum of its parts.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod histogram;
mod latencies;
mod latency;

pub use histogram::{DecodeError, Histogram};
pub use latencies::Latencies;
pub use latency::Latency;
