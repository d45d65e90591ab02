//! Image backup jobs, without I/O.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod config;
